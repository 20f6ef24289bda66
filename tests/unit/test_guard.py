"""NaN does not reach the weights, in one process and in one of two; the figures that compare policies."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from horma_rl.errors import UserError
from horma_rl.training.guard import SamplerWatch, drop_nonfinite, from_main, poisoned


@pytest.mark.parametrize("fault", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_has_no_finite_gradient(fault: float) -> None:
    weight = torch.ones(3, requires_grad=True)
    poisoned(weight.sum() + fault).backward()
    assert weight.grad is not None
    assert bool(weight.grad.isnan().all())


def test_a_finite_loss_keeps_its_value_and_gradient() -> None:
    weight = torch.tensor([0.1, -3e30, 2e-38], requires_grad=True)
    loss = (weight * torch.tensor([0.7, 1e-3, 1e5])).sum()
    guarded = poisoned(loss)
    assert torch.equal(guarded, loss)
    guarded.backward()
    assert weight.grad is not None
    assert torch.equal(weight.grad, torch.tensor([0.7, 1e-3, 1e5]))


def test_a_dropped_gradient_moves_neither_weights_nor_moments() -> None:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)

    def step(fault: float) -> bool:
        model(torch.ones(2, 3)).sum().backward()
        assert model.bias.grad is not None
        model.bias.grad[0] += fault
        dropped = drop_nonfinite(model, torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        optimizer.step()
        model.zero_grad()
        return dropped

    assert not step(0.0)
    weights = [p.detach().clone() for p in model.parameters()]
    moments = {k: v.clone() for k, v in optimizer.state[model.weight].items()}
    assert step(math.nan)
    assert step(math.inf)
    assert all(torch.equal(a, b) for a, b in zip(weights, model.parameters(), strict=True))
    assert all(torch.equal(v, optimizer.state[model.weight][k]) for k, v in moments.items())
    assert not step(0.0)
    assert not torch.equal(weights[0], model.weight)


FAULTY_STEP, STEPS = 1, 3


def two_processes(rank: int, folder: str, fault: float) -> None:
    """Three steps of two micro-batches under DDP; in one of them rank 1 meets a `fault` in the first micro-batch."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet-{fault}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    dropped = []
    for step in range(STEPS):
        with model.no_sync():
            hurt = fault if rank == 1 and step == FAULTY_STEP else 0.0
            poisoned(model(torch.full((2, 4), 1.0 + rank)).sum() + hurt).backward()
        poisoned(model(torch.ones(2, 4)).sum()).backward()
        dropped.append(drop_nonfinite(model, torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        optimizer.step()
        model.zero_grad()
    told = from_main(lambda: f"from {rank}")
    try:
        from_main(partial(fail, rank))
        raised = ""
    except UserError as error:
        raised = str(error)
    torch.save(
        {"dropped": dropped, "weights": model.module.state_dict(), "told": told, "raised": raised},
        f"{folder}/{fault}-{rank}.pt",
    )
    dist.destroy_process_group()


def fail(rank: int) -> None:
    raise UserError(f"found by {rank}")


def test_two_processes_skip_a_step_together(tmp_path: Path) -> None:
    mp.spawn(two_processes, args=(str(tmp_path), math.nan), nprocs=2)
    found: list[dict[str, Any]] = [torch.load(tmp_path / f"nan-{rank}.pt", weights_only=True) for rank in (0, 1)]
    for each in found:
        assert each["dropped"] == [False, True, False]
        assert each["told"] == "from 0"
        assert each["raised"] == "found by 0"
        assert all(bool(tensor.isfinite().all()) for tensor in each["weights"].values())
    assert all(torch.equal(tensor, found[1]["weights"][name]) for name, tensor in found[0]["weights"].items())
    assert torch.allclose(found[0]["weights"]["weight"], after_two_steps(), atol=1e-6)


def after_two_steps() -> torch.Tensor:
    """The weights of one process that never saw the faulty step."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(STEPS - 1):
        for inputs in (torch.full((2, 4), 1.0), torch.full((2, 4), 2.0), torch.ones(2, 4), torch.ones(2, 4)):
            (model(inputs).sum() / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        model.zero_grad()
    return model.weight.detach()


def taken(watch: SamplerWatch) -> dict[str, float]:
    return watch.take(lambda sums: sums)


def test_a_sampler_that_is_the_trained_policy_differs_in_nothing() -> None:
    logps = -torch.rand(2, 5)
    watch = SamplerWatch()
    watch.add(logps, logps, logps.clone(), logps.clone(), torch.ones(2, 5))
    assert taken(watch) == {"logprob_diff": 0.0, "ess": pytest.approx(1.0), "kl_start": 0.0}
    assert taken(watch) == {}


def test_figures_are_means_over_own_tokens_of_all_micro_batches() -> None:
    """By hand: four own tokens with ratios 1, 1, 2 and 4; observations and tokens without a figure count nothing."""
    nan = math.nan
    watch = SamplerWatch()
    trained = torch.tensor([[-1.0, -1.0, -50.0]])
    watch.add(
        trained, trained - 0.5, torch.tensor([[-1.0, -1.0, 9.0]]), torch.full((1, 3), nan), torch.tensor([[1, 1, 0]])
    )
    second = torch.tensor([[-1.0, -1.0, -1.0, nan]])
    sampled = torch.tensor([[-1.0 - math.log(2), -1.0 - math.log(4), nan, nan]])
    start = torch.tensor([[-1.0, -2.0, nan, nan]])
    watch.add(second, second, sampled, start, torch.tensor([[1, 1, 1, 0]]))
    figures = taken(watch)
    assert figures["ess"] == pytest.approx((1 + 1 + 2 + 4) ** 2 / (4 * (1 + 1 + 4 + 16)))
    assert figures["logprob_diff"] == pytest.approx((0.5 + 0.5 + math.log(2) + math.log(4)) / 4)
    assert figures["kl_start"] == pytest.approx((0.0 + 1.0) / 2)


def test_figures_are_finite_whatever_the_numbers() -> None:
    watch = SamplerWatch()
    wild = torch.tensor([[-1e30, 0.0, -math.inf]])
    watch.add(wild, wild, torch.tensor([[0.0, -1e30, 0.0]]), torch.tensor([[0.0, -1e9, -1.0]]), torch.ones(1, 3))
    figures = taken(watch)
    assert math.isfinite(figures["ess"])
    assert math.isfinite(figures["kl_start"])
    assert figures["logprob_diff"] == pytest.approx(20.0)
