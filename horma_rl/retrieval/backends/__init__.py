"""Generators: backends that turn prompt ids into completion ids. No torch is imported here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from horma_rl.retrieval.types import Generator, Sampling

if TYPE_CHECKING:
    from horma_rl.retrieval.engine import RolloutConfig

Backend = Literal["transformers", "vllm", "server"]


def make_generator(
    backend: Backend,
    folder: Path,
    eos_ids: Sequence[int],
    sampling: Sampling,
    limits: RolloutConfig,
    *,
    device: str = "auto",
    server: str | None = None,
) -> Generator:
    """The generator of a checkpoint `folder`: with transformers or vLLM in this process, or at the URL `server`.

    `device` (`auto`, `cpu`, `cuda` or a torch device name) is for transformers; vLLM takes the devices that it sees.

    Raises:
        UserError: the checkpoint cannot be loaded, vLLM is missing, or the server cannot be used.
    """
    if backend == "server":
        from horma_rl.retrieval.backends.server import ServerGenerator, connect

        assert server is not None
        endpoint = connect(server, models=(str(folder), folder.name), max_context=limits.max_context_tokens)
        return ServerGenerator(endpoint, eos_ids, sampling, limits.concurrency)
    if backend == "vllm":
        from horma_rl.retrieval.backends.vllm import VllmGenerator, load_llm

        llm = load_llm(folder, max_context=limits.max_context_tokens, concurrency=limits.concurrency)
        return VllmGenerator(llm, eos_ids, sampling)
    from horma_rl.retrieval.backends.transformers import TransformersGenerator, load_model

    return TransformersGenerator(load_model(folder, device), eos_ids, sampling, max_rows=limits.concurrency)
