"""Talk that states no fact anybody asks about: greetings, remarks, questions back, goodbyes."""

from __future__ import annotations

from random import Random

from horma_rl.benchmarks.generator.wordlists import bars

OPENINGS = (
    "Hey {name}, it has been {span}! How have you been keeping?",
    "Hi {name}! I was just {chore} and thought of you.",
    "{name}! So good to hear from you after {span}.",
    "Good to see you, {name}. Is everything {mood} on your side?",
    "Hello {name}, sorry for the silence, these weeks were {mood}.",
    "Hi there {name}, I have been meaning to write for {span}.",
)
ANSWERS = (
    "Hey {name}! All {mood} here, mostly {chore} and little sleep.",
    "Hi {name}, thanks for asking, things are {mood} at the moment.",
    "Oh hello {name}! I was {chore} when your message came.",
    "{name}, hi! It feels like {span} since we talked properly.",
)
REMARKS = (
    "The weather is so {weather} today that I skipped {chore}.",
    "I spent the whole evening {chore} and listening to the rain.",
    "Sometimes a {weather} afternoon and a cup of tea is all I need.",
    "Time flies, it seems like {span} passed in one blink.",
    "I keep telling everyone to slow down, but I never listen myself.",
    "My phone battery dies whenever I am {chore}, it never fails.",
    "Honestly, {chore} calms me down more than anything on television.",
    "It was so {weather} this morning that even the birds stayed quiet.",
    "People say {chore} is boring, yet I rather enjoy it.",
    "My alarm rang twice, then I gave up and started {chore}.",
    "There is something {mood} about quiet evenings, do you agree?",
    "I forgot my keys again, so {chore} had to wait.",
    "After {span} of bad sleep I am drinking far too much coffee.",
    "The neighbours are drilling again, so I am {chore} with earplugs.",
    "Everything takes twice as long when the weather is {weather}.",
    "I laughed at an old joke while {chore}, people stared at me.",
)
QUESTIONS = (
    "What about you, {name}, is your week any less {mood}?",
    "Did you get any rest, {name}, or was it all {chore}?",
    "How do you stay patient when everything feels so {mood}?",
    "Do you ever think about how {weather} it used to be at school?",
    "Anything new on your side since {span} ago, {name}?",
    "Would you rather be {chore} or stuck in traffic, {name}?",
    "Is it just me, or is everyone {mood} lately?",
)
ANSWERING = (
    "You are right, {name}, a {weather} day can fix a lot.",
    "I hear you, {name}; being {mood} is nothing to be ashamed of.",
    "Ha, that made me smile, {name}, I needed that today.",
    "Thank you, {name}, you always know how to put things.",
    "True, true, I say the same whenever I am {chore}.",
    "I had not thought of it that way, {name}, fair point.",
    "Same here, it has felt like {span} since my last quiet day.",
    "That is so like you, {name}, never change please.",
)
CLOSINGS = (
    "I have to get back to {chore}, talk soon {name}!",
    "Take care, {name}, and let us not wait {span} again.",
    "Bye {name}, stay {mood} and send me news any time.",
    "It is getting late, {name}, let us catch up again soon.",
    "Off I go, {name}, the {weather} evening is calling me.",
)
TAILS = (
    "Tell me more when we meet.",
    "I mean it, truly.",
    "Please keep me posted about everything.",
    "You know how I am.",
    "That is all I can say.",
    "I am so curious now.",
)
SNAPSHOTS = (
    "a photo of a {weather} sky over rooftops",
    "a photo of two mugs on a wooden table",
    "a photo of an empty road at night",
    "a photo of a pile of clean laundry",
    "a photo of raindrops on a pane of glass",
    "a photo of a sleepy street corner",
)

CHORES = bars("""
folding laundry|sorting old papers|washing the dishes|vacuuming the stairs|answering emails|ironing shirts|
waiting for the bus|tidying cupboards|sharpening pencils|looking for my glasses|cleaning the oven|queueing at the bank|
peeling potatoes|defrosting the freezer|sweeping leaves|untangling cables|watching the clouds|rearranging furniture|
mending socks|reading the news|polishing shoes|filling in forms|wiping windows|doing crosswords""")
SPANS = bars("ages|a long while|many weeks|quite some time|half an eternity|a good month|forever|several weeks")
MOODS = bars("hectic|calm|busy|cheerful|strange|lovely|stressful|quiet|chaotic|peaceful|dull|bright|ordinary|wild")
WEATHER = bars("foggy|sunny|windy|grey|stormy|mild|frosty|humid|drizzly|golden|chilly|muggy|crisp|rainy")


class SmallTalk:
    """Draws lines of small talk; a template is not used again before all of its kind have been."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._left: dict[tuple[str, ...], list[str]] = {}

    def line(self, templates: tuple[str, ...], name: str = "") -> str:
        """One line, addressed to `name`."""
        left = self._left.get(templates)
        if not left:
            left = self._left[templates] = self._rng.sample(templates, len(templates))
        pick = self._rng.choice
        return left.pop().format(
            name=name, chore=pick(CHORES), span=pick(SPANS), mood=pick(MOODS), weather=pick(WEATHER)
        )
