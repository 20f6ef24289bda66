"""Questions and dates that `retrieve` refuses, without a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from horma_rl.cli import main
from horma_rl.errors import UserError
from horma_rl.retrieval.types import Trajectory
from horma_rl.serving.retrieve import QuestionError, Retriever, check_date
from memory_shell.types import Caps, Stop
from memory_shell.workspace import Workspace


class Full:
    """An engine whose context holds ten ids: no question fits."""

    def run(self, specs: list[Any]) -> Iterator[Trajectory]:
        for spec in specs:
            yield Trajectory(spec.task, spec.seed, [0] * 1234, stop=Stop.CONTEXT_FULL)


def retriever() -> Retriever:
    shell = SimpleNamespace(caps=Caps(), unit="turn", overview="none")
    manifest = SimpleNamespace(shell=shell, rollout=SimpleNamespace(max_context_tokens=10))
    return Retriever(cast(Any, Full()), cast(Any, manifest))


def test_a_question_longer_than_the_context_is_told_with_its_length(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, {}, {"": ()}, {}, 0)
    with pytest.raises(QuestionError, match=r"too long: its prompt takes 1,234 tokens, .* 10$") as told:
        retriever().ask(workspace, "why " * 1000)
    assert len(str(told.value)) < 200, "the question is not repeated"
    with pytest.raises(QuestionError, match="empty"):
        retriever().ask(workspace, " ")


@pytest.mark.parametrize("text", ["garbage", "", "31.05.2024", "2024-02-30", "2024-05-31T99:00"])
def test_what_is_no_date_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="is no date"):
        check_date(text)
    folders = ["--model", str(tmp_path), "--memory", str(tmp_path)]
    assert main(["retrieve", *folders, "--asked-at", text, "When?"]) == 2
    assert "--asked-at" in capsys.readouterr().err


def test_dates_and_times_are_taken() -> None:
    for text in (None, "2024-05-31", "2024-05-31T18:30", "2024-05-31 18:30"):
        check_date(text)
