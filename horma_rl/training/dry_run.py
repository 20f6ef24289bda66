"""What `--dry-run` checks beyond the config's own rules: what costs little, and needs no data and no GPU."""

from __future__ import annotations

import importlib.util

import torch

from horma_rl.benchmarks.registry import check_options
from horma_rl.errors import UserError
from horma_rl.training.config import TrainConfig
from horma_rl.training.grpo_config import grpo_args
from horma_rl.training.launch_config import engine_asked
from horma_rl.training.policies import check_model_path


def check_config(config: TrainConfig) -> list[str]:
    """Notes on what the run needs and this machine does not have, one line each. Raises UserError for what would fail
    on any machine."""
    args = grpo_args(config)
    check_options(config.benchmark, config.options)
    check_model_path(config)
    rates = config.curriculum.rates
    if rates is not None and not rates.is_file():
        raise UserError(f"curriculum.rates: no file at {rates}")
    notes = []
    if engine_asked(config.launch).kind == "FSDP2" and not torch.cuda.is_available():
        notes.append("this machine has no GPU: the run needs one for each process (launch.config is FSDP2)")
    if args.use_vllm and importlib.util.find_spec("vllm") is None:
        notes.append("vLLM is not installed here: the run needs it (pip install 'horma-rl[vllm]')")
    return notes
