"""What generates the rollouts of training: the policy itself, or vLLM, whose engine and weights are TRL's care.

TRL sends the trainer's weights once a generation step and then empties the prefix cache, before it calls the rollout
function. Between that and the end of a process's rollouts no rank waits for another: each has an engine of its own
(colocate, no tensor parallelism), or sends its own requests to the server.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from trl.generation import vllm_generation

from horma_rl.errors import UserError
from horma_rl.retrieval.backends.server import ServerGenerator, connect
from horma_rl.retrieval.backends.transformers import TransformersGenerator
from horma_rl.retrieval.backends.vllm import VllmGenerator, prefix_cache_note
from horma_rl.retrieval.engine import RolloutConfig
from horma_rl.retrieval.types import Generator, Sampling
from horma_rl.training.config import TrainConfig
from horma_rl.training.kernels import kernel_warnings


def check_vllm(config: TrainConfig, args: Any) -> None:
    """Raise UserError when the run asks for vLLM and it is missing, or its context is shorter than an episode."""
    if not args.use_vllm:
        return
    if importlib.util.find_spec("vllm") is None:
        raise UserError("grpo.use_vllm: vLLM is not installed: pip install 'horma-rl[vllm]', or use_vllm: false")
    longest = config.rollout.max_context_tokens
    if args.vllm_mode == "colocate" and (args.vllm_max_model_length or longest) < longest:
        raise UserError(
            f"grpo.vllm_max_model_length is {args.vllm_max_model_length}, an episode may have {longest} tokens "
            "(rollout.max_context_tokens): leave it out"
        )


@contextmanager
def engine_options(args: Any, model: Any) -> Iterator[None]:
    """Inside, an engine that TRL makes computes in the trainer's number format and keeps a prefix cache.

    TRL leaves both to vLLM, which makes 16 bits of a 32-bit checkpoint: the two would disagree from the first step.
    """
    if not (args.use_vllm and args.vllm_mode == "colocate"):
        yield
        return
    options: dict[str, Any] = {"dtype": _dtype(args, model), "enable_prefix_caching": True}
    if not torch.cuda.is_available():
        options["enforce_eager"] = True
    with plain_cpu_layers(), _replaced(vllm_generation, "LLM", partial(vllm_generation.LLM, **options)):
        yield


@contextmanager
def plain_cpu_layers() -> Iterator[None]:
    """Inside, an engine on a CPU keeps the weights of its linear layers. vLLM packs them for the CPU and drops the
    originals, so that weights sent later have nowhere to go. A GPU's layers are not touched."""
    if torch.cuda.is_available():
        yield
        return
    from vllm.model_executor.layers import utils

    with _replaced(utils, "dispatch_cpu_unquantized_gemm", _plain_linear):
        yield


def rollout_generator(
    trainer: Any, policy: Any, eos_ids: Sequence[int], sampling: Sampling, limits: RolloutConfig
) -> Generator:
    """The generator of this process: over `policy`, over its own vLLM engine, or over the server that all share.

    Raises UserError when the policy or the server cannot be used.
    """
    if not trainer.args.use_vllm:
        return TransformersGenerator(policy, eos_ids, sampling, max_rows=limits.concurrency)
    if trainer.args.vllm_mode == "colocate":
        return VllmGenerator(trainer.vllm_generation.llm, eos_ids, sampling)
    endpoint = connect(server_url(trainer.args), max_context=limits.max_context_tokens)
    return ServerGenerator(endpoint, eos_ids, sampling, limits.concurrency)


def server_url(args: Any) -> str:
    """Where TRL's server is: only the first process holds TRL's own client."""
    return args.vllm_server_base_url or f"http://{args.vllm_server_host}:{args.vllm_server_port}"


def wait_after_sync(trainer: Any) -> None:
    """Make every process wait, after each sending of weights to the server, until the server has them.

    TRL sends them from the first process alone; the others would else ask the server for tokens of the old weights.
    Without a server there is nothing to wait for.
    """
    if not (trainer.args.use_vllm and trainer.args.vllm_mode == "server"):
        return
    send = trainer.vllm_generation.sync_weights

    def send_and_wait() -> None:
        send()
        trainer.accelerator.wait_for_everyone()

    trainer.vllm_generation.sync_weights = send_and_wait


def generation_notes(trainer: Any) -> list[str]:
    """What generates, and what makes it slower than it could be: lines for the start of a run."""
    return [*kernel_warnings(trainer.model, trainer.accelerator.device.type), *_engine_note(trainer)]


def _engine_note(trainer: Any) -> list[str]:
    if not trainer.args.use_vllm:
        return []
    if trainer.args.vllm_mode == "server":
        return [f"rollouts: vLLM server at {server_url(trainer.args)}"]
    llm = trainer.vllm_generation.llm
    note = prefix_cache_note(llm)
    dtype = str(llm.llm_engine.model_config.dtype).removeprefix("torch.")
    return [f"rollouts: vLLM in each process, {dtype}, {f'WARNING: {note}' if note else 'prefix cache on'}"]


def _dtype(args: Any, model: Any) -> str:
    if args.bf16:
        return "bfloat16"
    return "float16" if args.fp16 else str(model.dtype).removeprefix("torch.")


def _plain_linear(layer: Any, remove_weight: bool) -> None:
    del remove_weight
    if layer.weight.ndim == 2:
        layer.cpu_linear = torch.nn.functional.linear


@contextmanager
def _replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)
