"""Bundled shopping: products bought one after the other on WebShop's pages, which are text here.

Pages and buttons are WebShop's (arXiv:2207.01206): a search box, results ten to a page, a product's page. The index is
the user's, built with `horma-rl data index products`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from interactive_env.types import ToolSpec
from memory_arena.domain import Decides, Grader, Reply, Score, expect, options, shown
from memory_arena.index import Document, TextIndex, open_index, steps_of
from memory_arena.products import Item, document_item
from memory_arena.rows import SHOPPING, Row, ShoppingRow
from memory_arena.scoring_shopping import Matcher, PriceLimits, reward, stated_in_name

STEPS = 25
"""Steps of one product, as in the benchmark."""
RESULTS = 50
"""Results of a search that can be leafed through."""
PAGE = 10
"""Results on a page."""

BACK, NEXT, PREVIOUS, BUY = "Back to Search", "Next >", "< Prev", "Buy Now"
ACTIONS = f"""One action at a time:
search[words]: search for products, on the search page only
click[ID]: open a product of the results, by its id
click[{NEXT}], click[{PREVIOUS}]: leaf through the results; on a product's page, click[{PREVIOUS}] goes back to them
click[{BACK}]: go to the search page
click[VALUE]: choose an option on a product's page
click[{BUY}]: buy the product whose page is open; this ends the purchase, and there is one for each product"""


class Shopping:
    """The domain over an index of products.

    Args:
        index: built with `horma-rl data index products`.
        matcher: finds which attributes a product has; by default those that its name states.
        steps: step cap of one product.
    """

    name = SHOPPING
    actions = ACTIONS
    tools: Sequence[ToolSpec] = ()
    decides: Decides = "all"

    def __init__(self, index: TextIndex, matcher: Matcher = stated_in_name, steps: int = STEPS) -> None:
        self.index = index
        self.step_cap = steps
        # Asked once for the same name and attributes: replays are free, and agree.
        self.matcher: Matcher = lru_cache(maxsize=4096)(lambda name, attributes: tuple(matcher(name, attributes)))

    def item(self, asin: str) -> Item | None:
        """The product with this id, in any case of letters."""
        document = self.index.get(asin.strip().upper())
        return None if document is None else self._item(document)

    def found(self, words: str) -> list[Item]:
        """The best products for `words`."""
        return [self._item(document) for document in self.index.search(words, RESULTS)]

    def _item(self, document: Document) -> Item:
        try:
            return document_item(document)
        except ValueError as error:
            raise ValueError(f"{self.index.name}: {error}") from None

    def play(self, row: Row) -> ShoppingPlay:
        """Start a row. Raises ValueError when a product that it asks for is not in the index: the row could not be
        solved, and the attributes of what is bought not be weighed."""
        shopping = expect(row, ShoppingRow)
        targets: list[Item] = []
        for answer in shopping.answers:
            target = self.item(answer.target_asin)
            if target is None:
                raise ValueError(f"row {row.id}: product {answer.target_asin} is not in the index")
            targets.append(target)
        return ShoppingPlay(self, shopping, targets)


def build(given: Mapping[str, Any], grader: Grader) -> Shopping:
    """The domain from options: `index` (a path, required) and `steps` (of one product, default 25)."""
    known = options(given, ("index", "steps"), SHOPPING)
    return Shopping(open_index(known, "products", SHOPPING), steps=steps_of(known, STEPS, SHOPPING))


def parse_action(action: str) -> tuple[str, str] | None:
    """The verb (`search` or `click`) and what is between the brackets; None when it is neither. Takes linear time."""
    verb, bracket, rest = action.strip().partition("[")
    verb = verb.strip().lower()
    if verb not in ("search", "click") or not bracket or not rest.endswith("]"):
        return None
    return verb, " ".join(rest[:-1].split())


@dataclass(slots=True)
class _Page:
    """What is open: the search page (no query), results, or a product's page (`item`)."""

    query: str = ""
    found: Sequence[Item] = ()
    number: int = 0
    item: Item | None = None


class ShoppingPlay:
    """One bundle: see `domain.Play`."""

    def __init__(self, domain: Shopping, row: ShoppingRow, targets: Sequence[Item]) -> None:
        self._domain, self._row, self._targets = domain, row, targets
        self._index = 0
        self._page = _Page()
        self._chosen: dict[str, str] = {}
        self._bought: Item | None = None

    @property
    def instruction(self) -> str:
        """What holds for the whole bundle."""
        return (
            f"Buy {len(self._targets)} products on a shopping site, one after the other. What you buy has to fit what "
            "you bought before, so keep in mind what that was. Each product is bought once, and no purchase can be "
            "taken back."
        )

    def begin(self, index: int) -> str:
        """The question of product `index`, and the search page."""
        self._index, self._bought = index, None
        self._open(_Page())
        return f"{self._row.questions[index]}\n\n{self._shown()}"

    def act(self, action: str) -> Reply:
        """Do `action`; see `ACTIONS`."""
        parsed = parse_action(action)
        if parsed is None:
            return self._refuse("That is no action.")
        verb, argument = parsed
        if not argument:
            return self._refuse(f"There is nothing between the brackets of {verb}[].")
        return self._search(argument) if verb == "search" else self._click(argument)

    def score(self) -> Score:
        """The reward of what was bought. Passed: a reward of 1."""
        asked = self._row.answers[self._index]
        limits = PriceLimits(asked.price_lower, asked.price_upper)
        got = reward(self._bought, self._targets[self._index], asked.attributes, limits, self._domain.matcher)
        figures = {"reward": got.value, "matched": float(got.matched), "r_type": got.r_type}
        return Score(passed=got.value == 1.0, answered=self._bought is not None, figures=figures)

    def _search(self, words: str) -> Reply:
        if self._page.query or self._page.item:
            return self._refuse(f"There is no search box on this page: click[{BACK}] first.")
        return self._open(_Page(query=words, found=self._domain.found(words)))

    def _click(self, target: str) -> Reply:
        page, wanted = self._page, target.casefold()
        button = next((name for name in self._buttons() if name.casefold() == wanted), None)
        if button == BUY and page.item is not None:
            return self._buy(page.item)
        if button == BACK:
            return self._open(_Page())
        if button is not None:
            turned = page.number if page.item else page.number + (1 if button == NEXT else -1)
            return self._open(_Page(page.query, page.found, turned))
        if page.item is not None:
            return self._choose(page.item, wanted)
        for item in self._listed():
            if item.asin.casefold() == wanted:
                return self._open(_Page(page.query, page.found, page.number, item))
        return self._refuse(f"There is no '{shown(target)}' to click on this page.")

    def _choose(self, item: Item, wanted: str) -> Reply:
        for name, values in item.options.items():
            if wanted in map(str.casefold, values):
                self._chosen[name] = wanted
                return Reply(self._shown())
        return self._refuse(f"There is no '{shown(wanted)}' to click on this page.")

    def _buy(self, item: Item) -> Reply:
        self._bought = item
        options = "".join(f", {name}: {value}" for name, value in self._chosen.items())
        return Reply(f"Bought {item.asin}: {item.name}, {item.price_label}{options}.", ended=True)

    def _open(self, page: _Page) -> Reply:
        self._page, self._chosen = page, {}
        return Reply(self._shown())

    def _refuse(self, reason: str) -> Reply:
        return Reply(f"{reason} {self._may()}", valid=False)

    # Pages as text ----------------------------------------------------------------------------------------------------

    def _listed(self) -> Sequence[Item]:
        return self._page.found[self._page.number * PAGE : (self._page.number + 1) * PAGE]

    def _buttons(self) -> list[str]:
        page = self._page
        if page.item is not None:
            return [PREVIOUS, BACK, BUY]
        if not page.query:
            return []
        more = (page.number + 1) * PAGE < len(page.found)
        return [*([PREVIOUS] if page.number else []), *([NEXT] if more else []), BACK]

    def _may(self) -> str:
        page = self._page
        if page.item is None and not page.query:
            return "You may: search[words]"
        buttons = [f"click[{name}]" for name in self._buttons()]
        if page.item is None and page.found:
            buttons.insert(0, "click[ID]")
        if page.item is not None and page.item.options:
            buttons.insert(0, "click[VALUE]")
        return f"You may: {', '.join(buttons)}"

    def _shown(self) -> str:
        page = self._page
        if page.item is not None:
            return f"{_product(page.item, self._chosen)}\n{self._may()}"
        if not page.query:
            return f"Search page.\n{self._may()}"
        if not page.found:
            return f"No results for '{shown(page.query)}'.\n{self._may()}"
        first, listed = page.number * PAGE, self._listed()
        head = f"Results {first + 1} to {first + len(listed)} of {len(page.found)} for '{shown(page.query)}':"
        lines = [f"[{item.asin}] {item.name} | {item.price_label}" for item in listed]
        return "\n".join([head, *lines, self._may()])


def _product(item: Item, chosen: Mapping[str, str]) -> str:
    lines = [f"[{item.asin}] {item.name}", f"Price: {item.price_label}"]
    lines.append(f"Rating: {item.rating:.1f} of 5" if item.rating is not None else "Rating: none")
    lines += [f"Category: {item.category}"] if item.category else []
    lines += [f"Description: {item.description}"] if item.description else []
    lines += ["Features:", *(f"- {feature}" for feature in item.features)] if item.features else []
    for name, values in item.options.items():
        marked = (f"{value} (chosen)" if chosen.get(name) == value.casefold() else value for value in values)
        lines.append(f"Option {name}: {' | '.join(marked)}")
    return "\n".join(lines)
