"""What several processes need around TRL's trainer: the engine that is really in force, and the whole policy for
rollouts.

A DeepSpeed or FSDP config that accelerate ignores trains without a fault, unsharded, or each process for itself. So the
engine is read off the trainer and off the sizes of what this process holds, and anything else than what was asked for
ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed.fsdp import FSDPModule
from transformers import TrainerCallback
from trl.models.utils import unwrap_model_for_generation

from horma_rl.errors import UserError
from horma_rl.training.launch_config import Engine


def engine_in_force(trainer: Any) -> Engine:
    """The engine that accelerate gave to `trainer`."""
    accelerator = trainer.accelerator
    processes = int(accelerator.num_processes)
    if trainer.is_deepspeed_enabled:
        return Engine("ZeRO", int(accelerator.state.deepspeed_plugin.zero_stage), processes)
    if trainer.is_fsdp_enabled:
        return Engine("FSDP2" if accelerator.is_fsdp2 else "FSDP1", 0, processes)
    return Engine("DDP" if processes > 1 else "single", 0, processes)


def held(model: Any, optimizer: Any) -> tuple[float, float]:
    """The shares of the trained parameters, and of what the optimiser updates, that this process holds, in [0, 1].

    `model` and `optimizer` as they are once training has begun.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    whole = sum(_whole_size(parameter) for parameter in trained)
    here = sum(_local_size(parameter) for parameter in trained)
    return here / whole, sum(_optimised_sizes(optimizer)) / whole


def _whole_size(parameter: Any) -> int:
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def _local_size(parameter: Any) -> int:
    if hasattr(parameter, "ds_tensor"):  # ZeRO-3
        return int(parameter.ds_tensor.numel())
    return int(parameter.to_local().numel() if hasattr(parameter, "to_local") else parameter.numel())


def _optimised_sizes(optimizer: Any) -> list[int]:
    inner = getattr(optimizer, "optimizer", optimizer)  # accelerate's wrapper
    for name in ("fp32_partitioned_groups_flat", "single_partition_of_fp32_groups"):  # ZeRO-3; ZeRO-1 and 2
        if hasattr(inner, name):
            return [int(group.numel()) for group in getattr(inner, name)]
    return [_local_size(parameter) for group in inner.param_groups for parameter in group["params"]]


class EngineCheck(TrainerCallback):
    """Says at the start of training which engine is in force, and ends the run when it is not the one asked for."""

    def __init__(self, trainer: Any, asked: Engine, say: Callable[[str], None]) -> None:
        self._trainer = trainer
        self._asked = asked
        self._say = say

    def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        """Raises UserError when the engine, or what is sharded, is not what the config asks for."""
        found = engine_in_force(self._trainer)
        if found != self._asked:
            raise UserError(f"the config asks for {self._asked}, but {found} is in force: check launch.config")
        parameters, optimised = held(self._trainer.model, self._trainer.optimizer)
        check_shares(found, parameters, optimised)
        if found.processes > 1:
            share = f"each holds {parameters:.0%} of the weights and {optimised:.0%} of the optimiser's state"
            self._say(f"engine: {found}; {share}")


def check_shares(engine: Engine, parameters: float, optimised: float) -> None:
    """Raise UserError when an engine that shards left more than its part to this process. A quarter more is allowed for
    padding, which counts in small models only."""
    part = 1.25 / engine.processes
    sharded = {"parameters": engine.kind == "FSDP2" or engine.stage == 3, "optimiser": engine.kind in ("FSDP2", "ZeRO")}
    for name, share in (("parameters", parameters), ("optimiser", optimised)):
        if sharded[name] and engine.processes > 1 and share > part:
            raise UserError(f"{engine} should shard the {name}, but a process holds {share:.0%} of them")


@contextmanager
def whole_policy(trainer: Any) -> Iterator[Any]:
    """The policy with all its weights in this process, so that a forward pass waits for no other process.

    All processes must enter together; they may leave when they are done. Weights that vLLM holds are not gathered here.
    """
    engine = trainer.accelerator
    if trainer.is_deepspeed_enabled and not trainer.use_vllm:
        with unwrap_model_for_generation(trainer.model_wrapped, engine) as policy, _unwatched(trainer.model_wrapped):
            yield policy  # gathered under ZeRO-3 only
    elif trainer.is_fsdp_enabled and not trainer.use_vllm:
        with unsharded(trainer.model, bool(engine.state.fsdp_plugin.reshard_after_forward)):
            yield engine.unwrap_model(trainer.model)
    else:
        yield engine.unwrap_model(trainer.model)


@contextmanager
def _unwatched(model: Any) -> Iterator[None]:
    """Take the one hook off a ZeRO-3 model that TRL leaves on: at the start of every forward pass of the whole model it
    compares the order of modules with the other processes, which hangs when some have fewer passes to do."""
    offload = getattr(model.optimizer, "parameter_offload", None)
    if offload is None:
        yield
        return
    handle = offload.fwd_pre_hook
    hook = offload.module._forward_pre_hooks[handle.id]
    handle.remove()
    try:
        yield
    finally:
        offload.fwd_pre_hook = offload.module.register_forward_pre_hook(hook, prepend=True)


@contextmanager
def unsharded(model: Any, reshard: bool = True) -> Iterator[None]:
    """All weights of an FSDP2 model, kept whole over any number of forward passes, and spread again after. `reshard`:
    whether layers give their weights back after each forward pass of training."""
    parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for module in parts:
        module.set_reshard_after_forward(False)
        module.unshard()
    try:
        yield
    finally:
        for module in parts:
            module.reshard()
            module.set_reshard_after_forward(reshard and module is not parts[0])  # the root never does
