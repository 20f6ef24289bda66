"""Makes the checkpoints of several processes that a CPU can make: `torchrun --nproc_per_node 2 sharded_checkpoints.py
MODEL OUT`. Each of `zero2`, `zero3` and `fsdp` below OUT holds what the trainer leaves when weights are not gathered,
and beside it, as `NAME.safetensors`, the weights that the processes held, gathered by the engine itself."""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM

SMALL = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def main(model: Path, out: Path) -> None:
    """All three, one after the other."""
    deepspeed.init_distributed("gloo")
    for stage in (2, 3):
        zero(model, out, stage)
    fsdp(model, out)
    dist.barrier()
    dist.destroy_process_group()


def zero(start: Path, out: Path, stage: int) -> None:
    """A DeepSpeed engine after one step."""
    settings = {
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        "train_micro_batch_size_per_gpu": 1, "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False, "steps_per_print": 10**9,
    }  # fmt: skip
    model = load(start)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    engine.backward(loss_of(engine))
    engine.step()
    name = f"zero{stage}"
    engine.save_checkpoint(str(out / name), tag="global_step1")
    parameters = list(engine.module.parameters())
    if stage == 3:
        assert all(p.ds_tensor.numel() < p.ds_numel for p in parameters), "ZeRO-3 has not sharded the weights"
    with deepspeed.zero.GatheredParameters(parameters) if stage == 3 else contextlib.nullcontext():
        keep(engine.module.state_dict(), start, out, name)


def fsdp(start: Path, out: Path) -> None:
    """An FSDP2 model after one step, saved as accelerate saves one with SHARDED_STATE_DICT."""
    model: Any = load(start)
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of(model).backward()
    optimizer.step()
    sharded = get_model_state_dict(model)
    first = next(iter(sharded.values()))
    assert first.to_local().numel() < first.numel(), "FSDP has not sharded the weights"
    dcp.save({"model": sharded}, storage_writer=dcp.FileSystemWriter(out / "fsdp" / "pytorch_model_fsdp_0"))
    keep(get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)), start, out, "fsdp")


def load(start: Path) -> Any:
    """The model to train."""
    return AutoModelForCausalLM.from_pretrained(start, dtype="auto")


def loss_of(model: Any) -> torch.Tensor:
    """A loss that differs between the processes."""
    ids = torch.arange(8)[None] + 3 * dist.get_rank()
    return model(input_ids=ids, labels=ids).loss


def keep(weights: dict[str, torch.Tensor], start: Path, out: Path, name: str) -> None:
    """The first process writes the gathered weights; configuration and tokenizer stand beside the partitions."""
    if dist.get_rank() == 0:
        plain = {key: value.detach().clone().contiguous() for key, value in weights.items() if key != "lm_head.weight"}
        save_file(plain, out / f"{name}.safetensors")
        if name != "fsdp":  # a sharded FSDP checkpoint has neither
            for file in SMALL:
                shutil.copy(start / file, out / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
