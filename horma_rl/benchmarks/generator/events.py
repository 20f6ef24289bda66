"""Facts that happen on a date."""

from __future__ import annotations

from horma_rl.benchmarks.generator.topic import Topic, asks

EVENTS = (
    Topic(
        "purchase",
        "event",
        {"item": "item", "shop": "shop"},
        "item",
        say=(
            "I finally bought {a_item} at {shop} {when}, after looking for ages.",
            "Guess what, {when} I picked up {a_item} from {shop}!",
            "{When} I walked into {shop} and bought {a_item} on the spot.",
            "I treated myself {when} and bought {a_item} at {shop}.",
        ),
        asks=asks(
            "item",
            "What did {who} buy at {shop}?",
            "What did {who} get from {shop}?",
            "Which thing did {who} bring home from {shop}?",
        )
        + asks(
            "shop",
            "Where did {who} buy the {item}?",
            "Where did {who} get the {item}?",
            "Which shop did {who}'s {item} come from?",
        ),
        when=("When did {who} buy the {item}?", "When did {who} get the {item}?"),
        base="buy the {item}",
        past="bought the {item}",
        listing=asks("item", "What has {who} bought?", "Which things did {who} buy over time?"),
        captions=("a photo of {a_item} on a kitchen table", "a photo of {a_item} in the sun"),
        replies=(
            "{a_item_tail}! I have wanted one of those for years.",
            "That sounds like money well spent.",
            "You always find the best things, I am jealous.",
            "Does the {item_tail} fit in your flat?",
        ),
        decoys=(
            "I nearly ordered {a_item} online, but the reviews were awful.",
            "My neighbour is trying to sell {a_item} and nobody wants it.",
            "There was {a_item} in an old film I saw, so charming.",
        ),
    ),
    Topic(
        "trip",
        "event",
        {"town": "town", "companion": "companion", "transport": "transport"},
        "town",
        say=(
            "I took a trip to {town} by {transport} with my {companion} {when}.",
            "{When} I went on a trip to {town} by {transport}, together with my {companion}.",
            "My {companion} and I travelled by {transport} {when}, just a short trip to {town}.",
        ),
        asks=asks("companion", "Who went with {who} to {town}?", "Who did {who} travel to {town} with?")
        + asks("transport", "How did {who} travel to {town}?", "What did {who} take to get to {town}?"),
        when=("When did {who} travel to {town}?", "When did {who} visit {town}?", "When was {who}'s trip to {town}?"),
        base="travel to {town}",
        past="travelled to {town}",
        listing=asks(
            "town",
            "Which trips has {who} taken?",
            "Where has {who} been on trips?",
            "Which places has {who} made a trip to?",
        ),
        captions=("a photo of a narrow street with old houses", "a photo of a harbour at dusk"),
        replies=(
            "I have never been there, was the weather kind?",
            "Travelling is the best medicine, I think.",
            "Sounds like a lovely break from everything.",
        ),
        decoys=(
            "A colleague grew up in {town} and never stops talking about it.",
            "The radio said the road to {town} is closed again.",
        ),
        same=asks("companion", "Did {who} and {other} take the same kind of companion on their trips?")
        + asks("transport", "Did {who} and {other} use the same transport for their trips?"),
    ),
    Topic(
        "adoption",
        "event",
        {"pet": "pet", "pet_name": "pet_name"},
        "pet_name",
        say=(
            "I adopted {a_pet} {when} and named it {pet_name}.",
            "Big news, {when} I adopted {a_pet} called {pet_name}!",
            "There is a new pet here: {pet_name}, {a_pet} that I adopted {when}.",
        ),
        asks=asks(
            "pet_name",
            "What is the name of {who}'s {pet}?",
            "What did {who} name the {pet}?",
            "What is {who}'s {pet} called?",
        )
        + asks("pet", "What kind of animal is {pet_name}, who lives with {who}?", "What is {who}'s pet {pet_name}?"),
        when=("When did {who} adopt {pet_name}?", "When did {pet_name} come to live with {who}?"),
        base="adopt {pet_name}",
        past="adopted {pet_name}",
        listing=asks("pet_name", "What are the names of the pets {who} adopted?", "Which pets has {who} adopted?"),
        captions=("a photo of {a_pet} asleep on a cushion", "a photo of {a_pet} looking at the camera"),
        replies=(
            "Aww, {pet_name} is such a sweet name!",
            "Pets make a house a home.",
            "How are the nights? The first week is always hard.",
        ),
        decoys=(
            "The lady downstairs owns {a_pet} that keeps everybody awake.",
            "I read an article about {a_pet} that could open doors.",
        ),
    ),
    Topic(
        "course",
        "event",
        {"skill": "skill", "school": "school", "motive": "motive"},
        "skill",
        say=(
            "I signed up for {skill} classes at {school} {when}, {motive}.",
            "{When} I started {skill} classes at {school}, {motive}.",
            "So, {when} I took my first {skill} class at {school}, {motive}.",
        ),
        asks=asks("skill", "What did {who} sign up for at {school}?", "What is {who} learning at {school}?")
        + asks("school", "Where did {who} start {skill}?", "Where does {who} take {skill} classes?")
        + asks(
            "motive",
            "Why did {who} start {skill}?",
            "Why did {who} sign up for {skill}?",
            "What made {who} take up {skill}?",
        ),
        when=("When did {who} sign up for {skill}?", "When did {who} start {skill}?"),
        base="start {skill}",
        past="started {skill}",
        listing=asks("skill", "Which classes has {who} started?", "What has {who} been learning in classes?"),
        replies=(
            "I could never do that, I am far too clumsy.",
            "Do they still take beginners?",
            "Good for you, trying something new!",
        ),
        decoys=(
            "Somebody left a flyer for {skill} on my windscreen.",
            "My boss keeps recommending {skill} to everyone in the office.",
        ),
    ),
    Topic(
        "meal",
        "event",
        {"dish": "dish", "eatery": "eatery", "companion": "companion"},
        "eatery",
        say=(
            "I had the {dish} at {eatery} {when} with my {companion}, what a restaurant!",
            "{When} my {companion} took me to a restaurant, {eatery}, where I ordered the {dish}.",
            "You must try the {dish} at {eatery}; my {companion} and I ate there {when}.",
        ),
        asks=asks("dish", "What did {who} eat at {eatery}?", "What did {who} order at {eatery}?")
        + asks("companion", "Who did {who} eat with at {eatery}?", "Who was with {who} at {eatery}?")
        + asks("eatery", "Where did {who} have the {dish}?", "At which restaurant did {who} try the {dish}?"),
        when=("When did {who} eat at {eatery}?", "When did {who} have the {dish}?"),
        base="eat at {eatery}",
        past="ate at {eatery}",
        listing=asks("eatery", "Which restaurants has {who} eaten at?"),
        captions=("a photo of a plate of {dish}", "a photo of a table with candles and {dish}"),
        replies=(
            "Now I am hungry, thank you very much.",
            "Was it as good as it sounds?",
            "I am adding that to my list.",
        ),
        decoys=(
            "I tried to cook {dish} from a video and set off the alarm.",
            "They were handing out samples of {dish} at the station.",
        ),
    ),
    Topic(
        "book",
        "event",
        {"title": "title", "relative": "relative"},
        "title",
        say=(
            "I finished the book {title} {when}; my {relative} had lent it to me.",
            "{When} I finished reading {title}, the novel my {relative} recommended.",
            "My {relative} told me about a book called {title}, and {when} I finished it.",
        ),
        asks=asks("relative", "Who told {who} about the book {title}?", "Who gave {who} the idea to read {title}?"),
        when=("When did {who} finish reading {title}?", "When did {who} finish the book {title}?"),
        base="finish reading {title}",
        past="finished reading {title}",
        listing=asks("title", "Which books has {who} finished?", "What books has {who} read?"),
        captions=("a photo of a book with a worn cover beside a mug",),
        replies=(
            "Is it a sad book? I need something cheerful.",
            "I fall asleep after two pages these days.",
            "You read so much faster than me.",
        ),
        decoys=(
            "They turned {title} into a series, but I will not watch it.",
            "The library had six copies of {title} and no space to sit.",
        ),
    ),
    Topic(
        "concert",
        "event",
        {"band": "band", "hall": "hall"},
        "band",
        say=(
            "I saw the {band} in concert at {hall} {when}, what a night!",
            "{When} the {band} gave a concert at {hall} and I was in the front row.",
            "My ears rang after the {band} concert at {hall} {when}, I sang along.",
        ),
        asks=asks("band", "Which band did {who} see at {hall}?", "Who played at {hall} when {who} was there?")
        + asks("hall", "Where did {who} see the {band}?", "Where was the {band} concert that {who} went to?"),
        when=("When did {who} see the {band}?", "When did {who} go to the {band} concert?"),
        base="see the {band}",
        past="saw the {band}",
        listing=asks("band", "Which bands has {who} seen in concert?", "Which concerts has {who} been to?"),
        captions=("a photo of a stage with blue lights and a crowd",),
        replies=("Live music beats everything else.", "Did they play for long?", "I would have lost my voice too."),
        decoys=(
            "A song by the {band} was on at the supermarket all morning.",
            "My nephew has a poster of the {band} on every wall.",
        ),
    ),
    Topic(
        "injury",
        "event",
        {"injury": "injury", "mishap": "mishap"},
        "injury",
        say=(
            "I ended up with a {injury} {when} from {mishap}.",
            "Bad luck, {when} I got a {injury} while {mishap}.",
            "The doctor says it is a {injury}; it happened {when} while {mishap}.",
        ),
        asks=asks("mishap", "How did {who} get the {injury}?", "What was {who} doing when the {injury} happened?")
        + asks("injury", "What injury did {who} get from {mishap}?", "How was {who} hurt while {mishap}?"),
        when=("When did {who} get the {injury}?", "When was {who} hurt while {mishap}?"),
        base="get the {injury}",
        past="got the {injury}",
        captions=("a photo of a bandage and a pair of crutches",),
        replies=(
            "Ouch! Please rest and let others help you.",
            "That sounds painful, does it still hurt?",
            "Get well soon, and no heroics.",
        ),
        decoys=("Half the team is out, one of them with a {injury}.",),
    ),
    Topic(
        "volunteering",
        "event",
        {"cause": "cause", "crew": "crew"},
        "crew",
        say=(
            "I volunteered with the {crew} {when}, helping with {cause}.",
            "{When} I spent the day at the {crew} doing volunteer work for {cause}.",
            "I joined the {crew} as a volunteer {when}; they do great work for {cause}.",
        ),
        asks=asks(
            "cause",
            "What cause did {who} help with at the {crew}?",
            "Who or what does the {crew} help, where {who} volunteered?",
        )
        + asks("crew", "Where did {who} volunteer for {cause}?", "Which group did {who} help with {cause}?"),
        when=("When did {who} volunteer with the {crew}?", "When did {who} help the {crew}?"),
        base="volunteer with the {crew}",
        past="volunteered with the {crew}",
        listing=asks("crew", "Where has {who} volunteered?", "Which groups has {who} volunteered with?"),
        captions=("a photo of a group of people in matching vests",),
        replies=(
            "The world needs more people like you.",
            "I should give some of my time too.",
            "How did you hear about them?",
        ),
        decoys=("I got another letter from the {crew} asking for old towels.",),
    ),
    Topic(
        "contest",
        "event",
        {"event": "event", "prize": "prize"},
        "event",
        say=(
            "I won {prize} at the {event} {when}, I still cannot believe it.",
            "{When} I entered the {event} and won {prize}!",
            "Nobody was more surprised than me: I won {prize} at the {event} {when}.",
        ),
        asks=asks("prize", "What did {who} win at the {event}?", "Which prize did {who} take home from the {event}?")
        + asks("event", "Where did {who} win {prize}?"),
        when=("When did {who} win at the {event}?", "When was the {event} that {who} entered?"),
        base="win at the {event}",
        past="won at the {event}",
        listing=asks("event", "Where has {who} won something?", "Which events has {who} won at?"),
        captions=("a photo of a crowd in front of a small stage",),
        replies=(
            "Congratulations, that is brilliant!",
            "You deserve it after all that practice.",
            "Will you defend the title next year?",
        ),
        decoys=("Traffic was terrible because of the {event}, streets closed everywhere.",),
    ),
    Topic(
        "run",
        "event",
        {"town": "town", "distance": "distance"},
        "town",
        say=(
            "I ran {distance} along the river in {town} {when}, my legs are jelly.",
            "{When} I did a charity run in {town}, {distance} without stopping.",
        ),
        asks=asks("distance", "How far did {who} run in {town}?") + asks("town", "Where did {who} run {distance}?"),
        when=("When did {who} run in {town}?", "When was {who}'s run in {town}?"),
        base="run in {town}",
        past="ran in {town}",
        replies=(
            "I get tired just running for the bus.",
            "That is further than I drive some days!",
            "Did your knees survive?",
        ),
        more=asks("distance", "Did {who} run farther than {other}?", "Was {who}'s run longer than {other}'s?"),
    ),
    Topic(
        "family",
        "event",
        {"relative": "relative", "occasion": "occasion", "town": "town"},
        "town",
        say=(
            "We celebrated my {relative}'s {occasion} in {town} {when}.",
            "{When} I drove to {town} for the {occasion} of my {relative}.",
            "My {relative}'s {occasion} was {when} in {town}, everyone cried.",
        ),
        asks=asks("occasion", "What did {who} celebrate in {town}?", "Why did {who} go to {town}?")
        + asks("relative", "Whose celebration did {who} attend in {town}?")
        + asks(
            "town",
            "Where was the {occasion} of {who}'s {relative}?",
            "Where did {who}'s {relative} have the {occasion}?",
        ),
        when=("When was the {occasion} of {who}'s {relative}?", "When did {who} go to {town} for the {occasion}?"),
        base="go to the {occasion} in {town}",
        past="went to the {occasion} in {town}",
        captions=("a photo of a long table with flowers and glasses",),
        replies=("Families are wonderful and exhausting.", "Did you give a speech?", "I hope there was dancing."),
        same=asks("occasion", "Did {who} and {other} go to the same kind of family celebration?"),
    ),
)
