"""How close a step comes to the machine: its matrix products alone, at their best, against the whole step."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bench.engine import synchronise
from bench.problem import Problem, Setting
from fedloom.federation.exchange import Ledger
from fedloom.federation.local import Local, train_clients
from fedloom.federation.method import Phase

Shape = tuple[int, int, int, int]  # of a product: matrices, rows, inner, columns

AT_LEAST = 0.02  # seconds that a product is repeated for, so that the clock's own error does not count
TRIES = 3


class Products(TorchDispatchMode):
    """Counts the matrix products that run under it, by shape, and all operations (``calls``).

    Mapped programs are seen as they run: batched.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shapes: Counter[Shape] = Counter()
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        name = func.overloadpacket.__name__
        if name in ("mm", "addmm"):
            a, b = args[-2:]
            self.shapes[1, a.shape[0], a.shape[1], b.shape[1]] += 1
        elif name in ("bmm", "baddbmm"):
            a, b = args[-2:]
            self.shapes[a.shape[0], a.shape[1], a.shape[2], b.shape[2]] += 1
        return func(*args, **(kwargs or {}))


def flop(shape: Shape) -> float:
    """Multiplications and additions of a product."""
    matrices, rows, inner, columns = shape
    return 2.0 * matrices * rows * inner * columns


def best_seconds(run: Callable[[], Any], device: torch.device) -> float:
    """The fastest of several tries, each long enough for the clock."""
    run()
    count, least = 1, float("inf")
    for _ in range(TRIES):
        while True:
            synchronise(device)
            begun = time.perf_counter()
            for _ in range(count):
                run()
            synchronise(device)
            taken = time.perf_counter() - begun
            if taken >= AT_LEAST:
                break
            count *= 2
        least = min(least, taken / count)
    return least


def alone(shape: Shape, dtype: torch.dtype, device: torch.device) -> float:
    """Seconds of one product of that shape: the fastest of both layouts of either factor."""
    matrices, rows, inner, columns = shape
    left, right = (
        torch.randn(matrices, *sides, dtype=dtype, device=device) for sides in ((rows, inner), (inner, columns))
    )

    def layouts(x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x.transpose(1, 2).contiguous().transpose(1, 2)

    out = torch.empty(matrices, rows, columns, dtype=dtype, device=device)
    choices = [(a, b) for a in layouts(left) for b in layouts(right)]
    return min(best_seconds(partial(torch.bmm, a, b, out=out), device) for a, b in choices)


def one_step(problem: Problem) -> Callable[[], None]:
    """A function that runs one round of one local step for all clients, by the path that every method takes."""
    federation = problem.federation()
    state = federation.start()
    work = federation.work(Phase(batches=1), 0)
    rows = torch.arange(problem.setting.clients, device=problem.task.device)
    local = Local(rows, state.params, state.buffers, {"step": {}})

    def run() -> None:
        train_clients(work, local, Ledger(len(rows)))

    return run


def launches(run: Callable[[], None], device: torch.device) -> int | None:
    """Kernels that ``run`` starts on a CUDA device; None elsewhere."""
    if device.type != "cuda":
        return None
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as seen:
        run()
        synchronise(device)
    return sum(event.count for event in seen.key_averages() if "LaunchKernel" in event.key)


def ceiling(setting: Setting) -> dict[str, Any]:
    """One row: GFLOP/s of a whole step and of its products alone, and the first as a share of the second.

    A step is all that local training does for one minibatch of every client, drawing and gathering it included.
    """
    problem = Problem(setting)
    device, dtype = problem.task.device, problem.task.dtype
    run = one_step(problem)
    run()
    with Products() as seen:
        run()
    work = sum(flop(shape) * count for shape, count in seen.shapes.items())
    step = best_seconds(run, device)
    least = sum(alone(shape, dtype, device) * count for shape, count in seen.shapes.items())
    return {
        "model": setting.model, "clients": setting.clients, "batch": setting.batch, "device": setting.device,
        "threads": torch.get_num_threads(), "products": sum(seen.shapes.values()), "operations": seen.calls,
        "launches": launches(run, device), "step_seconds": step, "step_gflops": work / step / 1e9,
        "ceiling_gflops": work / least / 1e9, "share_of_ceiling": least / step,
    }  # fmt: skip


def ceilings(settings: list[Setting]) -> pd.DataFrame:
    """``ceiling`` of every setting."""
    return pd.DataFrame([ceiling(setting) for setting in settings])
