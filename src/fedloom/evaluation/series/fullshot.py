"""Forecasting and filling in after one epoch on a held-out set's training part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fedloom.evaluation.rows import Row, condition
from fedloom.evaluation.series.errors import NO_ERRORS, NOTHING, TOO_SHORT, Errors, error_rows, mean_of
from fedloom.evaluation.series.finetune import Adaptation, Start, learn, zero_linear
from fedloom.evaluation.series.masks import POINT_RATES, drop_points
from fedloom.evaluation.series.targets import Channel, Part, horizons
from fedloom.evaluation.series.windows import IMPUTED, Cut, as_windows, batches, forecast_windows, joined, windows_of

AT_ONCE = 1024  # windows that a forward pass without gradients takes
HOW = ("probe", "full")
"""probe: the head alone learns. full: all weights do."""

UNLEARNED = "training or validation part shorter than a window"


class Forecaster(nn.Module):
    """A run's model under a new head: all tokens of a window, flattened, to ``horizon`` steps (Table 3's protocol).

    The head starts at 0, which foretells the mean of the window.
    """

    def __init__(self, start: Start, horizon: int) -> None:
        super().__init__()
        self.start, self.body = start, start.model()
        like = next(iter(self.body.parameters()))
        self.head = zero_linear(start.width * (start.length // start.patch), horizon, like)

    def forward(self, windows: Cut) -> Tensor:
        """Return forecasts [B, horizon]."""
        tokens, mean, sd = self.start.represent(self.body, as_windows(windows, self.start.patch))
        forecast: Tensor = self.head(tokens.flatten(1)) * sd + mean
        return forecast


def full_shot_rows(start: Start, sets: Mapping[str, Sequence[Channel]], settings: Adaptation) -> list[Row]:
    """Return test errors by set and horizon, of the linear probe or of all weights, whichever validates better."""
    rows: list[Row] = []
    for name, channels in sets.items():
        asked = horizons(channels)
        found = [_full_shot(start, name, channels, horizon, settings) for horizon in asked]
        under = condition(task="full_shot", target=name)
        for horizon, (values, n, reason) in zip(asked, found, strict=True):
            rows += error_rows(values, n, under, reason, str(horizon))
        why = next((r for values, _, r in found if values["mse"] != values["mse"]), NOTHING)
        rows += error_rows(mean_of([values for values, _, _ in found]), len(asked), under, why)
    return rows


def imputed_rows(start: Start, sets: Mapping[str, Sequence[Channel]], settings: Adaptation) -> list[Row]:
    """Return test errors at missing points by set and rate, after one epoch over windows of all rates."""
    rows: list[Row] = []
    for name, channels in sets.items():
        width = min(IMPUTED, start.length)
        most_of: dict[Part, int] = {"train": settings.windows, "test": settings.tested}
        given = {
            part: windows_of(channels, part, width, start.length, most, apart=part == "test")
            for part, most in most_of.items()
        }
        errors = {rate: Errors() for rate in POINT_RATES}
        reason = UNLEARNED
        train, test = given["train"], given["test"]
        if train is not None and test is not None:
            reason = NOTHING
            model = start.model()
            fill = start.fill(model)

            def loss(some: Tensor, train: Cut = train, fill: Any = fill) -> Tensor:
                chosen = train.of(some)
                total = chosen.past.new_zeros(())
                # A window's rate goes by its place, so that every rate is learned from.
                for place, rate in enumerate(POINT_RATES):
                    mine = (some % len(POINT_RATES) == place).nonzero()[:, 0]
                    if len(mine):
                        own = chosen.of(mine)
                        asked, dropped = drop_points(as_windows(own, start.patch), own.keys, rate)
                        error = (fill(asked) - own.x) * dropped
                        total = total + error.square().sum() / dropped.sum().clamp(min=1)
                return total / len(POINT_RATES)

            every = [(list(model.parameters()), settings.lr)]
            list(learn(every, loss, len(train.past), f"impute/{name}", start.seed, settings))
            with torch.no_grad():
                for rate in POINT_RATES:
                    for some in batches(test, AT_ONCE):
                        asked, dropped = drop_points(as_windows(some, start.patch), some.keys, rate)
                        errors[rate].add(fill(asked), some.past, dropped)
        means = {rate: sums.means() for rate, sums in errors.items()}
        for rate, values in means.items():
            under = condition(task="imputed", target=name, rate=f"{rate:g}")
            rows += error_rows(values, errors[rate].n, under, reason)
        under = condition(task="imputed", target=name, rate="mean")
        rows += error_rows(mean_of(list(means.values())), len(means), under, reason)
    return rows


def _full_shot(
    start: Start, name: str, channels: Sequence[Channel], horizon: int, settings: Adaptation
) -> tuple[dict[str, float], int, str]:
    """Test errors, their count, and why there are none, where there are none."""
    asked: dict[Part, int] = {"train": settings.windows, "validation": settings.tested, "test": settings.tested}
    parts = {
        part: [own for _, own in forecast_windows(channels, part, start.length, horizon, most)]
        for part, most in asked.items()
    }
    if not parts["test"]:
        return NO_ERRORS, 0, TOO_SHORT
    if not parts["train"] or not parts["validation"]:
        return NO_ERRORS, 0, UNLEARNED
    train, validation, test = (joined(parts[part]) for part in asked)
    judged = []
    for how in HOW:
        model = _learned(start, train, horizon, how, f"forecast/{name}/{horizon}", settings)
        judged.append((_errors(model, validation).means()["mse"], how, model))
    best = min(judged, key=lambda each: each[0])[2]
    errors = _errors(best, test)
    return errors.means(), errors.n, NOTHING


def _learned(start: Start, train: Cut, horizon: int, how: str, purpose: str, settings: Adaptation) -> Forecaster:
    model = Forecaster(start, horizon)
    if how == "probe":
        model.body.requires_grad_(False)

    def loss(some: Tensor) -> Tensor:
        own = train.of(some)
        known = ~own.future.isnan()
        # Not by where(): the gradient of a square of NaN would be NaN all the same.
        error = (model(own) - own.future.nan_to_num(0.0)) * known
        return error.square().sum() / known.sum().clamp(min=1)

    body = [p for p in model.body.parameters() if p.requires_grad]
    groups = [(body, settings.lr), (list(model.head.parameters()), settings.head_lr)]
    list(learn(groups, loss, len(train.past), purpose, start.seed, settings))
    return model


@torch.no_grad()
def _errors(model: Forecaster, windows: Cut) -> Errors:
    errors = Errors()
    for some in batches(windows, AT_ONCE):
        errors.add(model(some), some.future, ~some.future.isnan())
    return errors
