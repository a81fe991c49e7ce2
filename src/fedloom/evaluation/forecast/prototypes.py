"""What the prototypes of a trained run are, in numbers: how alike, how widely used, how different between periods."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.evaluation.rows import Row, client_rows, condition, mean_row

PERIOD = 48
"""Steps of a period in which the use of prototypes is averaged (Atlas, Fig. 6)."""

GAPS = 0.25
"""Share of a period that may be missing."""

Floats = NDArray[np.floating[Any]]
UNKNOWN = "too few steps of the test part are known"


def contrasting(values: pd.Series, steps: int) -> tuple[int, int] | None:
    """Where the stretches of ``steps`` values with the least and the largest mean begin; None where none is known.

    A stretch counts where at most a quarter of it is missing; of two with the same mean the first one is taken.
    """
    means = values.rolling(steps, min_periods=math.ceil((1 - GAPS) * steps)).mean().iloc[steps - 1 :].to_numpy()
    if not len(means) or np.isnan(means).all():
        return None
    return int(np.nanargmin(means)), int(np.nanargmax(means))


def by_step(values_WI: Floats, ends_W: NDArray[np.int64], steps: int) -> Floats:
    """What belongs to windows, [S, I] at the steps with which they end; NaN where none does.

    ``ends_W`` is -1 for a window that is not there.
    """
    found = np.full((steps, values_WI.shape[1]), np.nan, dtype=values_WI.dtype)
    found[ends_W[ends_W >= 0]] = values_WI[ends_W >= 0]
    return found


def cosines(prototypes_ID: Floats) -> Floats:
    """Cosine [I, I] of every two prototypes."""
    rows = prototypes_ID / np.linalg.norm(prototypes_ID, axis=-1, keepdims=True).clip(min=1e-8)
    return rows @ rows.T


def pairs(square_II: Floats) -> Floats:
    """The entries of all pairs of two, one after the other."""
    return square_II[np.triu_indices(len(square_II), 1)]


def prototype_rows(
    heard: dict[str, NDArray[Any]], clients: list[str], readings_CS: Floats, ends_CW: NDArray[np.int64]
) -> list[Row]:
    """Return metric rows of what ``Assignments`` kept (``heard``).

    ``largest_use``: the largest mean weight of a client's prototypes. ``prototype_cosine``: of two prototypes, on
    average over all pairs and at most, each as a mean over the watched clients. ``use_distance``: L1 distance of the
    mean weights of two periods of a watched client's test part: of those with the least and the largest mean reading
    (``periods=contrasting``), and on average over every two of those that follow one another (``periods=any``).

    ``readings_CS`` are raw, NaN where missing; ``ends_CW`` is the last input step of a test window, -1 where a client
    has none.
    """
    ones = [1] * len(clients)
    rows = client_rows("largest_use", heard["usage"].max(1).tolist(), ones, clients, "", UNKNOWN)
    alike = [pairs(cosines(each)) for each in heard["prototypes"]]
    for name, of in (("mean", np.mean), ("largest", np.max)):
        values = [float(of(each)) if len(each) else math.nan for each in alike]
        rows.append(mean_row("prototype_cosine", values, condition(pairs=name), "there is one prototype"))
    watched = heard["watched"].tolist()
    distances = [
        _distances(readings_CS[client], ends_CW[client], weights_WI)
        for client, weights_WI in zip(watched, heard["weights"], strict=True)
    ]
    for periods in ("contrasting", "any"):
        values, names = [found[periods] for found in distances], [clients[client] for client in watched]
        rows += client_rows("use_distance", values, ones[: len(names)], names, condition(periods=periods), UNKNOWN)
    return rows


def _distances(readings_S: Floats, ends_W: NDArray[np.int64], weights_WI: Floats) -> dict[str, float]:
    """L1 distances of mean weights, NaN where too few steps of the test part are known."""
    found = {"contrasting": math.nan, "any": math.nan}
    known = ends_W[ends_W >= 0]
    if not len(known):
        return found
    tested = slice(known.min(), known.max() + 1)
    weights_SI = by_step(weights_WI, ends_W, len(readings_S))[tested]
    chosen = contrasting(pd.Series(readings_S[tested]), PERIOD)
    if chosen is not None:
        least, largest = (_mean_weights(weights_SI[at : at + PERIOD]) for at in chosen)
        found["contrasting"] = float(np.abs(least - largest).sum())
    everyone = list(_periods(weights_SI))
    if len(everyone) > 1:
        found["any"] = float(np.mean([np.abs(a - b).sum() for a, b in combinations(everyone, 2)]))
    return found


def _periods(weights_SI: Floats) -> Iterator[Floats]:
    """Mean weights of all whole periods, one after the other, of which enough is known."""
    for begin in range(0, len(weights_SI) - PERIOD + 1, PERIOD):
        part_SI = weights_SI[begin : begin + PERIOD]
        if np.isfinite(part_SI[:, 0]).mean() >= 1 - GAPS:
            yield _mean_weights(part_SI)


def _mean_weights(weights_SI: Floats) -> Floats:
    """Mean over the steps that have weights, NaN where none has."""
    known_S = np.isfinite(weights_SI[:, 0])
    return weights_SI[known_S].mean(0) if known_S.any() else np.full(weights_SI.shape[1], np.nan)
