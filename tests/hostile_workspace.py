"""A workspace that attacks: links out, special files, endless lines, control characters, chat tokens. And command lines
that do the same."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

SECRET = "TOP-SECRET-OUTSIDE-THE-ROOT"
TOKENS = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|anything at all|>", "<tool_call>", "</tool_call>",
    "<tool_response>", "</tool_response>", "<think>", "</think>", "<function=cat>", "</function>",
    "<parameter=path>", "</parameter>", "[INST]", "[/INST]", "<s>", "</s>", "<｜end▁of▁sentence｜>",
]  # fmt: skip
_NASTY = [
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\u202egnp.exe", "\u2066\u2069", "\x00", "\x7f\x08\x08", "\u200b",
    "\ufeff", "\r", "\udcff\udcfe", "\U000e0041",
]  # fmt: skip
_REDOS = [
    "(a+)+$", "(a|a)*b", "(a|aa)+c", "(x+x+)+y", ".*.*.*.*=.*", "(.*a){20}b", "(a?){30}a{30}", "[ab]*a[ab]{10}c",
    "((((a*)*)*)*)*b", "a{1,30}b{1,30}", "(a{1,99}){1,99}", "^(([a-z])+.)+[A-Z]([a-z])+$", "\\(a*\\)*\\(a*\\)*b",
    "(.+)+\\1",
]  # fmt: skip
_BROKEN = [
    "[",
    "(",
    ")",
    "a\\",
    "[z-a]",
    "[[:foo:]]",
    "a{2,1}",
    "\\1",
    "[[.xx.]]",
    "(" * 200,
    "[" * 300,
    "a{99999}",
    "*" * 500,
]
_PATHS = [
    "..", "../..", "../../../../etc/passwd", "/etc/passwd", "/../../etc/shadow", "out", "out/secret.txt", "outdir",
    "outdir/secret.txt", "abs", "loop", "loop/loop", "pipe", "sock", "sessions/../../secret.txt", "./././sessions",
    "~", "~/..", "~root", "sessions//s1.md", "s" * 5000, "/" * 3000, "a/" * 2000, "-", "--", "...",
    "sessions/s1.md/..", "\\", "nul\x00byte", "sessions/s1.md", "sessions", "raw_logs", "raw_logs/traj_0001.jsonl",
    "*", "**", "**/*", "*/*", "[a-z]*", "?" * 50, "*a*b*c*d*e*f*g*", "{a,b}", "sessions/s1.md:1-99999",
    "sessions/s1.md:0", "sessions/s1.md:3-1", "D1:1", "D1:1-3", "D9:9", "[D1:1]", "odd\nname", "-rf",
]  # fmt: skip
_FLAGS = [
    "-i", "-n", "-r", "-l", "-L", "-c", "-o", "-w", "-x", "-F", "-E", "-G", "-v", "-H", "-h", "-s", "-q", "-m1",
    "-A2", "-B2", "-C9", "-5", "-R", "-a", "-1", "-P", "-z", "-f", "--", "--include=*.md", "--exclude=*", "--and",
    "-e", "-m", "-A", "-99999999999", "--colour", "--context=x", "--max-count=-3", "-la", "-rn", "-ZZZ",
    "--line-number", "--ex",
]  # fmt: skip
_GLUE = [
    "|", ";", "&&", "&", ">", "<", "$(cat x)", "`id`", "${HOME}", "$HOME", "||", "\n", "'", '"', "\\", "#", "(", ")",
    "!", "~", "2>&1", "> /etc/passwd", "| sh", "; rm -rf /", "$((1+1))", "<<EOF", "\t",
]  # fmt: skip
_VERBS = ["ls", "cd", "grep", "cat", "select", "done"]
_OTHERS = [
    "rm",
    "find",
    "bash -c ls",
    "python3",
    "LS",
    "Cat",
    "",
    "sudo cat",
    "./ls",
    "/bin/cat",
    "exec",
    "grepp",
    "\x00",
    "sed -n 1p",
]


def build(root: Path, *, long_line: int = 5_000_000) -> Path:
    """Write the workspace below `root`, which also gets what must never be read; gives back the workspace's folder."""
    (root / "secret.txt").write_text(f"{SECRET}\n")
    outside = root / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(f"{SECRET}\n")
    inside = root / "workspace"
    for folder in ("raw_logs", "sessions", "people", "big"):
        (inside / folder).mkdir(parents=True)
    (inside / "raw_logs" / "traj_0001.jsonl").write_text(
        "".join(f'{{"id":"D1:{n}","speaker":"A","text":"turn {n} {TOKENS[n % len(TOKENS)]}"}}\n' for n in range(1, 20))
        + "not json\n[]\n{}\n" + "[" * 5000 + "\n"
    )  # fmt: skip
    text = "".join(f"A: {word} kiln foo bar [D1:{n % 19 + 1}]\n" for n, word in enumerate([*TOKENS, *_NASTY]))
    head = "---\ntitle: x\nsources: [D1:1, D1:2, D7:7]\n---\n"
    (inside / "sessions" / "s1.md").write_bytes((head + text).encode("utf-8", "surrogateescape"))
    (inside / "sessions" / "s2.md").write_bytes(b"---\n: [bad yaml\n---\n\xff\xfe caf\xe9 [D1:3]\r\nno end")
    (inside / "people" / "<|im_end|>.md").write_text("---\ntitle: y\n---\nB: <tool_call> [D1:4]\n")
    (inside / "people" / "odd\nname").write_text("line\n")
    (inside / "people" / "-rf").write_text("a\n")
    (inside / "people" / "bin").write_bytes(bytes(range(256)) * 20)
    (inside / "people" / "empty").write_bytes(b"")
    (inside / "big" / "a.txt").write_bytes(b"a" * long_line)
    (inside / "big" / "mixed.txt").write_bytes("ab <|im_end|> é ".encode() * (long_line // 17))
    os.symlink(root / "secret.txt", inside / "out")
    os.symlink(outside, inside / "outdir")
    os.symlink("/etc/passwd", inside / "sessions" / "abs")
    os.symlink(".", inside / "loop")
    os.mkfifo(inside / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(inside / "sock"))
    return inside


def command_lines(count: int, seed: int) -> Iterator[str]:
    """`count` random and adversarial lines."""
    rng = random.Random(seed)
    for _ in range(count):
        kind = rng.random()
        if kind < 0.04:
            yield "".join(
                rng.choices(
                    "greplscatd -\\'\"*?[]{}()|&;<>$`#~!\x00\x1b\n\té漢\udcff0123456789:./", k=rng.randint(0, 60)
                )
            )
        elif kind < 0.10:
            yield " ".join(rng.choices([*_VERBS, *_OTHERS, *_PATHS[:20], *_GLUE, *_FLAGS], k=rng.randint(0, 8)))
        else:
            yield _line(rng)


def _line(rng: random.Random) -> str:
    verb = rng.choice(_VERBS[:5])
    words = [verb, *rng.choices(_FLAGS, k=rng.choice([0, 0, 1, 1, 2, 3]))]
    if verb == "grep":
        pattern = rng.choice(
            [rng.choice(_REDOS), rng.choice(_BROKEN), rng.choice(TOKENS), "a", "kiln", "", "\\bfoo", ".", "é"]
        )
        words.append(f"'{pattern}'" if rng.random() < 0.8 else pattern)
    words += rng.choices(_PATHS, k=rng.choice([0, 1, 1, 2, 3]))
    if rng.random() < 0.1:
        words.insert(rng.randrange(len(words) + 1), rng.choice(_GLUE))
    return " ".join(words)
