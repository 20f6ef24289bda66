"""Answer metrics that need no model, each named after the harness whose numbers it reproduces.

`f1_locomo`, `adv_abstain` and `adv_trap` follow `task_eval/evaluation.py` of snap-research/LoCoMo, `f1_mem0` follows
`evaluation/metrics/utils.py` of mem0ai/mem0. The two token scores differ (multiset against set, stems against words,
articles dropped or kept), so a table has to name the one it shows.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

from horma_rl.errors import UserError

ABSTENTIONS = ("no information available", "not mentioned")
"""What LoCoMo's harness takes for a refusal to answer, wherever in the answer it stands."""

_ARTICLES = re.compile(r"\b(a|an|the|and)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MEM0_BLANKS = str.maketrans(dict.fromkeys(".,!?", " "))


def f1_locomo(prediction: str, gold: str, category: str) -> float:
    """LoCoMo's score of `prediction`, 0 to 1, by its rule for `category` (a name, as in `benchmarks.locomo`).

    multi-hop: the gold is split at commas, each part scored by its best match among the prediction's parts, and the
    scores averaged. open-domain: the gold ends at the first `;`. temporal, single-hop: token F1. adversarial:
    `adv_abstain`. Any other category: token F1.

    Raises:
        UserError: nltk, whose Porter stemmer the harness uses, is not installed.
    """
    if category == "adversarial":
        return adv_abstain(prediction)
    if category == "multi-hop":
        return _multi_answer_f1(prediction, gold)
    return _stemmed_f1(prediction, gold.split(";", maxsplit=1)[0].strip() if category == "open-domain" else gold)


def f1_mem0(prediction: str, gold: str) -> float:
    """The Mem0 line's token F1, 0 to 1: sets of lower-case words, no stems, of punctuation only `. , ! ?` dropped."""
    said, wanted = _mem0_words(prediction), _mem0_words(gold)
    shared = len(said & wanted)
    return _harmonic(shared / len(said), shared / len(wanted)) if shared else 0.0


def adv_abstain(prediction: str) -> float:
    """1 when the answer to an unanswerable question says that there is no answer, in the harness's words; else 0."""
    lowered = prediction.lower()
    return float(any(phrase in lowered for phrase in ABSTENTIONS))


def adv_trap(prediction: str, trap: str) -> float:
    """How far the answer keeps clear of the trap that an adversarial question sets: 1 minus the stemmed token F1 with
    the trap's answer. Unlike `adv_abstain` it credits refusals in any words. The trap is never gold."""
    return 1.0 - _stemmed_f1(prediction, trap)


def normalise_locomo(text: str) -> str:
    """LoCoMo's normal form: lower-case, without ASCII punctuation and a, an, the, and; single blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _stemmed_f1(prediction: str, gold: str) -> float:
    said, wanted = _stems(prediction), _stems(gold)
    shared = sum((Counter(said) & Counter(wanted)).values())
    return _harmonic(shared / len(said), shared / len(wanted)) if shared else 0.0


def _multi_answer_f1(prediction: str, gold: str) -> float:
    said = [part.strip() for part in prediction.split(",")]
    best = [max(_stemmed_f1(part, wanted.strip()) for part in said) for wanted in gold.split(",")]
    return sum(best) / len(best)


def _harmonic(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall)


def _stems(text: str) -> list[str]:
    return [_stem(word) for word in normalise_locomo(text).split()]


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    return _stemmer()(word)


@lru_cache(maxsize=1)
def _stemmer() -> Callable[[str], str]:
    """Porter's stemmer as nltk has it. Others differ from it on common words (`day`, `enjoy`), and so would scores."""
    try:
        from nltk.stem.porter import PorterStemmer
    except ImportError:
        raise UserError("f1_locomo needs nltk's Porter stemmer: pip install 'horma-rl[answers]'") from None
    stem: Callable[[str], str] = PorterStemmer().stem
    return stem


def _mem0_words(text: str) -> set[str]:
    return set(text.lower().translate(_MEM0_BLANKS).split())
