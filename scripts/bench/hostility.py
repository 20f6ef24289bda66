"""What hostile searches cost: CPU milliseconds per megabyte searched, for patterns and texts made to be slow.

    .venv/bin/python scripts/bench/hostility.py [--mb N]

The last line is one JSON object: searches, worst_ms_per_mb, median_ms_per_mb, over_20 (how many searches cost more than
20 ms per MB).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from memory_shell.types import Caps
from memory_shell.verbs import execute, render
from memory_shell.workspace import Limits, Workspace

PATTERNS = [
    "-E '(a+)+$'", "-E '(a|a)*b'", "-E '(a|aa)+c'", "-E '(x+x+)+y'", "'.*.*.*.*.*.*=.*'", "-E '(.*a){20}b'",
    "-E '(.*a){12}'", "-E '[ab]*a[ab]{14}c'", "-E '(a|b)*a(a|b){12}$'", "-E '(a?){50}a{50}c'",
    "-E 'a{1,30}b{1,30}c'", "-E '((((a*)*)*)*)*b'", "-w a", "-w кот", "-w foo", "'\\bкот'", "'\\<'", "'\\>'",
    "-E 'o\\>'", "-ow кот", "-i 'КОТ'", "-x 'a*'", "-o a", "-o 'a*'", "-o '\\<.'", "-c a", "-c ''", "-v a", "-v z",
    "-vc b", "-L z", "-l a", "-e a --and -e b", "-e a --and -e zz", "-n z", "-m1 a", "-E '\\w+\\s+\\w+\\s+\\w+z'",
    "-E '[[:alpha:]]+[[:space:]]+zz'", "-C3 b", "-F -e a -e b -e zz", "-wE '(a|b)+'",
    "-E '(foo|bar|baz|qux|quux|corge|grault)+z'", "-i 'zzz'", "'^.*$'", "-E '^(([a-z])+.)+[A-Z]([a-z])+$'",
]  # fmt: skip


def write_texts(root: Path, size: int) -> None:
    """Files of about `size` bytes: endless lines of one letter, of two, of words, of Cyrillic; and ordinary lines."""
    rng = random.Random(0)
    words = [bytes(rng.choices(b"etaoinshr", k=rng.randint(2, 8))) for _ in range(5_000)]
    many = rng.choices(words, k=size // 6)
    (root / "one_letter").write_bytes(b"a" * size)
    (root / "two_letters").write_bytes(bytes(rng.choices(b"ab", k=size)))
    (root / "one_line").write_bytes(b" ".join(many))
    (root / "lines").write_bytes(b"\n".join(b" ".join(many[start : start + 12]) for start in range(0, len(many), 12)))
    (root / "cyrillic").write_bytes("слово скот é — ".encode() * (size // 26))
    (root / "cyrillic_lines").write_bytes("скотскот слово é —\n".encode() * (size // 33))


def main(argv: list[str] | None = None) -> int:
    """Measure and print; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mb", type=int, default=5, help="size of each text, in millions of bytes (at most 8)")
    args = parser.parse_args(argv)
    costs: list[tuple[float, str]] = []
    with tempfile.TemporaryDirectory(prefix="hostility-") as folder:
        write_texts(Path(folder), args.mb * 1_000_000)
        workspace = Workspace.load(Path(folder), Limits(file_bytes=9_000_000))
        for path, file in workspace.files.items():
            for pattern in PATTERNS:
                started = time.process_time()
                render(execute(workspace, "", f"grep {pattern} {path}"), Caps())
                costs.append(((time.process_time() - started) * 1e9 / len(file.data), f"grep {pattern} {path}"))
    costs.sort(reverse=True)
    for cost, line in costs[:12]:
        print(f"{cost:8.2f} ms/MB  {line}")
    result = {
        "searches": len(costs),
        "worst_ms_per_mb": round(costs[0][0], 2),
        "median_ms_per_mb": round(statistics.median(cost for cost, _ in costs), 3),
        "over_20": sum(cost > 20 for cost, _ in costs),
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
