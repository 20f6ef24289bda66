"""How fast the memory shell is, beside a real shell and an in-process one, on the same commands in the same run.

    .venv/bin/python scripts/bench/shell.py [--commands N] [--others N] [--notes N] [--seed S]

Two measurements. Mixed distinct commands (ls, cd, cat, grep for a word, grep for a pattern, select; a sixth each) over
the workspace of one conversation of LoCoMo's conv-26 size: the real one when $HORMA_DATA (default `../shared/data`)
holds LoCoMo, else a generated one. `select` and `cat PATH:M-N` become the nearest thing the other shells have. And grep
over many notes (50,000 files, 20 MB), each pattern once.

The last line is one JSON object: commands_per_s, vs_subprocess_bash, vs_bashkit (ratios), grep_ms_p50, grep_ms_max.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import accumulate, cycle
from pathlib import Path

from memory_shell.types import Caps
from memory_shell.verbs import execute, render
from memory_shell.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parents[2]
CAPS = Caps()
_ROUNDS = 10


def build_workspace(out: Path) -> tuple[Path, str]:
    """A conversation's workspace on disk, and what it is."""
    from horma_rl.memory.build import build

    locomo = Path(os.environ.get("HORMA_DATA") or REPOSITORY.parent / "shared" / "data") / "locomo" / "locomo10.json"
    if locomo.is_file():
        from horma_rl.benchmarks.locomo import load_locomo

        conversation = next(one for one in load_locomo(locomo).conversations if one.name == "conv-26")
        source = "LoCoMo conv-26"
    else:
        from horma_rl.benchmarks.generator import GeneratorConfig, generate

        conversation = generate(GeneratorConfig(seed=26, memories=1, sessions=19, turns=22)).conversations[0]
        source = "a generated conversation"
    build(conversation, out / conversation.name)
    return out / conversation.name, source


def commands(workspace: Workspace, count: int, seed: int) -> list[tuple[str, str]]:
    """`count` distinct commands (directory, line), a sixth of each kind."""
    rng = random.Random(seed)
    text = " ".join(turn.text for turn in workspace.turns.values())
    words = sorted({word.lower() for word in re.findall(r"[A-Za-z]{4,}", text)})
    folders = [path for path in workspace.dirs if path]
    notes = [path for path in workspace.files if path.startswith(("sessions/", "people/"))]
    kinds = (_ls, _cd, _cat, _word, _pattern, _select)
    seen: dict[tuple[str, str], None] = {}
    while len(seen) < count:
        kind = kinds[len(seen) % len(kinds)]
        cwd, line = kind(rng, words, folders, notes)
        while (cwd, line) in seen:  # few different ls and cd exist: spaces make them distinct
            line += " "
        seen[cwd, line] = None
    return list(seen)


Drawn = tuple[str, str]


def _ls(rng: random.Random, _words: list[str], folders: list[str], _notes: list[str]) -> Drawn:
    return "", f"ls {rng.choice(['', '-1', '-l', '-a'])} {rng.choice(['', *folders])}"


def _cd(rng: random.Random, _words: list[str], folders: list[str], _notes: list[str]) -> Drawn:
    return rng.choice([("", f"cd {rng.choice(folders)}"), (rng.choice(folders), "cd .."), ("", "cd /")])


def _cat(rng: random.Random, _words: list[str], _folders: list[str], notes: list[str]) -> Drawn:
    first = rng.randint(1, 18)
    return "", f"cat {rng.choice(['', '-n'])} {rng.choice(notes)}:{first}-{first + rng.randint(0, 8)}"


def _word(rng: random.Random, words: list[str], _folders: list[str], notes: list[str]) -> Drawn:
    where = rng.choice(["-r sessions", "-r sessions", "-r people", rng.choice(notes)])
    return "", f"grep {rng.choice(['-i', '-n', '-in', '-l', '-c', '-w'])} {rng.choice(words)} {where}"


def _pattern(rng: random.Random, words: list[str], _folders: list[str], _notes: list[str]) -> Drawn:
    one, two = rng.sample(words, 2)
    form = rng.choice(
        [
            f"-i '\\b{one[:5]}'",
            f"-E '{one}|{two}'",
            f"-i '{one}.*{two}'",
            f"'{one[:4]}[a-z]*'",
            f"-nE '(19|20)[0-9]{{2}}.*{one}'",
        ]
    )
    return "", f"grep {form} -r sessions"


def _select(rng: random.Random, _words: list[str], _folders: list[str], notes: list[str]) -> Drawn:
    first = rng.randint(6, 18)
    return "", f"select {rng.choice(notes)}:{first}-{first + rng.randint(0, 2)}"


def as_bash(root: Path, cwd: str, line: str) -> str:
    """The nearest thing to `line` in a real shell."""
    line = re.sub(r"^(?:select|cat) (-n)?\s*(\S+):(\d+)-(\d+)\s*$", r"cat \1 \2 | sed -n '\3,\4p'", line)
    return f"cd {root}/{cwd} && {line}"


def ours(workspace: Workspace) -> Callable[[str, str], object]:
    """The memory shell, its output rendered as an episode would show it."""
    return lambda cwd, line: render(execute(workspace, cwd, line), CAPS)


def bash(root: Path) -> Callable[[str, str], object]:
    """`bash -c` in a subprocess."""
    return lambda cwd, line: subprocess.run(["bash", "-c", as_bash(root, cwd, line)], capture_output=True, check=False)


def bashkit(workspace: Workspace) -> Callable[[str, str], object] | None:
    """PyPI's bashkit, in process; None when it is not installed."""
    try:
        from bashkit import Bash
    except ImportError:
        return None
    files = {f"/memory/{path}": file.data.decode("utf-8", "replace") for path, file in workspace.files.items()}
    # One of them answers nothing more after some 900 commands, so ten take turns.
    shells = cycle([Bash(files=files) for _ in range(10)])
    return lambda cwd, line: next(shells).execute_sync(as_bash(Path("/memory"), cwd, line))


def rate(run: Callable[[str, str], object], lines: list[tuple[str, str]]) -> float:
    """Commands per second, by the clock on the wall."""
    started = time.perf_counter()
    for cwd, line in lines:
        run(cwd, line)
    return len(lines) / (time.perf_counter() - started)


def best_rate(run: Callable[[str, str], object], lines: list[tuple[str, str]], size: int) -> float:
    """The best rate over `_ROUNDS` rounds of `size` commands each, all of them different."""
    step = len(lines) // _ROUNDS
    return max(rate(run, lines[start : start + size]) for start in range(0, step * _ROUNDS, step))


def write_notes(root: Path, notes: int, size: int, seed: int) -> list[str]:
    """`notes` Markdown notes of about `size` bytes each under `root`; gives back the vocabulary, common words first."""
    rng = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = list(dict.fromkeys("".join(rng.choices(letters, k=rng.randint(2, 10))) for _ in range(30_000)))
    weights = list(accumulate(1 / (rank + 2) for rank in range(len(words))))
    for number in range(notes):
        folder = root / f"f{number // 250:03}"
        folder.mkdir(exist_ok=True)
        lines, length = [f"---\ntitle: note {number}\nsources: [D1:{number % 400 + 1}]\n---"], 60
        while length < size:
            line = " ".join(rng.choices(words, cum_weights=weights, k=12)) + f" [D1:{number % 400 + 1}]"
            lines.append(line)
            length += len(line) + 1
        (folder / f"n{number:05}.md").write_text("\n".join(lines) + "\n")
    return words


def patterns(words: list[str]) -> list[str]:
    """What people search many notes for, from nothing to everything."""
    rare, common, some = words[-60:], words[:8], words[400:460]
    pairs = list(zip(rare, some, strict=True))
    return [
        *(f"grep -n {word}" for word in rare[:8]),
        *(f"grep -in {word}" for word in some[:8]),
        *(f"grep -l {word}" for word in common),
        *(f"grep -c {word} -r f001" for word in common[:3]),
        *(f"grep -w {word}" for word in some[8:14]),
        *(f"grep -i '\\b{word[:4]}'" for word in rare[8:14]),
        *(f"grep -E '{one}|{two}'" for one, two in pairs[:5]),
        *(f"grep -i '{one}.*{two}'" for one, two in pairs[5:10]),
        *(f"grep -e {one} --and -e {two}" for one, two in pairs[10:14]),
        *(f"grep -E '{word[:3]}[a-z]+ing'" for word in rare[:3]),
        "grep -E '[0-9]{4}-[0-9]{2}-[0-9]{2}'", "grep '^title: note 4999'", "grep -v e", "grep -c ''",
        "grep 'D1:77\\]$'",
        "grep nosuchwordanywhere", "grep -E '(x+x+)+y'", "grep -o '[a-z]*zq[a-z]*'", "grep -L zq", "grep -rh sources .",
    ]  # fmt: skip


def time_grep(root: Path, notes: int, seed: int) -> tuple[list[tuple[float, str]], int]:
    """(milliseconds, command) of each pattern over the notes, slowest first, and the bytes searched."""
    words = write_notes(root, notes, 400, seed)
    workspace = Workspace.load(root)
    execute(workspace, "", "grep -m1 the")
    timed = [(_best(lambda line=line: render(execute(workspace, "", line), CAPS)), line) for line in patterns(words)]
    return sorted(timed, reverse=True), len(workspace.index.text)


def _best(run: Callable[[], str]) -> float:
    times = []
    for _ in range(3):
        started = time.process_time()
        run()
        times.append((time.process_time() - started) * 1000)
    return min(times)


def main(argv: list[str] | None = None) -> int:
    """Measure and print; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--commands", type=int, default=30_000, help="commands for the memory shell")
    parser.add_argument("--others", type=int, default=60, help="of each round, how many the other shells run")
    parser.add_argument("--notes", type=int, default=50_000, help="notes of 400 bytes for the grep measurement")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="shell-bench-") as folder:
        root, source = build_workspace(Path(folder) / "memory")
        workspace = Workspace.load(root)
        lines = commands(workspace, args.commands, args.seed)
        own = best_rate(ours(workspace), lines, len(lines) // _ROUNDS)
        real = best_rate(bash(root), lines, args.others)
        inside = best_rate(shell, lines, args.others) if (shell := bashkit(workspace)) else None
        print(f"{source}: {len(workspace.files)} files, {len(workspace.index.text):,} bytes, {len(lines):,} commands")
        print(f"memory shell {own:,.0f}/s, bash -c {real:,.0f}/s, bashkit {inside or float('nan'):,.0f}/s")
        (Path(folder) / "notes").mkdir()
        timed, size = time_grep(Path(folder) / "notes", args.notes, args.seed)
    print(f"grep over {args.notes:,} notes, {size / 1e6:.1f} MB, best of 3, slowest first:")
    for milliseconds, line in timed[:8]:
        print(f"  {milliseconds:7.2f} ms  {line}")
    result = {
        "commands_per_s": round(own),
        "vs_subprocess_bash": round(own / real, 1),
        "vs_bashkit": round(own / inside, 1) if inside else None,
        "grep_ms_p50": round(statistics.median(milliseconds for milliseconds, _ in timed), 2),
        "grep_ms_max": round(timed[0][0], 2),
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
