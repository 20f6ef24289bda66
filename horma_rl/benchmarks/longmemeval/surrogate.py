"""Surrogate haystacks: the evidence of a question among distractor sessions, up to a number of tokens.

They stand in for LongMemEval_S where the official file is not at hand, and are not it: results on them are labelled.
Distractors are whole sessions of real haystacks and, one in four, the evidence of other questions, which is as short
as the question's own (only annotated turns are known of it), so that length alone does not give it away. As in the
official construction, distractors get new dates around the evidence. Drawn from other people's lives, a distractor may
contradict the evidence, which official haystacks avoid.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property

from horma_rl.benchmarks.longmemeval.types import Item, Sitting, Utterance
from horma_rl.errors import UserError
from horma_rl.tokens import TokenCounter

TOKENS = 115_000
"""Tokens of a haystack of LongMemEval_S, about."""
DAYS = 30
"""Distractors are dated from this many days before the question, or from the first evidence if that is earlier."""
_SHORT_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Distractor:
    """A session that may stand in a haystack, the root id of the question it comes from, and its tokens."""

    owner: str
    sitting: Sitting
    tokens: int


@dataclass(frozen=True)
class Pool:
    """All distractors there are. `long` are sessions of real haystacks, `short` are questions' evidence."""

    long: tuple[Distractor, ...]
    short: tuple[Distractor, ...]
    counter: TokenCounter

    @cached_property
    def tokens(self) -> int:
        """Tokens of the whole pool."""
        return sum(distractor.tokens for distractor in (*self.long, *self.short))


def make_pool(items: Iterable[Item], haystacks: Iterable[tuple[str, Sitting]], counter: TokenCounter) -> Pool:
    """The pool from questions with their evidence and from sessions of real haystacks (owner's id, session)."""
    long: dict[tuple[str, ...], Distractor] = {}
    for owner, sitting in haystacks:
        long.setdefault(_key(sitting), _distractor(owner.replace("_abs", ""), sitting, counter))
    short = [_distractor(item.root, sitting, counter) for item in items for sitting in item.sittings]
    return Pool(tuple(long.values()), tuple(short), counter)


def surrogate(item: Item, pool: Pool, tokens: int = TOKENS, seed: int = 0) -> Item:
    """`item` with a haystack of about `tokens` tokens; the same arguments give the same haystack.

    The question's own evidence is all there, as dated. A distractor is left out when it comes from the same question or
    its unanswerable variant, or repeats a turn of the evidence. Drawing ends where the next one would lead further away
    from the number.

    Raises:
        UserError: the pool is too small.
    """
    rng = random.Random(f"{seed}/{item.id}")
    own = {turn.text for sitting in item.sittings for turn in sitting.turns if turn.has_answer}
    size = sum(sitting_tokens(sitting, pool.counter) for sitting in item.sittings)
    piles = [_shuffled(pile, item.root, own, rng) for pile in (pool.long, pool.short)]
    chosen: list[Sitting] = []
    while size < tokens:
        pile = piles[int(rng.random() < _SHORT_SHARE)] or piles[0] or piles[1]
        if not pile:
            raise UserError(
                f"{item.id}: the distractors hold {pool.tokens} tokens, fewer than the {tokens} asked for: "
                "lower `tokens`, or name more `distractors`"
            )
        found = pile.pop()
        if size + found.tokens - tokens > tokens - size:
            break
        chosen.append(found.sitting)
        size += found.tokens
    return replace(item, sittings=_dated(item, chosen, rng), complete=True)


def sitting_tokens(sitting: Sitting, counter: TokenCounter) -> int:
    """Tokens of a session's messages, each with its role."""
    return sum(counter.count(f"{turn.role}: {turn.text}\n") for turn in sitting.turns)


def _distractor(owner: str, sitting: Sitting, counter: TokenCounter) -> Distractor:
    plain = tuple(Utterance(turn.role, turn.text) for turn in sitting.turns)
    return Distractor(owner, replace(sitting, turns=plain), sitting_tokens(sitting, counter))


def _key(sitting: Sitting) -> tuple[str, ...]:
    return tuple(turn.text for turn in sitting.turns)


def _shuffled(pile: Sequence[Distractor], root: str, own: set[str], rng: random.Random) -> list[Distractor]:
    left = [d for d in pile if d.owner != root and not any(turn.text in own for turn in d.sitting.turns)]
    rng.shuffle(left)
    return left


def _dated(item: Item, distractors: Sequence[Sitting], rng: random.Random) -> tuple[Sitting, ...]:
    """The evidence and the distractors by date; distractors fall between the window's start and the question."""
    start = min([item.asked_at - timedelta(days=DAYS), *(sitting.time for sitting in item.sittings)])
    minutes = max(int((item.asked_at - start).total_seconds()) // 60, 1)
    dated = [replace(sitting, time=start + timedelta(minutes=rng.randrange(minutes))) for sitting in distractors]
    return tuple(sorted([*item.sittings, *dated], key=lambda sitting: sitting.time))
