"""Word lists, and the pools of values made by combining them. All of it was written for this project.

Every pool is cut into a training part and an evaluation part that have no value in common: combined values by the
positions of their parts, single words by their position in the list. People's names are cut the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal, TypeVar

from horma_rl.benchmarks.generator.wordlists import bars, words

T = TypeVar("T")
Part = Literal["train", "eval"]

NAMES = words("""
Abigail Adela Agnes Albert Alfred Alice Amelia Amos Anita Arthur Astrid Basil Beatrice Bella Bernard Bonnie
Boris Bridget Camille Cecil Cedric Celia Chester Clara Clement Colin Cora Cyril Daisy Damian Daphne Desmond Dinah
Dorian Doris Edgar Edith Edmund Elsie Enid Ernest Esther Eugene Fabian Felix Fergus Fiona Flora Floyd Freya Gareth
Gemma Gilbert Gloria Gordon Greta Gwen Hank Harriet Hattie Hector Helga Henry Herbert Hilda Horace Hubert Hugo Ida
Imogen Ingrid Irene Iris Isaac Ivan Ivy Jasper Jerome Joel Josie Judith Julius June Karl Kenji Kirsten Lance Leila
Leopold Lionel Lorna Lottie Lucinda Luther Mabel Magnus Malcolm Marcel Margot Martha Matilda Maude Maxine Mildred Milo
Minnie Mona Monty Morris Muriel Nadia Nell Nigel Nina Noel Norman Octavia Olga Oliver Opal Oscar Otto Owen Pablo Pearl
Percy Phoebe Polly Priya Quentin Ralph Ramona Raymond Rhoda Roland Rosalind Rufus Ruth Sabrina Selma Sidney Silas Simon
Sonia Stella Sylvia Tabitha Tessa Thelma Tobias Trudy Ulrich Ursula Vera Vincent Viola Wallace Wanda Wendell Wilma
Winifred Yusuf Yvonne Zelda""")

NEAR_PAIRS = tuple(
    tuple(pair.split("/"))
    for pair in words("""
Anna/Anne Mark/Marc Eric/Erik Sara/Sarah Katherine/Catherine Brian/Bryan Philip/Phillip Laura/Lauren
Elena/Elaine Martin/Marvin Helen/Helena Lewis/Louis Julia/Julie Neil/Neal Stephen/Stefan Alan/Allen Christa/Christina
Diana/Diane Frank/Franz Karen/Karin Lena/Lina Tomas/Thomas Paula/Pauline Robin/Robyn Sean/Shaun Tara/Tamara Hanna/Hannah
Gabriel/Gabriela Daniel/Daniela Emil/Emily Rebecca/Rebekah Theo/Thea Victor/Victoria Joan/Jean Lisa/Liza Nora/Norah
Oscar/Oskar Claire/Clara Adrian/Adriana Peter/Petra""")
)

MODIFIERS = words("""
copper enamel walnut velvet striped antique ceramic leather woollen silver wooden brass linen bamboo crimson
turquoise amber ivory folding painted quilted rusty embroidered glazed wicker marble checkered cobalt maroon tartan
lacquered polished knitted engraved emerald mustard lavender scarlet indigo denim""")
OBJECTS = words("""
kettle lamp bookshelf armchair teapot mirror blanket clock suitcase backpack telescope typewriter camera
guitar accordion violin drum bicycle scooter skateboard tent hammock lantern umbrella jacket scarf coat hat necklace
bracelet vase basket stool desk rug curtain wardrobe cradle toolbox birdhouse ladder wheelbarrow compass globe
chessboard jukebox radio toaster blender casserole wok skillet thermos pillow notebook briefcase helmet kayak canoe
sledge""")
PLACE_HEADS = words("""
Thorn Harrow Birch Maple Elder Raven Hazel Stone Willow Ash Fern Clover Amber Heron Otter Briar Linden
Falcon Marsh Copper Winter Summer Foxglove Alder Cinder Juniper Larch Moor Oak Pebble Quarry Rowan Sorrel Tansy Wren
Yarrow""")
PLACE_TAILS = words("""
wick field ford haven bridge mere dale stead port gate cliffe burn combe hurst leigh minster
mouth worth""")
VENUE_HEADS = words("""
Bluebell Golden Crooked Lucky Old Rosewood Silverleaf Northside Riverside Lamplight Paper Hollow
Marigold Tin Saltwater Nightingale Green Orchard Half-Moon Cartwheel Starling Red Weathervane Quiet Twelve
Lighthouse""")
SHOP_TAILS = bars("Market|Antiques|Emporium|Bazaar|Outlet|Trading Post|Thrift Shop|Arcade|Department Store|Warehouse")
EATERY_TAILS = bars("Kitchen|Bistro|Grill|Diner|Noodle Bar|Tavern|Canteen|Brasserie|Trattoria|Cantina")
HALL_TAILS = bars("Hall|Theatre|Pavilion|Arena|Ballroom|Amphitheatre|Club|Auditorium|Playhouse|Rooms")
SCHOOL_TAILS = bars("Studio|Academy|Workshop|Community Centre|Institute|Guild|Annex|Loft|College|Barn")
FIRM_HEADS = words("""
Brightwell Castellan Dunmore Everly Fairbanks Gladstone Hartwell Inkberry Jorvik Kestrel Lockwood
Merriman Novak Oakhurst Pemberton Quillon Radcliffe Sutherland Tremaine Underhill Vanterpool Westbrook Yardley
Zimmer""")
FIRM_TAILS = bars(
    "Logistics|Bakery|Architects|Insurance|Robotics|Publishing|Textiles|Brewery|Airways|Pharmacy|Motors|Gardens"
)
JOB_FIELDS = words("senior junior freelance assistant trainee night regional head contract part-time")
JOBS = words("""
accountant librarian electrician translator carpenter pharmacist surveyor chemist editor illustrator paramedic
plumber statistician upholsterer mechanic florist botanist cartographer receptionist dispatcher welder auditor tailor
beekeeper""")
PETS = words("""
beagle parrot tortoise rabbit hamster ferret gecko canary spaniel poodle goldfish hedgehog dachshund budgie
terrier iguana pony goat cockatoo greyhound""")
PET_NAMES = words("""
Biscuit Pickle Waffles Juno Comet Pepper Mango Tofu Ziggy Clementine Bramble Pudding Noodle Maestro Cricket
Sprocket Truffle Nutmeg Dumpling Figgy Gizmo Hopscotch Jellybean Kiwi Licorice Marzipan Nugget Olive Pretzel Quince
Rascal Sunny Tinsel Velcro Whisker Yodel Zorro Banjo Cobbler Dewdrop""")
COATS = bars("spotted|black|brown|white|shy|noisy|sleepy|blue-eyed|three-legged|fluffy|tiny|elderly")
SKILLS = words("""
pottery archery calligraphy fencing juggling beekeeping carpentry weaving origami kickboxing ballet
watercolour trampolining snorkelling falconry sculpture embroidery bookbinding yodelling unicycling surfing
glassblowing ceramics puppetry woodcarving sailing bouldering tango flamenco salsa karate judo curling rowing
badminton pilates meditation astronomy birdwatching foraging""")
STYLES = bars(
    "beginner|evening|weekend|outdoor|advanced|historical|competitive|family|lunchtime|silent|Japanese|Nordic"
)
FLAVOURS = words("""
saffron mushroom pumpkin lemon chestnut ginger coconut spinach smoked maple peanut garlic paprika cardamom
rhubarb fennel aubergine lentil truffle apricot""")
DISHES = words(
    "risotto dumplings curry lasagna pancakes soup stew pie tacos noodles gnocchi casserole cheesecake ravioli"
)
TITLE_HEADS = words("""
Forgotten Silent Crooked Burning Distant Velvet Hollow Wandering Frozen Gilded Restless Borrowed Painted
Vanishing Stubborn Luminous Broken Secret Patient Drowned""")
TITLE_TAILS = words("""
Orchard Harbour Lighthouse Staircase Voyage Kingdom Letters Garden Clockmaker Mountain Carnival Compass
Monsoon Archive Sparrow Cathedral Inheritance Tide Labyrinth Meridian""")
BAND_HEADS = bars(
    "Electric|Lonesome|Midnight|Plastic|Thirsty|Flying|Invisible|Sunday|Marble|Dusty|Paper|Runaway|Cosmic|Rubber"
)
BAND_TAILS = words("""
Pelicans Badgers Tambourines Architects Magnets Umbrellas Gardeners Comets Trombones Pirates Lampposts
Accountants Foxes Typists""")
INJURY_KINDS = bars("sprained|bruised|twisted|fractured|swollen|burnt|strained|dislocated")
BODY = words("ankle wrist elbow shoulder knee thumb heel finger rib collarbone toe calf")
MISHAPS = bars("""
slipping on wet stairs|falling off a ladder|tripping over a suitcase|lifting a heavy sofa|playing dodgeball|
chasing a runaway bus|moving a piano|skating on the frozen pond|kicking a vending machine|climbing a cherry tree|
carrying firewood|dancing at a wedding|opening a jammed window|shovelling gravel|wrestling with a garden hose|
jumping over a fence""")
CAUSES = bars("""
stray cats|homeless veterans|lonely pensioners|young readers|refugee families|sick children|river clean-ups|
tree planting|blood donors|injured owls|foster puppies|school breakfasts|mountain rescue|sea turtles|flood victims|
public gardens""")
CREWS = words("""shelter charity hospice library kitchen association hostel trust mission foundation""")
EVENT_HEADS = words(
    "harvest lantern kite jazz chilli sandcastle pumpkin vintage science comedy poetry cheese puppet tulip"
)
EVENT_TAILS = bars("festival|fair|parade|contest|exhibition|convention|marathon|carnival|auction|quiz")
OCCASIONS = bars(
    "wedding|graduation|christening|retirement party|anniversary dinner|housewarming|birthday party|reunion"
)
RELATIVES = bars(
    "cousin|aunt|uncle|nephew|niece|grandfather|grandmother|stepbrother|godmother|brother-in-law|twin sister"
)
COMPANIONS = bars("sister|brother|mother|father|neighbour|roommate|colleague|old classmate|cousin|choir group")
TRANSPORT = bars("train|ferry|coach|motorbike|camper van|night bus|bicycle|sailboat")
NEWS = bars("""
opened a bookshop|joined the navy|won a scholarship|quit smoking|learned to fly gliders|sold the family farm|
bought a narrowboat|published a cookbook|started a podcast|ran for mayor|shaved off every hair|became a vegetarian|
built a sauna|broke a swimming record|rescued a drowning dog|inherited a vineyard|got engaged|finished medical school|
moved onto a houseboat|found a Roman coin|lost a bet|repaired an old tractor|climbed a volcano|
adopted triplets""")
PLANTS = words("""
tomatoes sunflowers pumpkins radishes lavender tulips courgettes strawberries dahlias chillies leeks beetroot
marigolds sweetcorn cucumbers peonies""")
PLOTS = bars(
    "balcony|roof terrace|allotment|greenhouse|window box|back yard|front lawn|kitchen sill|old bathtub|raised bed"
)
ROOMS = bars("attic|basement|hallway|pantry|bathroom|porch|garage|nursery|study|laundry room|staircase|conservatory")
COLOURS = bars("pale|dark|bright|dusty|deep|soft|warm|icy")
PAINTS = bars("yellow|green|orange|purple|grey|pink|blue|coral|teal|burgundy")
CRAFT_VERBS = bars("knitted|carved|sewed|moulded|stitched|welded|glued together|crocheted")
CRAFTS = bars(
    "owl|elephant|penguin|dragon|hedgehog|whale|giraffe|mermaid|snowman|pirate|robot|unicorn|dinosaur|octopus"
)
SIGHTS = bars("""
heron|deer|hot-air balloon|scarecrow|windmill|fox cub|steam engine|double rainbow|horse cart|fallen oak|
peacock|snow-covered bench|stone fountain|street pianist|row of beehives|rowing boat|clock tower|
flock of geese""")
SPOTS = bars("""
next to a red barn|beside a frozen canal|under a stone arch|in front of a bakery|behind an iron gate|
on top of a hill|near a wooden pier|between two poplars|across from a school|along a dirt road|outside a chapel|
at the edge of a wheat field""")
WALKS = bars("""
morning jog|lunch break|Sunday stroll|way to the dentist|dog walk|drive home|bus ride|photography club outing|
ride to the station|evening run|delivery round|visit to the allotment""")
MOTIVES = bars("""
to sleep better|to impress a friend|to get over a breakup|after watching a documentary|to meet new people|
because the doctor suggested it|to honour a grandparent|after losing a bet|to escape the noise at home|
to prepare for a film role|to calm my nerves|because a voucher was expiring""")
FEARS = words("""
heights thunder spiders escalators clowns moths elevators needles geese balloons lightning crowds ghosts
darkness flying wasps""")
RESPONSES = bars("""
humming old songs|counting backwards|squeezing a tennis ball|breathing slowly|chewing mint gum|
reciting poems|calling my dentist friend|closing both eyes|wearing headphones|sipping cold water|
thinking of waterfalls|holding a lucky coin""")
DISTANCES = [f"{km} kilometres" for km in range(3, 43)]
PRIZES = bars(
    """a silver cup|a year of free coffee|a weekend in a castle|a giant cheese|a signed football|a bread machine|
a hundred tulip bulbs|a helicopter ride|a golden ladle|a case of cider|a chocolate statue|a lifetime bus pass|
a set of carving knives|a week at a spa|a mountain of pasta|a lesson with a famous chef|a stuffed walrus|
a new sewing machine|a portrait in oil|a trip in a balloon"""
)


SHARED = frozenset({"companion", "transport", "relative", "occasion", "plot", "room", "craft_verb"})
"""Small pools of everyday words that both parts use; a fact is never recognised by one of these alone."""


@cache
def pool(name: str, part: Part) -> tuple[str, ...]:
    """The values of pool `name` that belong to `part`, in a fixed order. Raises KeyError for an unknown pool."""
    lists, joiner = POOLS[name]
    if name in SHARED:
        return tuple(lists[0])
    if len(lists) == 1:
        return tuple(value for place, value in enumerate(lists[0]) if (place % 4 == 0) == (part == "eval"))
    heads, tails = lists
    return tuple(
        f"{head}{joiner}{tail}"
        for row, head in enumerate(heads)
        for column, tail in enumerate(tails)
        if ((2 * row + column) % 5 == 0) == (part == "eval")
    )


@cache
def people(part: Part) -> tuple[str, ...]:
    """Names of speakers in `part`; a name that belongs to a near-duplicate pair is never among them."""
    paired = {name for pair in NEAR_PAIRS for name in pair}
    return tuple(name for name in _cut(NAMES, part) if name not in paired)


@cache
def near_pairs(part: Part) -> tuple[tuple[str, ...], ...]:
    """Pairs of names that are easily confused, in `part`."""
    return tuple(_cut(NEAR_PAIRS, part))


def _cut(values: Sequence[T], part: Part) -> list[T]:
    return [value for place, value in enumerate(values) if (place % 4 == 0) == (part == "eval")]


POOLS: dict[str, tuple[tuple[Sequence[str], ...], str]] = {
    "item": ((MODIFIERS, OBJECTS), " "),
    "town": ((PLACE_HEADS, PLACE_TAILS), ""),
    "shop": ((VENUE_HEADS, SHOP_TAILS), " "),
    "eatery": ((VENUE_HEADS, EATERY_TAILS), " "),
    "hall": ((VENUE_HEADS, HALL_TAILS), " "),
    "school": ((VENUE_HEADS, SCHOOL_TAILS), " "),
    "firm": ((FIRM_HEADS, FIRM_TAILS), " "),
    "job": ((JOB_FIELDS, JOBS), " "),
    "pet": ((COATS, PETS), " "),
    "pet_name": ((PET_NAMES,), ""),
    "skill": ((STYLES, SKILLS), " "),
    "dish": ((FLAVOURS, DISHES), " "),
    "title": ((TITLE_HEADS, TITLE_TAILS), " "),
    "band": ((BAND_HEADS, BAND_TAILS), " "),
    "injury": ((INJURY_KINDS, BODY), " "),
    "mishap": ((MISHAPS,), ""),
    "cause": ((CAUSES,), ""),
    "crew": ((VENUE_HEADS, CREWS), " "),
    "event": ((EVENT_HEADS, EVENT_TAILS), " "),
    "occasion": ((OCCASIONS,), ""),
    "relative": ((RELATIVES,), ""),
    "companion": ((COMPANIONS,), ""),
    "transport": ((TRANSPORT,), ""),
    "news": ((NEWS,), ""),
    "plant": ((PLANTS,), ""),
    "plot": ((PLOTS,), ""),
    "room": ((ROOMS,), ""),
    "paint": ((COLOURS, PAINTS), " "),
    "craft": ((CRAFTS,), ""),
    "craft_verb": ((CRAFT_VERBS,), ""),
    "sight": ((SIGHTS,), ""),
    "spot": ((SPOTS,), ""),
    "walk": ((WALKS,), ""),
    "motive": ((MOTIVES,), ""),
    "fear": ((FEARS,), ""),
    "remedy": ((RESPONSES,), ""),
    "distance": ((DISTANCES,), ""),
    "prize": ((PRIZES,), ""),
}
