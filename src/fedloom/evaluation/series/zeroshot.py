"""What a model does on held-out sets without learning from them: foretell, and fill in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from fedloom.evaluation.rows import Row, condition
from fedloom.evaluation.series.errors import NOTHING, TOO_SHORT, Errors, error_rows, mean_of
from fedloom.evaluation.series.foresee import Fill, past_mean, rollout, seasonal_naive
from fedloom.evaluation.series.interpolation import FILLS
from fedloom.evaluation.series.masks import POINT_RATES, RATES, drop_points, hide_tokens
from fedloom.evaluation.series.targets import Channel, horizons
from fedloom.evaluation.series.windows import IMPUTED, Cut, as_windows, batches, forecast_windows, joined, windows_of
from fedloom.federation.tasks.series import SeriesWindows

Mask = Callable[[SeriesWindows, Tensor, float], tuple[SeriesWindows, Tensor]]

WINDOWS = 512
"""Windows of a set, and horizon, that are judged: spread evenly over the test part, first and last among them."""


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
