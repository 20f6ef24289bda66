"""A schema's grammar is compiled in a process of its own first, which may die of it in the server's place.

The compiler of llguidance 1.9 runs off its stack on long chains of references, and a few kilobytes of references
beside other conditions can keep it busy, and growing, without end. The child has a smaller stack than any thread of the
server, and bounds of time and memory, so that what it compiles the server compiles as well.

This file is also the child's program: it imports nothing of the project.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import threading

_CPU_S = 5
_WALL_S = 60.0
_MEMORY = 2 * 2**30
_STACK = 2**20


def fault(grammar: str) -> str:
    """What is wrong with `grammar`, as llguidance says it, or empty when it compiles in time."""
    command = [sys.executable, "-P", __file__, str(_CPU_S)]
    try:
        done = subprocess.run(command, input=grammar.encode(), capture_output=True, timeout=_WALL_S, check=False)
    except subprocess.TimeoutExpired:
        return "it takes too long to compile"
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "replace")
    if done.returncode < 0:  # a signal: off the stack, out of time or of memory
        return "it is too deep or too large to compile"
    return done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2] or "it could not be tried"


def _compile(seconds: int) -> None:
    """Say what is wrong with the grammar on standard input; nothing if it compiles in `seconds` of the processor."""
    from llguidance import LLMatcher

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    grammar = sys.stdin.buffer.read().decode()
    told: list[str] = []
    threading.stack_size(_STACK)
    thread = threading.Thread(target=lambda: told.append(LLMatcher.validate_grammar(grammar)))
    thread.start()
    thread.join()
    sys.stdout.buffer.write(told[0].encode())


if __name__ == "__main__":
    _compile(int(sys.argv[1]))
