"""What a model does on held-out sets without learning from them: foretell, and fill in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedloom.evaluation.causal.rows import condition, row
from fedloom.evaluation.series.foresee import Fill, past_mean, rollout, seasonal_naive
from fedloom.evaluation.series.interpolation import FILLS
from fedloom.evaluation.series.masks import POINT_RATES, RATES, drop_points, hide_tokens
from fedloom.evaluation.series.targets import Channel, Cut, Part, cut, horizons, joined, origins, spread
from fedloom.federation.tasks.series import SeriesWindows

Row = dict[str, Any]
Mask = Callable[[SeriesWindows, Tensor, float], tuple[SeriesWindows, Tensor]]

WINDOWS = 512
"""Windows of a set, and horizon, that are judged: spread evenly over the test part, first and last among them."""

IMPUTED = 96
"""Length of the windows of the imputation protocol."""

TOO_SHORT = "test part shorter than the horizon"
NOTHING = "no observed point to score"


class Errors:
    """Squared and absolute errors over observed points, and their number."""

    def __init__(self) -> None:
        self.squared = self.absolute = 0.0
        self.n = 0

    def add(self, found: Tensor, truth: Tensor, scored: Tensor) -> None:
        """Add the errors at the points ``scored``; ``truth`` may be NaN elsewhere."""
        error = (found.to(torch.float64) - truth)[scored]
        self.squared += float(error.square().sum())
        self.absolute += float(error.abs().sum())
        self.n += int(scored.sum())

    def means(self) -> dict[str, float]:
        """Return mean squared and mean absolute error; NaN where nothing was scored."""
        return (
            {"mse": self.squared / self.n, "mae": self.absolute / self.n} if self.n else {"mse": np.nan, "mae": np.nan}
        )


def mean_of(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of errors, such as those of several horizons or rates; NaN where one of them is."""
    return {metric: float(np.mean([value[metric] for value in values])) for metric in ("mse", "mae")}


def error_rows(values: Mapping[str, float], n: int, under: str, reason: str, horizon: str = "all") -> list[Row]:
    """Return a row for each error of a held-out set, with ``reason`` where it is NaN."""
    return [
        row(metric, value, n, under, unit="mean", horizon=horizon, reason=reason if np.isnan(value) else None)
        for metric, value in values.items()
    ]


def batches(cut_: Cut, size: int) -> list[Cut]:
    """Return the windows in batches of at most ``size``."""
    parts = zip(cut_.past.split(size), cut_.future.split(size), cut_.keys.split(size), strict=True)
    return [Cut(*part) for part in parts]


def forecast_windows(
    channels: Sequence[Channel], part: Part, back: int, horizon: int, most: int
) -> list[tuple[Channel, Cut]]:
    """Return at most ``most`` windows of a set in all, channel by channel, at least one of each that has any."""
    each = max(1, most // len(channels))
    found = [(channel, origins(channel, part, horizon, each)) for channel in channels]
    return [(channel, cut(channel, at, back, horizon)) for channel, at in found if len(at)]


def forecast_rows(
    fill: Fill, sets: Mapping[str, Sequence[Channel]], length: int, patch: int, chunk: int, most: int = WINDOWS
) -> list[Row]:
    """Return errors of forecasts of every set at its horizons, and their mean, beside seasonal-naive and the past mean.

    Errors are on data scaled by the training part, over windows, channels and steps alike. ``chunk`` windows at a time.
    """
    rows = []
    for name, channels in sets.items():
        asked = horizons(channels)
        found: dict[str | None, list[dict[str, float]]] = {}
        for horizon in asked:
            errors: dict[str | None, Errors] = {who: Errors() for who in (None, "seasonal_naive", "window_mean")}
            # A season may be longer than what a model sees.
            back = max(length, *(channel.season for channel in channels))
            windows = forecast_windows(channels, "test", back, horizon, most)
            if windows:
                every = joined([Cut(each.past[:, -length:], each.future, each.keys) for _, each in windows])
                for some in batches(every, chunk):
                    scored = ~some.future.isnan()
                    errors[None].add(rollout(fill, some.x, some.seen, horizon, patch), some.future, scored)
                    errors["window_mean"].add(past_mean(some.x, some.seen, horizon), some.future, scored)
                for channel, own in windows:
                    naive = seasonal_naive(own.x, own.seen, horizon, channel.season)
                    errors["seasonal_naive"].add(naive, own.future, ~own.future.isnan())
            for who, sums in errors.items():
                found.setdefault(who, []).append(sums.means())
                under = condition(task="forecast", target=name, prediction=who)
                rows += error_rows(sums.means(), sums.n, under, TOO_SHORT, str(horizon))
        for who, values in found.items():
            under = condition(task="forecast", target=name, prediction=who)
            rows += error_rows(mean_of(values), len(asked), under, TOO_SHORT)
    return rows


def imputation_rows(
    fill: Fill, sets: Mapping[str, Sequence[Channel]], length: int, patch: int, chunk: int, most: int = WINDOWS
) -> list[Row]:
    """Return errors at points that were taken away at random, by rate and as their mean, beside interpolation.

    Windows of 96 points of the test part (Time-Series-Library's protocol), padded on the left to the model's length.
    """
    width = min(IMPUTED, length)
    return _filled_rows(fill, sets, width, length, patch, chunk, most, POINT_RATES, drop_points, "imputation")


def unseen_rows(
    fill: Fill, sets: Mapping[str, Sequence[Channel]], length: int, patch: int, chunk: int, most: int = WINDOWS
) -> list[Row]:
    """Return errors at hidden tokens of windows of held-out sets, by rate and as their mean, beside interpolation."""
    return _filled_rows(fill, sets, length, length, patch, chunk, most, RATES, hide_tokens, "reconstruction")


def windows_of(
    channels: Sequence[Channel], part: Part, width: int, length: int, most: int, apart: bool = True
) -> Cut | None:
    """Return windows of ``width`` points inside a part, padded to ``length``; None where the part has none.

    ``apart`` ones do not overlap, however few that leaves. The past holds the points, the future is empty.
    """
    each, found = max(1, most // len(channels)), []
    for channel in channels:
        first, behind = channel.bounds(part)
        room = max(1, (behind - first) // width)
        at = spread(first + width, behind + 1, min(each, room) if apart else each)
        if len(at):
            found.append(cut(channel, at, width, 0))
    if not found:
        return None
    every = joined(found)
    return Cut(torch.nn.functional.pad(every.past, (length - width, 0), value=torch.nan), every.future, every.keys)


def as_windows(some: Cut, patch: int) -> SeriesWindows:
    """Return windows as a model takes them, with nothing hidden."""
    hidden = torch.zeros(len(some.past), some.past.shape[1] // patch, dtype=torch.bool, device=some.past.device)
    return SeriesWindows(some.x, some.seen, hidden, some.seen.new_ones(len(some.past)))


def _filled_rows(
    fill: Fill,
    sets: Mapping[str, Sequence[Channel]],
    width: int,
    length: int,
    patch: int,
    chunk: int,
    most: int,
    rates: Sequence[float],
    mask: Mask,
    task: str,
) -> list[Row]:
    rows = []
    for name, channels in sets.items():
        every = windows_of(channels, "test", width, length, most)
        found: dict[str | None, list[dict[str, float]]] = {}
        for rate in rates:
            errors: dict[str | None, Errors] = {who: Errors() for who in (None, *FILLS)}
            for some in [] if every is None else batches(every, chunk):
                asked, scored = mask(as_windows(some, patch), some.keys, rate)
                visible = (asked.seen > 0) & ~scored
                errors[None].add(fill(asked), some.past, scored)
                for other, interpolate in FILLS.items():
                    errors[other].add(interpolate(asked.x, visible), some.past, scored)
            for who, sums in errors.items():
                found.setdefault(who, []).append(sums.means())
                under = condition(task=task, target=name, prediction=who, rate=f"{rate:g}")
                rows += error_rows(sums.means(), sums.n, under, NOTHING)
        for who, values in found.items():
            under = condition(task=task, target=name, prediction=who, rate="mean")
            rows += error_rows(mean_of(values), len(rates), under, NOTHING)
    return rows
