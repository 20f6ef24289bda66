"""Words of a question as search terms: tokens, prefix stems for `grep -i '\\bSTEM'`, and the words not worth a search.

A stem here is always a *prefix* of its word, unlike Porter's (`story` -> `stori`), so that it can be typed into grep as
it is. English only; words in other languages pass through mostly unchanged.
"""

from __future__ import annotations

import re
from functools import lru_cache

MIN_STEM = 3
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_VOWEL = re.compile(r"[aeiouy]")
_VOWELS = "aeiou"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS = _words(
    """
    a an the this that these those there here it its itself he him his himself she her hers herself they them their
    theirs themselves i me my mine myself we us our ours ourselves you your yours yourself one ones someone somebody
    something anyone anybody anything everyone everybody everything nobody nothing
    what when where who whom whose which why how whether
    am is are was were be been being isn't aren't wasn't weren't do does did done doing don't doesn't didn't
    have has had having haven't hasn't hadn't can could can't cannot couldn't will would won't wouldn't
    shall should shouldn't may might must ought i'm you're he's she's it's we're they're i've you've we've they've
    i'll you'll he'll she'll we'll they'll i'd you'd he'd she'd we'd they'd that's what's who's where's when's how's
    and or but nor so if then than because as of at by for with without about against between among into through
    during before after above below to from up down in out on off over under again further once upon within toward
    towards across along around near since until till while per via
    not no yes only own same too very also just more most much many few less least some any each every both either
    neither other others another such all several
    ever never always often sometimes usually already yet still now today currently ago
    mention mentioned mentions said say says tell tells told according conversation
    get gets got getting go goes going went gone
    """
)

# Not inflections, whatever their ending looks like.
_WHOLE = _words("evening morning news series species shoulder james")
# Plurals of nouns in -ie: `movies` must not become `mov`.
_IE_PLURALS = _words(
    "movies cookies selfies zombies smoothies hoodies brownies calories rookies veggies foodies newbies besties"
)


def tokenise(text: str) -> list[str]:
    """The words of `text` in order, lower-case: letters, digits and inner apostrophes; a possessive 's is dropped."""
    words = _WORD.findall(text.replace("\u2019", "'").lower())
    return [_drop_possessive(word) for word in words]


def _drop_possessive(word: str) -> str:
    if word.endswith("'s") and word not in STOP_WORDS:
        return word[:-2]
    return word


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """A prefix of `word` (already lower-case) that its inflections share: `painting`, `paints`, `painter` -> `paint`.

    Never shorter than three characters; words of up to three letters come back unchanged. Where the choice is between
    missing an inflection and matching a few words too many (`party`, `parties` -> `part`), it matches too many.
    """
    if len(word) <= MIN_STEM or word in _WHOLE:
        return word
    return _strip_ending(_strip_plural(word))


def _strip_plural(word: str) -> str:
    if not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word in _IE_PLURALS:
        return word[:-1]
    if word.endswith("ies") and len(word) > MIN_STEM + 2 and word[-4] not in _VOWELS:
        return word[:-3] + "y"
    if word.endswith("oes") and len(word) > MIN_STEM + 3:
        return word[:-2]
    return word[:-1]


def _strip_ending(word: str) -> str:
    """Strip one verbal or derivational ending. A trailing `y` put there by `_strip_plural` goes again."""
    if word.endswith("ied"):
        return word[:-3] if len(word) >= MIN_STEM + 3 else word
    for ending, least in (("ing", MIN_STEM), ("ed", MIN_STEM), ("er", MIN_STEM + 2), ("ly", MIN_STEM + 2)):
        if word.endswith(ending) and _can_strip(word, ending, least):
            return _strip_y(_undouble(word[: -len(ending)]))
    if word.endswith("e") and len(word) > MIN_STEM and word[-2] not in "aeou":
        return word[:-1]
    return _strip_y(word)


def _can_strip(word: str, ending: str, least: int) -> bool:
    rest = word[: -len(ending)]
    return len(rest) >= least and _VOWEL.search(rest) is not None and not word.endswith("eed")


def _undouble(word: str) -> str:
    """`stopp` -> `stop`, `travell` -> `travel`; `call` and `pass` keep both letters."""
    if len(word) <= MIN_STEM or word[-1] != word[-2] or word[-1] in _VOWELS:
        return word
    if word[-1] in "lsfz" and len(word) <= MIN_STEM + 1:
        return word
    return word[:-1]


def _strip_y(word: str) -> str:
    if word.endswith("y") and len(word) > MIN_STEM and word[-2] not in _VOWELS:
        return word[:-1]
    return word
