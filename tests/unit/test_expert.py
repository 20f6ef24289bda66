"""Expert demonstrations: what they show is what a policy would see, and they end where the reward is."""

from __future__ import annotations

import hashlib
import itertools
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.benchmarks.types import Benchmark
from horma_rl.training.corpus import Demonstrator, compact_workspace, pseudo_examples, task_examples
from horma_rl.training.expert import Episode, Expert, cited_ids, grep_args, read_terms, search_choices
from horma_rl.training.pseudo import WordSource
from memory_shell.cache import WorkspaceCache
from memory_shell.episode import MemoryShell
from memory_shell.types import Caps, Result, Task, ToolCall
from tests.training_parts import codec, environment, spans, tokenizer, words

CAPS = Caps(turns=6, lines=8)


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    """Memories with questions of every kind: several pieces of evidence, none, and one."""
    return load_benchmark("generated", seed=1, train=8, eval=0, generator={"sessions": 5, "turns": 8})


@pytest.fixture(scope="module")
def workspaces(benchmark: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> WorkspaceCache:
    folder = tmp_path_factory.mktemp("memory")
    for conversation in benchmark.conversations:
        compact_workspace(conversation, folder / conversation.name)
    return WorkspaceCache(folder)


Shown = tuple[Task, Episode]


def shown(benchmark: Benchmark, workspaces: WorkspaceCache, seed: int = 0, **chances: float) -> Iterator[Shown]:
    """Every task with the expert's demonstration of it, where it has one."""
    rng = random.Random(seed)
    for task in benchmark.train:
        shell = MemoryShell(workspaces.get(task.workspace), CAPS, overview="terms")
        episode = Expert(shell, codec().format, rng, **chances).episode(task)
        if episode is not None:
            yield task, episode


def calls(response: str) -> list[ToolCall]:
    parsed = codec().format.parse(response)
    assert all(isinstance(call, ToolCall) for call in parsed), response
    return [call for call in parsed if isinstance(call, ToolCall)]


def names(episode: Episode) -> list[list[str]]:
    """The verbs of each turn."""
    return [[call.name for call in calls(response)] for response, _ in episode.turns]


def replay(task: Task, episode: Episode, workspaces: WorkspaceCache) -> tuple[list[list[str]], Result, MemoryShell]:
    """The demonstration's responses in a fresh shell, as a rollout would run them: observations, last result."""
    shell = MemoryShell(workspaces.get(task.workspace), CAPS, overview="terms")
    assert shell.reset(task).text == episode.first_observation
    seen, last = [], Result("")
    for response, _ in episode.turns:
        results = shell.step(codec().format.parse(response))
        seen.append([result.text for result in results])
        last = results[-1]
    return seen, last, shell


@pytest.mark.parametrize("seed", range(3))
def test_replayed_in_a_shell_it_sees_what_it_was_said_to_see(
    seed: int, benchmark: Benchmark, workspaces: WorkspaceCache
) -> None:
    count = perfect = 0
    for task, episode in shown(benchmark, workspaces, seed):
        seen, last, shell = replay(task, episode, workspaces)
        assert [observations for _, observations in episode.turns[:-1]] == seen[:-1]
        assert last.terminated
        assert shell.invalid == 0
        assert set(shell.selection) <= set(task.evidence)
        assert last.reward == (len(shell.selection) / len(task.evidence) if task.evidence else 1.0)
        perfect += set(shell.selection) == set(task.evidence)
        count += 1
    assert count > 0.5 * len(benchmark.train)
    assert perfect > 0.8 * count


def test_it_asks_only_for_words_that_it_was_shown(benchmark: Benchmark, workspaces: WorkspaceCache) -> None:
    """A search can be predicted from the first observation, a selection from the results of searches."""
    for _, episode in shown(benchmark, workspaces):
        terms = {term for term, _ in read_terms(episode.first_observation)}
        lines: set[str] = set()
        for response, observations in episode.turns:
            for call in calls(response):
                if call.name == "grep":
                    assert set(re.findall(r"\\b(.+?)'", call.args)) <= terms
                    assert "\\b" in call.args
                if call.name == "select":
                    assert set(call.args.split()) <= lines
            lines |= {turn_id for text in observations for turn_id in cited_ids(text)}


def test_narrow_first_is_one_search_then_select_and_done(benchmark: Benchmark, workspaces: WorkspaceCache) -> None:
    for task, episode in shown(benchmark, workspaces, narrow=1.0, recover=0.0, complete=0.0):
        if task.evidence:
            assert names(episode) == [["grep"], ["select", "done"]]


def test_it_recovers_from_a_miss(benchmark: Benchmark, workspaces: WorkspaceCache) -> None:
    found = 0
    for task, episode in shown(benchmark, workspaces, recover=1.0, complete=0.0):
        if not task.evidence or len(episode.turns) < 3:
            continue
        *misses, (_, hit), _ = episode.turns
        assert all(not set(cited_ids(text)) & set(task.evidence) for _, texts in misses for text in texts)
        assert set(cited_ids(hit[0])) & set(task.evidence)
        found += 1
    assert found > 2


def test_it_looks_for_what_the_first_search_did_not_show(benchmark: Benchmark, workspaces: WorkspaceCache) -> None:
    found = 0
    for task, episode in shown(benchmark, workspaces, recover=0.0, complete=1.0):
        verbs = names(episode)
        if ["select", "grep"] not in verbs:
            continue
        assert verbs == [["grep"], ["select", "grep"], ["select", "done"]]
        assert len(task.evidence) > 1
        _, last, shell = replay(task, episode, workspaces)
        assert len(shell.selection) > len(calls(episode.turns[1][0])[0].args.split())
        assert last.reward > 1 / len(task.evidence)
        found += 1
    assert found > 0
    assert not any(["select", "grep"] in names(e) for _, e in shown(benchmark, workspaces, recover=0.0, complete=0.0))


def test_on_absence_it_searches_and_stops_with_nothing(benchmark: Benchmark, workspaces: WorkspaceCache) -> None:
    absent = [(task, episode) for task, episode in shown(benchmark, workspaces) if not task.evidence]
    assert len(absent) > 2
    for task, episode in absent:
        *searches, last = names(episode)
        assert last == ["done"]
        assert len(searches) <= 2
        assert all(turn == ["grep"] for turn in searches)
        assert replay(task, episode, workspaces)[1].reward == 1.0


def test_it_shows_nothing_when_no_search_finds_the_evidence(workspaces: WorkspaceCache, benchmark: Benchmark) -> None:
    task = benchmark.train[0]
    lost = Task("t", "Zzyzx qwghlm?", ("D1:1",), task.workspace)
    shell = MemoryShell(workspaces.get(task.workspace), CAPS, overview="terms")
    assert Expert(shell, codec().format, random.Random(0)).episode(lost) is None


def test_masks_cover_the_responses_and_nothing_else(benchmark: Benchmark, workspaces: WorkspaceCache) -> None:
    for _, episode in shown(benchmark, workspaces):
        ids, mask = codec().transcript(episode.first_observation, episode.turns)
        said = [tokenizer().decode(ids[a:b]) for a, b in spans(mask)]
        assert said == [f"{response}<|im_end|>" for response, _ in episode.turns]
        start = codec().start(episode.first_observation)
        assert ids[: len(start)] == start
        assert mask[: len(start)] == [0] * len(start)


def test_no_demonstration_is_longer_than_a_rollout_may_be(benchmark: Benchmark, workspaces: WorkspaceCache) -> None:
    rng = random.Random(0)
    short = Demonstrator(codec(), Caps(turns=2, lines=8), "terms", rng, 2000)
    made = [e for t in benchmark.train for e in short.examples(workspaces.get(t.workspace), [t])]
    assert made
    assert {len(spans(example.mask)) for example in made} <= {1, 2}
    tight = Demonstrator(codec(), CAPS, "terms", rng, 150)
    lengths = [len(e.ids) for t in benchmark.train for e in tight.examples(workspaces.get(t.workspace), [t])]
    assert 0 < max(lengths) <= 150


DIGEST = """
import sys
from pathlib import Path
from tests.unit.test_expert import digest
print(digest(Path(sys.argv[1]), int(sys.argv[2])))
"""


def digest(folder: Path, seed: int) -> str:
    """A hash of the first examples over the workspaces in `folder`, questions of turns among them, and over pseudo
    memories."""
    tasks = load_benchmark("generated", seed=1, train=8, eval=0, generator={"sessions": 5, "turns": 8}).train
    rng = random.Random(seed)
    demonstrator = Demonstrator(codec(), CAPS, "terms", rng, 900)
    stream = task_examples(demonstrator, WorkspaceCache(folder), tasks, rng, turn_share=0.5)
    made = [(example.ids, example.mask) for example in itertools.islice(stream, 60)]
    source = WordSource(words(), 0.4, np.random.default_rng(seed))
    made += [(example.ids, example.mask) for example in itertools.islice(pseudo_examples(demonstrator, source), 20)]
    return hashlib.sha256(repr(made).encode()).hexdigest()


def test_the_same_seed_gives_the_same_examples_in_any_process(workspaces: WorkspaceCache) -> None:
    ours = digest(workspaces.memory_dir, 4)
    command = [sys.executable, "-c", DIGEST, str(workspaces.memory_dir), "4"]
    other = subprocess.run(command, env=environment(PYTHONHASHSEED="77"), capture_output=True, text=True, check=True)
    assert other.stdout.strip() == ours
    assert digest(workspaces.memory_dir, 5) != ours


def test_terms_and_citations_are_read_back() -> None:
    assert read_terms("Question: x?\nTerms: kiln 2, o'brien 3, bowl 90") == [("kiln", 2), ("o'brien", 3), ("bowl", 90)]
    assert read_terms("Question: Terms: x 1?\nTerms: none of the question's words occur") == []
    assert cited_ids("a: [D1:1] no [D1:2]\nb: two [D1:3, D2:1]\n[3 more lines]") == ("D1:2", "D1:3", "D2:1")


def test_searches_are_whole_rare_words_then_pairs() -> None:
    assert search_choices([("a", 1), ("b", 9), ("c", 2)], 8) == [("a",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")]
    assert grep_args(("a", "b")) == "-rhi -e '\\ba' --and -e '\\bb' sessions"


def test_a_cascade_searches_in_order_until_one_shows_evidence(benchmark: Benchmark, workspaces: WorkspaceCache) -> None:
    walked = 0
    for task, episode in shown(benchmark, workspaces, cascade=1.0, complete=0.0):
        if not task.evidence:
            continue
        searches = [response for response, _ in episode.turns[:-1]]
        order = search_choices(read_terms(episode.first_observation), CAPS.lines)[: len(searches)]
        in_order = [codec().format.render([ToolCall("grep", grep_args(choice))]) for choice in order]
        hits = [bool(set(task.evidence) & set(cited_ids(seen[0]))) for _, seen in episode.turns[:-1]]
        if searches == in_order:
            walked += 1
            assert hits == [False] * (len(hits) - 1) + [True]
    assert walked > len(benchmark.train) // 2
