"""What the documentation names exists: files, links, commands, config keys."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from horma_rl.ablation.config import AblationConfig, cell_runs
from horma_rl.cli import COMMANDS, WITH_ACTIONS
from horma_rl.commands.eval import read_config
from horma_rl.config import load_config
from horma_rl.training.config import TrainConfig
from tests.conftest import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/*.md")), REPOSITORY / "data" / "README.md"]
MADE_BY_A_RUN = ("runs/", "memory/")
CODE = re.compile(r"```\w*\n(.*?)```|`([^`\n]+)`", re.DOTALL)
OURS = re.compile(r"(?:configs|data|docs|envs|horma_rl|scripts|tests|\.ci)/[\w./-]*[\w/]")


def code_of(page: Path) -> Iterator[str]:
    """Lines of code blocks, and inline code."""
    for block, inline in CODE.findall(page.read_text(encoding="utf-8")):
        yield from block.splitlines() if block else [inline]


def commands_of(page: Path) -> Iterator[list[str]]:
    """`horma-rl` command lines as argument lists; a bare mention and placeholders such as CONFIG are left out."""
    for line in code_of(page):
        found = re.match(r"(?:\$ )?(?:\.venv/bin/)?horma-rl (.+)", line)
        words = shlex.split(found[1], comments=True) if found else []
        if words and not any(re.search(r"<\w+>|^[A-Z]{3,}$|\.\.\.|^--help$", word) for word in words):
            yield words


COMMAND_LINES = [words for page in PAGES for words in commands_of(page)]


def test_there_are_commands_to_check() -> None:
    assert {words[0] for words in COMMAND_LINES} >= set(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_exist(page: Path) -> None:
    named = {path for line in code_of(page) for path in OURS.findall(line) if not line.startswith(MADE_BY_A_RUN)}
    assert not [path for path in named if not (REPOSITORY / path).exists()]


@pytest.mark.parametrize("words", COMMAND_LINES, ids=" ".join)
def test_commands_are_understood(words: list[str]) -> None:
    verb, *rest = words
    assert verb in COMMANDS
    if not rest or (verb in WITH_ACTIONS and len(rest) == 1):
        return  # a mention, not a command to type
    parser = argparse.ArgumentParser(exit_on_error=False)
    importlib.import_module(COMMANDS[verb][0]).add_arguments(parser)
    args = parser.parse_args(rest)
    if verb in ("train", "eval"):
        path = REPOSITORY / args.config
        load_config(path, args.overrides, TrainConfig) if verb == "train" else read_config(path, args.overrides)
    if verb == "ablate" and args.config.exists():
        for run in cell_runs(load_config(args.config, args.overrides, AblationConfig)):
            run.config()


def test_every_shipped_config_is_documented() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    shipped = [str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob("configs/**/*.yaml")]
    assert not [path for path in shipped if f"`{path}`" not in text]


def test_scripts_are_named_as_they_are_run() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert "\nbash scripts/train.sh\n" in text
    assert "\nbash scripts/test.sh\n" in text
