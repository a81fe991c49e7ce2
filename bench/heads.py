"""All heads of a split network at once, beside a loop over them with torch's own LSTM: one gradient step of each."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import pandas as pd
import torch
from torch import Tensor, nn

from bench.engine import synchronise
from fedloom.errors import InputError
from fedloom.methods.st_split_vfl import StSplitVfl
from fedloom.models.layers.lstm import LSTM
from fedloom.models.layers.split import LAYERS

WIDTH, CODE = 1, StSplitVfl.Params().code  # what a client reads a step: its readings alone; what it sends
EQUAL = 1e-5  # largest difference between any two gradients of unit norm
Grads = dict[str, Tensor]


def batched(heads: LSTM, x_ETFB: Tensor) -> Grads:
    """The gradients of all heads' mean squared states, by the layer that methods use."""
    loss = heads(x_ETFB).square().mean((1, 2, 3)).sum()
    return dict(zip(heads.weights, torch.autograd.grad(loss, list(heads.weights.values())), strict=True))


def looped(heads: LSTM, x_ETFB: Tensor) -> Grads:
    """The same one head after the other, by ``torch.nn.LSTM``."""
    layer = nn.LSTM(WIDTH, CODE, LAYERS).to(x_ETFB.device)
    found: dict[str, list[Tensor]] = {name: [] for name in heads.weights}
    for e, x_TFB in enumerate(x_ETFB):
        layer.load_state_dict({name: weight[e] for name, weight in heads.weights.items()})
        loss = layer(x_TFB.transpose(1, 2))[0].square().mean()
        for name, grad in zip(found, torch.autograd.grad(loss, list(layer.parameters())), strict=True):
            found[name].append(grad)
    return {name: torch.stack(grads) for name, grads in found.items()}


def heads(counts: list[int], steps: int, batch: int, repeats: int, device: torch.device) -> pd.DataFrame:
    """One row a number of heads and program: the median of ``repeats`` alternated steps in seconds.

    ``times_engine`` is over the batched layer's, ``apart`` the distance of gradients, each scaled to unit norm. Raises
    InputError where that exceeds ``EQUAL``.
    """
    programs: dict[str, Callable[[LSTM, Tensor], Grads]] = {"engine": batched, "loop": looped}
    tables = []
    for count in counts:
        torch.manual_seed(0)
        module = LSTM(WIDTH, CODE, LAYERS, copies=(count,)).to(device)
        x = torch.randn(count, steps, WIDTH, batch, device=device)
        seconds: dict[str, list[float]] = {name: [] for name in programs}
        grads: dict[str, Grads] = {}
        for turn in range(repeats + 1):
            for name, run in programs.items():
                synchronise(device)
                begun = time.perf_counter()
                grads[name] = run(module, x)
                synchronise(device)
                if turn:  # the first finds cold memory
                    seconds[name].append(time.perf_counter() - begun)
        distance = _apart(grads["engine"], grads["loop"])
        if not distance <= EQUAL:
            raise InputError(f"heads: gradients: expected the loop's within {EQUAL}, found {distance:.2g}")
        unit = median(seconds["engine"])
        tables.append(
            pd.DataFrame(
                {
                    "heads": count, "history": steps, "batch": batch, "device": str(device),
                    "threads": torch.get_num_threads(), "program": name, "seconds": median(taken),
                    "times_engine": median(taken) / unit, "apart": distance,
                }
                for name, taken in seconds.items()
            )
        )  # fmt: skip
    return pd.concat(tables, ignore_index=True)


def _apart(ours: Grads, theirs: Grads) -> float:
    return max(float((ours[n] - theirs[n]).norm() / theirs[n].norm()) for n in ours)
