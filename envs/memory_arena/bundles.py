"""What the generated bundles are made of: five kinds, as in the published rows, of six products each.

Every product comes in four values of one property (a colour, a material, a size). The value to buy follows from what
was bought at an earlier step, by a rule that the question states.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slot:
    """A product of a bundle. `depends` is the step (from 0) whose value decides; the first step depends on nothing."""

    noun: str
    category: str
    property: str
    values: tuple[str, str, str, str]
    depends: int = 0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of bundle. Each product also has one of `traits`; one of them is to be avoided at each step."""

    name: str
    slots: tuple[Slot, ...]
    traits: tuple[str, str, str]
    sizes: tuple[str, ...]
    """Values of an option that every product has; which one is chosen does not matter."""


BAKING = Kind(
    "baking",
    (
        Slot("cake mix", "Grocery › Baking › Cake Mixes", "flavor", ("Lemon", "Cocoa", "Spice", "Vanilla")),
        Slot("frosting", "Grocery › Baking › Frosting", "flavor", ("Cream", "Maple", "Coffee", "Coconut")),
        Slot("food coloring", "Grocery › Baking › Food Coloring", "color", ("Red", "Blue", "Green", "Yellow"), 1),
        Slot("sprinkles", "Grocery › Baking › Sprinkles", "color", ("Gold", "Silver", "Purple", "White"), 2),
        Slot("cake topper", "Home & Kitchen › Party › Toppers", "theme", ("Wedding", "Unicorn", "Mermaid", "Space"), 3),
        Slot("cake stand", "Home & Kitchen › Bakeware › Stands", "material", ("Marble", "Acacia", "Steel", "Glass"), 1),
    ),
    ("hazelnut", "berry", "vegetable"),
    ("single", "pack of 3"),
)
BEAUTY = Kind(
    "beauty",
    (
        Slot("cleanser", "Beauty › Skin Care › Cleansers", "form", ("Foam", "Balm", "Milk", "Clay")),
        Slot("toner", "Beauty › Skin Care › Toners", "base", ("Rose", "Cucumber", "Ginseng", "Aloe")),
        Slot("serum", "Beauty › Skin Care › Serums", "active", ("Niacin", "Peptide", "Retinal", "Squalane"), 1),
        Slot("foundation", "Beauty › Makeup › Foundation", "shade", ("Ivory", "Beige", "Honey", "Umber"), 2),
        Slot("lipstick", "Beauty › Makeup › Lips", "shade", ("Coral", "Plum", "Brick", "Berry"), 3),
        Slot("makeup bag", "Beauty › Tools › Bags", "material", ("Canvas", "Velvet", "Cork", "Linen"), 1),
    ),
    ("scented", "glossy", "mineral"),
    ("travel size", "full size"),
)
ELECTRONICS = Kind(
    "electronics",
    (
        Slot(
            "display panel", "Electronics › Television › Panels", "size", ("43 inch", "48 inch", "55 inch", "65 inch")
        ),
        Slot("wall mount", "Electronics › Accessories › Mounts", "type", ("Tilting", "Fixed", "Swivel", "Ceiling")),
        Slot("sound bar", "Electronics › Audio › Sound Bars", "channels", ("Stereo", "Surround", "Atmos", "Mono"), 0),
        Slot("cable", "Electronics › Accessories › Cables", "standard", ("Optical", "Coaxial", "Copper", "Fiber"), 2),
        Slot("remote", "Electronics › Accessories › Remotes", "control", ("Voice", "Backlit", "Infrared", "Radio"), 3),
        Slot("tv stand", "Home & Kitchen › Furniture › TV Stands", "material", ("Oak", "Walnut", "Bamboo", "Iron"), 1),
    ),
    ("refurbished", "curved", "compact"),
    ("black", "white"),
)
GROCERY = Kind(
    "grocery",
    (
        Slot("pasta", "Grocery › Pantry › Pasta", "shape", ("Penne", "Fusilli", "Orzo", "Linguine")),
        Slot("sauce", "Grocery › Pantry › Sauces", "flavor", ("Tomato", "Pesto", "Mushroom", "Pepper")),
        Slot("cheese", "Grocery › Dairy › Cheese", "kind", ("Pecorino", "Asiago", "Gouda", "Feta"), 1),
        Slot("crackers", "Grocery › Snacks › Crackers", "grain", ("Rye", "Spelt", "Oat", "Corn"), 2),
        Slot("juice", "Grocery › Drinks › Juice", "fruit", ("Cherry", "Apple", "Quince", "Grape"), 1),
        Slot("cookies", "Grocery › Snacks › Cookies", "flavor", ("Ginger", "Almond", "Date", "Raisin"), 4),
    ),
    ("spicy", "truffle", "vegetable"),
    ("family size", "small"),
)
HOME = Kind(
    "home",
    (
        Slot("loveseat", "Home & Kitchen › Furniture › Seating", "material", ("Leather", "Velvet", "Linen", "Suede")),
        Slot("ottoman", "Home & Kitchen › Furniture › Ottomans", "material", ("Wicker", "Tweed", "Corduroy", "Felt")),
        Slot("rug", "Home & Kitchen › Decor › Rugs", "color", ("Rust", "Navy", "Sage", "Cream"), 1),
        Slot("curtains", "Home & Kitchen › Decor › Curtains", "color", ("Ochre", "Teal", "Olive", "Pearl"), 2),
        Slot("floor lamp", "Home & Kitchen › Lighting › Lamps", "finish", ("Brass", "Chrome", "Bronze", "Nickel"), 0),
        Slot("side table", "Home & Kitchen › Furniture › Tables", "wood", ("Teak", "Maple", "Cherry", "Birch"), 4),
    ),
    ("patterned", "foldable", "tufted"),
    ("one", "set of 2"),
)
KINDS = (BAKING, BEAUTY, ELECTRONICS, GROCERY, HOME)

BRANDS = ("Avelo", "Brisk", "Corvane", "Dunmere", "Elstow", "Farrow", "Gantry", "Halden", "Ivorel", "Jasket")
