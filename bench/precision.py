"""What reduced matrix products give and cost: seconds of a round, and what the validation part says of the weights."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import pandas as pd

from bench.engine import synchronise
from bench.problem import WARM_UP, Problem, Setting
from fedloom.federation.rounds import Federation, State

PRODUCTS = ("full", "bfloat16")


def precision(settings: Sequence[Setting]) -> pd.DataFrame:
    """One row a setting and kind of products, trained in turn from the same weights on the same minibatches.

    ``times_full`` is the median round over that with full products, ``score`` the validation MAE after the last round,
    ``score_change`` its distance from that with full products, as a share of it.
    """
    return pd.concat([_compared(setting) for setting in settings], ignore_index=True)


def _compared(setting: Setting) -> pd.DataFrame:
    problem = Problem(setting)
    made = {kind: _begun(problem, kind) for kind in PRODUCTS}
    seconds: dict[str, list[float]] = {kind: [] for kind in PRODUCTS}
    for _ in range(WARM_UP + setting.rounds):
        for kind, (federation, state) in made.items():
            synchronise(problem.task.device)
            begun = time.perf_counter()
            federation.step(state)
            synchronise(problem.task.device)
            seconds[kind].append(time.perf_counter() - begun)
    scores = {kind: federation.validate(federation.weights(state)).score for kind, (federation, state) in made.items()}
    full = median(seconds["full"][WARM_UP:]), scores["full"]
    return pd.DataFrame(
        {
            "model": setting.model, "clients": setting.clients, "batch": setting.batch, "device": setting.device,
            "products": kind, "seconds": median(taken[WARM_UP:]), "times_full": median(taken[WARM_UP:]) / full[0],
            "score": scores[kind], "score_change": abs(scores[kind] - full[1]) / full[1],
        }
        for kind, taken in seconds.items()
    )  # fmt: skip


def _begun(problem: Problem, products: str) -> tuple[Federation, State]:
    federation = problem.federation()
    federation.protocol = replace(federation.protocol, products=products)
    return federation, federation.start()
