"""Facts that hold for a time, facts that only a picture tells, and facts about people with confusable names."""

from __future__ import annotations

from horma_rl.benchmarks.generator.topic import Topic, asks

STATES = (
    Topic(
        "job",
        "state",
        {"job": "job", "firm": "firm"},
        "firm",
        say=(
            "I work as {a_job} at {firm} these days, and it keeps me busy.",
            "Work is fine, being {a_job} at {firm} suits me well enough.",
            "My job at {firm} is tiring, nobody warns you about life as {a_job}.",
        ),
        change=(
            "I changed jobs! {When} I started as {a_job} at {firm}.",
            "New job at last: {firm} hired me as {a_job}, and I began {when}.",
            "{When} was my first day at {firm}, my new job is {a_job}.",
        ),
        asks=asks("job", "What does {who} do at {firm}?", "What job does {who} have at {firm}?")
        + asks("firm", "Where does {who} work as {a_job}?", "Which company employs {who} as {a_job}?"),
        now=asks("firm", "Where does {who} work now?", "Which company does {who} currently work for?")
        + asks("job", "What is {who}'s current job?"),
        before=asks("firm", "Where did {who} work before {firm}?")
        + asks("job", "What was {who}'s job before starting at {firm}?"),
        when=("When did {who} start at {firm}?", "When was {who}'s first day at {firm}?"),
        base="start working at {firm}",
        past="started working at {firm}",
        replies=(
            "Work takes up so much of our lives.",
            "I hope the people there are nice.",
            "Do they at least have decent coffee?",
        ),
        decoys=(
            "I keep getting parcels meant for {firm} delivered to my door.",
            "My old teacher has become {a_job}, imagine that.",
        ),
    ),
    Topic(
        "home",
        "state",
        {"town": "town", "room": "room"},
        "town",
        say=(
            "I live in {town}, and the {room} of my place is my favourite spot.",
            "My home in {town} is small, but the {room} makes up for it.",
        ),
        change=(
            "I have moved! {When} I got the keys to a house in {town} with a big {room}.",
            "{When} I moved to {town}; the new home has a lovely {room}.",
        ),
        asks=asks(
            "room",
            "What does {who} like about the home in {town}?",
            "Which part of the place in {town} does {who} enjoy?",
        ),
        now=asks("town", "Where does {who} live now?", "Which town did {who} move to most recently?"),
        before=asks(
            "town", "Where did {who} live before moving to {town}?", "Which town did {who} call home before {town}?"
        ),
        when=("When did {who} move to {town}?",),
        base="move to {town}",
        past="moved to {town}",
        captions=("a photo of a small house with a crooked chimney", "a photo of moving boxes in a bare room"),
        replies=("A good home changes everything.", "I would love to see it one day.", "Are the neighbours friendly?"),
        decoys=("Rents in {town} are ridiculous, or so the newspaper says.",),
    ),
    Topic(
        "garden",
        "state",
        {"plant": "plant", "plot": "plot"},
        "plant",
        say=(
            "I am growing {plant} this year, the {plot} gets plenty of sun.",
            "My {plot} is full of {plant}, I water them every evening.",
        ),
        change=(
            "I gave up on the old plants; {when} I planted {plant}, so the {plot} looks new.",
            "{When} I replaced everything and the {plot} now holds {plant}.",
        ),
        asks=asks("plot", "Where does {who} grow {plant}?", "Where are {who}'s {plant} planted?"),
        now=asks("plant", "What is {who} growing now?", "What did {who} plant most recently?"),
        before=asks(
            "plant", "What did {who} grow before planting {plant}?", "What was {who} growing before the {plant}?"
        ),
        when=("When did {who} plant {plant}?",),
        base="plant {plant}",
        past="planted {plant}",
        captions=("a photo of a watering can and bags of soil",),
        replies=(
            "You clearly have green fingers.",
            "Everything I plant dies within a week.",
            "Save some of the harvest for me!",
        ),
        decoys=("The price of {plant} at the grocer has doubled.",),
    ),
    Topic(
        "paint",
        "state",
        {"paint": "paint", "room": "room"},
        "paint",
        say=(
            "The walls of my {room} are {paint}, people either love it or laugh.",
            "I keep the {room} {paint}, the colour helps me think.",
        ),
        change=(
            "{When} I painted again, so now the {room} walls are {paint}.",
            "I got tired of it and {when} painted the {room} walls {paint}.",
        ),
        asks=asks("room", "Which room of {who}'s is {paint}?", "What does {who} have painted {paint}?"),
        now=asks(
            "paint",
            "What colour are the walls {who} has at home now?",
            "Which colour does {who} currently have on the walls?",
        ),
        before=asks(
            "paint",
            "Which colour did {who} have before painting the walls {paint}?",
            "What colour were {who}'s walls before {paint}?",
        ),
        when=("When did {who} paint the walls {paint}?",),
        base="paint the walls {paint}",
        past="painted the walls {paint}",
        captions=("a photo of a paint roller and a dust sheet",),
        replies=(
            "I am boring, all my walls are white.",
            "Colour makes such a difference.",
            "Did you do it all by yourself?",
        ),
        decoys=("Somebody spilled {paint} paint all over the pavement outside.",),
    ),
)

LASTING = (
    Topic(
        "fear",
        "lasting",
        {"fear": "fear", "remedy": "remedy"},
        "fear",
        say=(
            "I have always been scared of {fear}, {remedy} is what helps me.",
            "Honestly, {fear} terrify me, and I get through it by {remedy}.",
        ),
        asks=asks("fear", "What is {who} afraid of?", "What scares {who}?")
        + asks("remedy", "How does {who} deal with the fear of {fear}?", "What helps {who} when scared of {fear}?")
        + asks("fear", "What does {who} get through by {remedy}?"),
        replies=(
            "Everyone is frightened of something.",
            "You hide it well, I had no idea.",
            "It takes courage to say that.",
        ),
        decoys=("There was a long programme about {fear} on television.",),
    ),
    Topic(
        "favourite",
        "lasting",
        {"dish": "dish", "relative": "relative"},
        "dish",
        say=(
            "My favourite comfort food is {dish}, the way my {relative} makes it.",
            "Nothing beats {dish} for me; my {relative} taught me the recipe.",
        ),
        asks=asks("dish", "What is {who}'s favourite food?", "Which comfort food does {who} like best?")
        + asks("relative", "Who makes {who}'s favourite {dish}?", "Who taught {who} to like {dish}?"),
        captions=("a photo of a handwritten recipe card",),
        replies=(
            "I could eat that every single day.",
            "Family recipes are the best inheritance.",
            "Would you share the recipe?",
        ),
    ),
    Topic(
        "dream",
        "lasting",
        {"shop": "shop", "town": "town"},
        "town",
        say=(
            "One day I want to open a shop called {shop} in {town}.",
            "My dream is to run a little place named {shop} down in {town}.",
        ),
        asks=asks("town", "Where does {who} dream of opening a shop?", "In which town does {who} want to open {shop}?")
        + asks("shop", "What would {who} call the shop in {town}?", "What name has {who} chosen for the dream shop?"),
        replies=("I would be your first customer.", "Dreams like that keep us going.", "Start small and see, why not?"),
    ),
)

PHOTOS = (
    Topic(
        "sighting",
        "photo",
        {"walk": "walk", "sight": "sight", "spot": "spot"},
        "sight",
        say=(
            "Look what I came across on my {walk} {when}!",
            "I took this {when} on my {walk}, could not believe my eyes.",
            "{When} my {walk} got interesting, see for yourself.",
        ),
        captions=("a photo of a {sight} {spot}", "a photo of a {sight} seen {spot}"),
        asks=asks(
            "sight",
            "What did {who} photograph on the {walk}?",
            "What did {who} come across on the {walk}?",
            "What can be seen {spot} in {who}'s photo?",
        )
        + asks("spot", "Where was the {sight} in the photo that {who} shared?"),
        when=("When did {who} photograph the {sight}?",),
        replies=("Wow, that picture made my day.", "Great shot, you should print it.", "Nature is full of surprises."),
    ),
    Topic(
        "craftwork",
        "photo",
        {"craft_verb": "craft_verb", "craft": "craft", "paint": "paint"},
        "craft",
        say=(
            "Here is something I {craft_verb} {when}, be kind please!",
            "{When} I {craft_verb} this little thing, I am quite proud of it.",
        ),
        captions=("a photo of a small {paint} {craft} on a table", "a photo of a handmade {craft}, {paint} all over"),
        asks=asks("paint", "What colour is the {craft} that {who} made?", "Which colour was {who}'s {craft}?")
        + asks("craft", "What did {who} make that was {paint}?", "Which {paint} figure did {who} show?")
        + asks("craft_verb", "How did {who} make the {craft}?"),
        when=("When did {who} make the {craft}?",),
        replies=(
            "You made that? It is adorable!",
            "So talented, I can barely draw a circle.",
            "It would look great on a shelf.",
        ),
    ),
    Topic(
        "window",
        "photo",
        {"item": "item", "spot": "spot"},
        "item",
        say=(
            "Somebody left this outside {when}, and I had to take a picture.",
            "Funny find {when}, who throws something like this away?",
        ),
        captions=("a photo of {a_item} standing {spot}", "a photo of {a_item} {spot}"),
        asks=asks("item", "What stood {spot} in the picture {who} took?", "What did {who} find standing {spot}?")
        + asks("spot", "Where was the {item} that {who} found outside?"),
        when=("When did {who} find the {item} outside?",),
        replies=(
            "One person's rubbish is another's treasure.",
            "I hope you took it home with you!",
            "People throw away anything.",
        ),
    ),
)

NEAR = (
    Topic(
        "friend_news",
        "event",
        {"friend": "", "news": "news"},
        "friend",
        say=(
            "Have you heard? {friend} {news} {when}, the whole street is talking.",
            "My friend {friend} {news} {when}, can you believe it?",
            "{When} {friend} {news}, and I found out from the newspaper.",
        ),
        asks=asks("news", "What did {who}'s friend {friend} do?", "What is the news about {friend} that {who} shared?")
        + asks("friend", "Which friend of {who}'s {news}?", "Who does {who} know that {news}?"),
        when=("When did {who}'s friend {friend} make the news?",),
        replies=(
            "I did not see that coming at all.",
            "Good news travels fast around here.",
            "Please pass on my best wishes!",
        ),
        near=True,
    ),
    Topic(
        "friend_gift",
        "event",
        {"friend": "", "item": "item"},
        "friend",
        say=(
            "{friend} gave me {a_item} {when}, I was so touched.",
            "{When} {friend} surprised me with {a_item} as a present.",
            "I got a gift from {friend} {when}: {a_item}, of all things.",
        ),
        asks=asks("item", "What did {friend} give {who}?", "What present did {who} get from {friend}?")
        + asks("friend", "Who gave {who} the {item}?", "Who surprised {who} with the {item}?"),
        when=("When did {friend} give {who} the {item}?", "When did {who} get a gift from {friend}?"),
        captions=("a photo of wrapping paper and a red ribbon",),
        replies=("What a thoughtful present.", "Some friends just know.", "It suits you perfectly."),
        near=True,
    ),
    Topic(
        "friend_plan",
        "event",
        {"friend": "", "event": "event"},
        "friend",
        say=(
            "{friend} came along to the {event} with me {when}, we laughed a lot.",
            "{When} I went to the {event} and met {friend} there.",
        ),
        asks=asks("event", "What did {who} go to with {friend}?", "Where did {who} see {friend}?")
        + asks("friend", "Who was with {who} at the {event}?", "Who did {who} meet at the {event}?"),
        when=("When was {who} at the {event} with {friend}?",),
        replies=("You two always have fun together.", "I should join you next time.", "Did you take any pictures?"),
        near=True,
    ),
)
