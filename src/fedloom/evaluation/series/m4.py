"""The competition's short-term forecasts of hourly series, after one epoch on their pasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedloom.evaluation.rows import Row, condition, row
from fedloom.evaluation.series.competition import mase, naive2, owa, smape
from fedloom.evaluation.series.finetune import Adaptation, Start, learn
from fedloom.evaluation.series.foresee import rollout, with_future
from fedloom.evaluation.series.targets import Channel
from fedloom.evaluation.series.windows import cut, joined, origins
from fedloom.federation.masking import points, visible_scale


def m4_rows(start: Start, sets: Mapping[str, Sequence[Channel]], settings: Adaptation) -> list[Row]:
    """Return ``smape``, ``mase`` and ``owa`` of each set, beside those of Naive 2, in the unit of the series.

    The future is a suffix of hidden tokens, in learning as in the test; nothing of the last part is seen.
    """
    rows: list[Row] = []
    for name, channels in sets.items():
        horizon = len(channels[0].values) - channels[0].test
        forecasts = _forecasts(start, name, channels, horizon, settings)
        scores: dict[str | None, list[tuple[float, float]]] = {None: [], "naive2": []}
        for channel, forecast_H in zip(channels, forecasts, strict=True):
            raw_T = channel.values.double().cpu().numpy() * channel.scale + channel.shift
            past_T, truth_H = raw_T[: channel.test], raw_T[channel.test :]
            found_H = forecast_H * channel.scale + channel.shift
            for who, answer_H in ((None, found_H), ("naive2", naive2(past_T, horizon, channel.season))):
                scores[who].append((smape(truth_H, answer_H), mase(past_T, truth_H, answer_H, channel.season)))
        means = {who: np.nanmean(np.array(values), axis=0) for who, values in scores.items()}
        naive = means["naive2"]
        for who, (mean_smape, mean_mase) in means.items():
            values = {
                "smape": mean_smape,
                "mase": mean_mase,
                "owa": owa((mean_smape, naive[0]), (mean_mase, naive[1])),
            }
            under = condition(task="m4", target=name, prediction=who)
            rows += [row(m, value, len(channels), under, unit="mean") for m, value in values.items()]
    return rows


def _forecasts(
    start: Start, name: str, channels: Sequence[Channel], horizon: int, settings: Adaptation
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Forecasts [series, H] of the last part, in units of each series' training part."""
    width = -(-horizon // start.patch) * start.patch
    each = max(1, settings.windows // len(channels))
    # Cut so that the unknown future has whole tokens; a window's last ones are the horizon.
    known = [(c, origins(c, "train", width, each)) for c in channels]
    train = joined([cut(c, at, start.length, width) for c, at in known if len(at)])
    model = start.model()
    fill = start.fill(model)

    def loss(some: Tensor) -> Tensor:
        own = train.of(some)
        asked = with_future(own.x, own.seen, width, start.patch)
        _, sd = visible_scale(asked.x, asked.seen * ~points(asked.hidden, start.length))
        known_BH = ~own.future.isnan()
        error = (fill(asked)[:, -width:] - own.future.nan_to_num(0.0)) * known_BH / sd
        return error.square().sum() / known_BH.sum().clamp(min=1)

    purpose = f"m4/{name}"
    list(learn([(list(model.parameters()), settings.lr)], loss, len(train.past), purpose, start.seed, settings))
    ends = joined([cut(c, np.array([c.test]), start.length, horizon) for c in channels])
    with torch.no_grad():
        found = rollout(fill, ends.x, ends.seen, horizon, start.patch)
    return found.double().cpu().numpy()
