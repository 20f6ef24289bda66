"""vLLM in this process, without a turn barrier: requests join the running batch as their episodes become ready.

The engine is either one that this module loads (evaluation) or the one that TRL keeps beside a trainer (colocate mode),
whose weights TRL replaces between rollouts. It holds no reference to episodes: the ids of an episode's earlier turns
are found again by vLLM's prefix cache, so that only the new ids of a turn are computed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from horma_rl.errors import UserError
from horma_rl.retrieval.backends.checks import check_request
from horma_rl.retrieval.checkpoint import has_vision, stored_dtype
from horma_rl.retrieval.types import Completion, Request, Sampling

_STEPS_PER_POLL = 16
_log = logging.getLogger(__name__)


class VllmGenerator:
    """A `Generator` over `llm`, a `vllm.LLM` without tensor parallelism over several ranks.

    `eos_ids` alone end a response. Log-probabilities are those of the sampling distribution only when the engine was
    made with `logprobs_mode="processed_logprobs"`, as `load_llm` and TRL do.

    Raises UserError for an engine with another `logprobs_mode`.
    """

    def __init__(self, llm: Any, eos_ids: Sequence[int], sampling: Sampling | None = None) -> None:
        self._engine = llm.llm_engine
        mode = self._engine.model_config.logprobs_mode
        if mode != "processed_logprobs":
            raise UserError(f"the vLLM engine gives {mode}: make it with logprobs_mode='processed_logprobs'")
        self._eos = frozenset(eos_ids)
        self._sampling = sampling or Sampling()
        self._flying: dict[int, str] = {}
        self._episodes: dict[str, int] = {}
        self._count = 0

    def submit(self, request: Request) -> None:
        """Give `request` to the engine. Raises ValueError for what no backend takes: see `check_request`."""
        check_request(request, busy=request.episode in self._flying)
        self._count += 1
        name = f"{request.episode}.{self._count}"
        prompt = {"prompt_token_ids": list(request.prompt_ids)}
        self._engine.add_request(name, prompt, sampling_params(request, self._sampling, self._eos))
        self._flying[request.episode] = name
        self._episodes[name] = request.episode

    def poll(self) -> list[Completion]:
        """Step the engine until something finishes, at most 16 times."""
        for _ in range(_STEPS_PER_POLL):
            if not self._flying:
                return []
            outputs = [output for output in self._engine.step() if output.finished]
            finished = [self._take(output) for output in outputs if output.request_id in self._episodes]
            if finished:
                return finished
        return []

    def release(self, episode: int) -> None:
        """Abort the request of `episode`, if one is in flight; what the prefix cache holds ages out by itself."""
        name = self._flying.pop(episode, None)
        if name is not None:
            del self._episodes[name]
            self._engine.abort_request([name])

    @property
    def pending(self) -> int:
        """Requests queued or being decoded."""
        return len(self._flying)

    def _take(self, output: Any) -> Completion:
        episode = self._episodes.pop(output.request_id)
        del self._flying[episode]
        answer = output.outputs[0]
        ids = tuple(answer.token_ids)
        if answer.finish_reason not in ("stop", "length") or not ids:
            return Completion(episode, (), (), False, error=f"vLLM ended the request: {answer.finish_reason}")
        logprobs = tuple(float(table[token].logprob) for token, table in zip(ids, answer.logprobs, strict=True))
        return Completion(episode, ids, logprobs, ids[-1] in self._eos)


def sampling_params(request: Request, sampling: Sampling, eos_ids: frozenset[int]) -> Any:
    """vLLM's parameters of one request. Everything that a model's generation config would fill in is given."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        seed=request.seed,
        max_tokens=request.max_tokens,
        ignore_eos=True,  # the engine's own end tokens; ours are the next line
        stop_token_ids=sorted(eos_ids),
        logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def load_llm(folder: Path, *, max_context: int, concurrency: int) -> Any:
    """A vLLM engine of the checkpoint in `folder` for `concurrency` sequences of at most `max_context` tokens.

    It computes in the checkpoint's own number format: vLLM would make 16 bits of 32.

    Raises:
        UserError: vLLM is not installed, or cannot load the checkpoint.
    """
    if not (folder / "config.json").is_file():
        raise UserError(
            f"backend vllm: {folder} has no config.json; merge an adapter first: horma-rl export --merge-lora"
        )
    try:
        from vllm import LLM
    except ImportError as error:
        raise UserError(
            f"backend vllm: vLLM is not installed ({error}): pip install 'horma-rl[vllm]', or backend: transformers"
        ) from None
    try:
        llm = LLM(
            model=str(folder),
            dtype=stored_dtype(folder),
            max_model_len=max_context,
            max_num_seqs=concurrency,
            enable_prefix_caching=True,
            logprobs_mode="processed_logprobs",
            limit_mm_per_prompt={"image": 0, "video": 0} if has_vision(folder) else None,
            enforce_eager=_on_cpu(),
        )
    except (ValueError, RuntimeError, OSError) as error:
        raise UserError(f"vLLM cannot load {folder}: {' '.join(str(error).split())[:300]}") from error
    note = prefix_cache_note(llm)
    if note:
        _log.warning(note)
    return llm


def prefix_cache_note(llm: Any) -> str | None:
    """What a user must know when the engine keeps no prefix cache, so that every turn is read from its start."""
    if llm.llm_engine.vllm_config.cache_config.enable_prefix_caching:
        return None
    model = llm.llm_engine.model_config.model
    return f"vLLM keeps no prefix cache for {model}: each turn computes its whole episode again"


def _on_cpu() -> bool:
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())
