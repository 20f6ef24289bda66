"""Files the sessions of one conversation: asks the model about each batch of turns, checks every operation that it
proposes, sends refused ones back with the reason, and commits what was accepted.

The turns are archived and stand in the session notes before the model is asked, so nothing depends on its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from horma_rl.errors import UserError
from horma_rl.llm.types import LanguageModel, NoValidAnswer, RefusedError
from horma_rl.memory.archive import Record
from horma_rl.memory.manager.check import check
from horma_rl.memory.manager.config import ManagerConfig
from horma_rl.memory.manager.journal import Batch, Journal, Verdict
from horma_rl.memory.manager.operations import Operation, Refused, kind_of, read, shown
from horma_rl.memory.manager.prompt import MANAGER_PROMPT_VERSION, batches, messages, refusals
from horma_rl.memory.manager.schema import answer_to
from horma_rl.memory.manager.tree import Tree, apply

_TOO_LARGE = frozenset({400, 413, 422})
"""Statuses with which a server refuses one request, not all."""


@dataclass(frozen=True)
class Writer:
    """The model, how it is asked, and the name it goes by in the journal. `skills` is rendered text, or empty."""

    llm: LanguageModel
    model: str
    config: ManagerConfig = field(default_factory=ManagerConfig)
    skills: str = ""


def replay(journal: Journal, records: Sequence[Record]) -> Tree:
    """The tree as the journal's accepted operations make it, over the turns that its batches cover.

    Raises UserError when an operation does not fit the archive any more: the journal was changed, or is another
    workspace's.
    """
    known = {record.id: record for record in records}
    tree = Tree()
    for batch in journal.batches:
        if missing := [turn for turn in batch.turns if turn not in known]:
            raise UserError(
                f"{journal.path}: files turn {missing[0]}, which is not archived; build into another folder"
            )
        tree.see(known[turn] for turn in batch.turns)
        for verdict in batch.verdicts:
            if verdict.reason is None:
                _replayed(verdict, tree, journal)
    return tree


def _replayed(verdict: Verdict, tree: Tree, journal: Journal) -> None:
    operation = read(verdict.operation)
    fault = operation.reason if isinstance(operation, Refused) else check(operation, tree)
    if isinstance(operation, Refused) or fault:
        raise UserError(f"{journal.path}: an operation no longer fits: {fault}; build into another folder")
    apply(operation, tree)


async def file_sessions(
    records: Iterable[Record],
    tree: Tree,
    journal: Journal,
    writer: Writer,
    filed: Callable[[Batch], None],
) -> None:
    """Ask about the turns that no batch of the journal covers, session by session; `filed` hears of each batch once it
    is committed and the tree holds it.

    Raises:
        BudgetSpent, UnreachableError, RefusedError: nothing is lost, and the same call goes on from there.
    """
    done = journal.done()
    by_session: dict[int, list[Record]] = {}
    for record in records:
        if record.id not in done:
            by_session.setdefault(record.session, []).append(record)
    for number in sorted(by_session):
        for turns in batches(by_session[number], writer.config):
            tree.see(turns)
            batch = await _file(turns, tree, writer)
            journal.append(batch)
            filed(batch)


async def _file(turns: Sequence[Record], tree: Tree, writer: Writer) -> Batch:
    """Ask about one batch until nothing is refused or the rounds are over; accepted operations are in the tree."""
    first = asked = messages(turns, tree, writer.skills, writer.config)
    verdicts: list[Verdict] = []
    outcome = "filed"
    for number in range(writer.config.rounds + 1):
        try:
            form = answer_to(asked, turns, tree, writer.config, 0 if number else writer.config.least_operations)
            proposal = await writer.llm.structured(
                asked,
                form,
                role="manager",
                max_tokens=writer.config.max_tokens,
                describe=writer.config.plain,
            )
        except NoValidAnswer as error:
            outcome = outcome if number else "no valid answer"
            verdicts += [Verdict(number, "answer", shown(one.text), one.reason) for one in error.attempts]
            break
        except RefusedError as error:
            if error.status not in _TOO_LARGE:
                raise
            outcome = outcome if number else f"the server refused the request (status {error.status})"
            break
        refused = _carry_out(proposal.operations, number, tree, verdicts, writer.config)
        if not refused:
            break
        answer = f'{{"operations": [{", ".join(one.shown for one in refused)}]}}'
        asked = [*first, *refusals(answer, refused)]
    ids = tuple(record.id for record in turns)
    return Batch(turns[0].session, ids, tuple(verdicts), outcome, MANAGER_PROMPT_VERSION, writer.model)


def _carry_out(
    proposed: Sequence[Any], number: int, tree: Tree, verdicts: list[Verdict], config: ManagerConfig
) -> list[Refused]:
    """Carry out what may be; adds every verdict, and gives back what was refused."""
    refused: list[Refused] = []
    for index, raw in enumerate(proposed):
        operation = read(raw)
        if index >= config.max_operations:
            operation = Refused(kind_of(raw), shown(raw), f"at most {config.max_operations} operations in one answer")
        if not isinstance(operation, Refused) and (fault := check(operation, tree)):
            operation = Refused(operation.op, shown(raw), fault)
        if isinstance(operation, Refused):
            refused.append(operation)
            verdicts.append(Verdict(number, operation.kind, operation.shown, operation.reason))
        else:
            apply(operation, tree)
            verdicts.append(Verdict(number, operation.op, _plain(operation), None))
    # Thousands of operations over the limit are one fault, not thousands of lines to send back.
    return refused[: config.max_operations]


def _plain(operation: Operation) -> dict[str, Any]:
    return operation.model_dump(mode="json")
