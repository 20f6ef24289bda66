"""`horma-rl <verb>`: finds the verb, imports only what that verb needs, and turns faults into one clear line."""

from __future__ import annotations

import argparse
import codecs
import importlib
import os
import select
import sys

from horma_rl.errors import UserError

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("horma_rl.commands.train", "train a retriever: warm start, GRPO, evaluation, report"),
    "plan": ("horma_rl.commands.plan", "memory and time that a training run will take, before it starts"),
    "preflight": ("horma_rl.commands.preflight", "check GPUs, network, disk and versions before a run"),
    "eval": ("horma_rl.commands.eval", "evaluate a checkpoint and the baselines on a split"),
    "ablate": ("horma_rl.commands.ablate", "run a set of runs that differ in one thing, and print one table"),
    "data": ("horma_rl.commands.data", "fetch, generate and describe datasets"),
    "memory": ("horma_rl.commands.memory", "build and check memory workspaces"),
    "llm": ("horma_rl.commands.llm", "serve a small language model on this machine, or check an endpoint"),
    "shell": ("horma_rl.commands.shell", "play an episode by hand"),
    "export": ("horma_rl.commands.export", "export a checkpoint as a folder that transformers and vLLM load"),
    "retrieve": ("horma_rl.commands.retrieve", "ask a memory with an exported model"),
    "view": ("horma_rl.commands.view", "draw the state tree of an agent's episode"),
}
WITH_ACTIONS = frozenset({"data", "llm", "memory", "view"})
READER_LEFT = 141


def build_parser() -> argparse.ArgumentParser:
    """The top-level parser: it knows the verbs, and each verb's module knows its own arguments."""
    parser = argparse.ArgumentParser(prog="horma-rl", description="Train, evaluate and use the HORMA memory retriever.")
    verbs = "\n".join(f"  {name:<9} {text}" for name, (_, text) in COMMANDS.items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"verbs:\n{verbs}\n\n`horma-rl <verb> --help` explains one."
    parser.add_argument("verb", choices=COMMANDS, metavar="verb")
    parser.add_argument("rest", nargs=argparse.REMAINDER, default=[], help=argparse.SUPPRESS)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one verb. Exit codes: 0 done, 1 failed, 2 the user's input is at fault, 130 interrupted, 141 what read the
    output has left, as `head` does (128 and SIGPIPE, as for any other tool)."""
    try:
        try:
            return _run(argv)
        except Exception as error:
            if not isinstance(error, BrokenPipeError):
                _drop_output()  # what cannot be written would hide this error
            raise
        finally:
            if sys.stdout is not None:  # None: it was closed before the start
                sys.stdout.flush()  # here, not at the interpreter's end, where a fault would be a traceback
    except SystemExit as end:  # rich ends the program by itself when its pipe breaks
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        _drop_output()
        return READER_LEFT
    except OSError as error:
        left = isinstance(error, BrokenPipeError) and _reader_left()
        if not left:
            print(f"horma-rl: {_one_line(error)}", file=sys.stderr)
        _drop_output()
        return READER_LEFT if left else 1


def _run(argv: list[str] | None) -> int:
    args = build_parser().parse_args(argv)
    module_name, description = COMMANDS[args.verb]
    try:
        module = importlib.import_module(module_name)
        parser = argparse.ArgumentParser(prog=f"horma-rl {args.verb}", description=description)
        module.add_arguments(parser)
        # Overrides may stand on both sides of an option; argparse cannot do that for verbs with actions.
        parse = parser.parse_args if args.verb in WITH_ACTIONS else parser.parse_intermixed_args
        return int(module.run(parse(args.rest)) or 0)
    except UserError as error:
        print(f"horma-rl: {_one_line(error)}", file=sys.stderr)
        return 2
    except UnicodeEncodeError as error:
        if not _is_narrow() or error.encoding == "utf-8":  # then it is not the output that lacks characters
            raise
        print(
            f"horma-rl: the output's encoding, {error.encoding}, lacks characters of what is shown; "
            "set PYTHONIOENCODING=utf-8",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print(
            "horma-rl: interrupted; what was finished is on disk, and the same command goes on from there",
            file=sys.stderr,
        )
        return 130


def _one_line(error: Exception) -> str:
    """What an error says, of names and texts that may hold anything: no line break and no control character."""
    from memory_shell.text import neutralise

    return neutralise(" ".join(str(error).split()))


def _is_narrow() -> bool:
    """Whether standard output cannot show every character."""
    return sys.stdout is not None and codecs.lookup(sys.stdout.encoding or "utf-8").name != "utf-8"


def _reader_left() -> bool:
    """Whether standard output or error is the pipe that broke, and not one to a server or another process."""
    poll = select.poll()
    for descriptor in (1, 2):
        poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _drop_output() -> None:
    """Drop what can no longer be written, which the interpreter would try at its end and complain of."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())
