"""Which points of a recording are anomalous: those that a model, after one epoch, rebuilds badly from the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fedloom.evaluation.rows import Row, condition, mean_row
from fedloom.evaluation.series.detection import Bools, Floats, adjusted, f1, threshold
from fedloom.evaluation.series.finetune import Adaptation, Start, learn
from fedloom.evaluation.series.foresee import Fill
from fedloom.evaluation.series.targets import Channel, Part
from fedloom.evaluation.series.windows import as_windows, cut, joined, windows_of
from fedloom.federation.masking import points, token_seen, visible_scale
from fedloom.federation.randomness import name_key, uniform
from fedloom.federation.tasks.series import SeriesWindows

PERIOD = 4
"""Every fourth token is hidden at once, so that four passes hide each token once."""

AT_ONCE = 1024
NO_ANOMALY = "no anomaly in the test part"
UNLEARNED = "no window to learn from"


def anomaly_rows(start: Start, sets: Mapping[str, Sequence[Channel]], settings: Adaptation) -> list[Row]:
    """Return ``f1`` of each set's test part, mean over its recordings: of single points, and after point adjustment.

    Beside it stand the same two of scores drawn at random.
    """
    rows: list[Row] = []
    for name, channels in sets.items():
        by_case: dict[str, list[Channel]] = {}
        for channel in channels:
            by_case.setdefault(channel.case, []).append(channel)
        values: dict[tuple[str | None, str | None], list[float]] = {}
        for case, own in by_case.items():
            fill = _learned(start, case, own, settings)
            if fill is None:
                continue
            scores = {None: _scores(fill, own, start), "random": _random(case, own)}
            for who, (validation, test) in scores.items():
                for how, value in judged(validation, test, *_labels(own)).items():
                    values.setdefault((who, how), []).append(value)
        keys = [(who, how) for who in (None, "random") for how in (None, "point")]
        for who, how in keys:
            under = condition(task="anomaly", target=name, prediction=who, adjusted=how)
            rows.append(mean_row("f1", values.get((who, how), []), under, NO_ANOMALY if values else UNLEARNED))
    return rows


def judged(validation_V: Floats, test_T: Floats, truth_V: Bools, truth_T: Bools) -> dict[str | None, float]:
    """Return F1 of the test part, of single points (None) and after point adjustment, at validation's threshold."""
    found_T = test_T > threshold(validation_V, truth_V)
    return {None: f1(found_T, truth_T), "point": f1(adjusted(found_T, truth_T), truth_T)}


def _learned(start: Start, case: str, channels: Sequence[Channel], settings: Adaptation) -> Fill | None:
    train = windows_of(channels, "train", start.length, start.length, settings.windows, apart=False)
    if train is None:
        return None
    model = start.model()
    fill = start.fill(model)

    def loss(some: Tensor) -> Tensor:
        own = train.of(some)
        # A window's pass goes by its place, so that every token is hidden in some.
        offsets = (some % PERIOD)[:, None].to(own.past.device)
        asked, scored = _hidden(as_windows(own, start.patch), offsets)
        _, sd = visible_scale(asked.x, asked.seen * ~scored)
        error = (fill(asked) - own.past.nan_to_num(0.0)) / sd
        return (error.square() * scored).sum() / scored.sum().clamp(min=1)

    purpose = f"anomaly/{case}"
    list(learn([(list(model.parameters()), settings.lr)], loss, len(train.past), purpose, start.seed, settings))
    return fill


@torch.no_grad()
def _scores(fill: Fill, channels: Sequence[Channel], start: Start) -> tuple[Floats, Floats]:
    """Squared errors of the validation and the test part's points, mean over channels; 0 where nothing was observed."""
    found = [_part_scores(fill, channels, part, start) for part in ("validation", "test")]
    return found[0], found[1]


def _part_scores(fill: Fill, channels: Sequence[Channel], part: Part, start: Start) -> Floats:
    first, behind = channels[0].bounds(part)
    # Windows that end with the part and reach, where they must, into the part before.
    ends = np.sort(np.arange(behind, first, -start.length))
    windows = joined([cut(channel, ends, start.length, 0) for channel in channels])
    error = torch.zeros_like(windows.past, dtype=torch.float64)
    for places in torch.arange(len(windows.past)).split(AT_ONCE):
        plain = as_windows(windows.of(places), start.patch)
        for offset in range(PERIOD):
            asked, scored = _hidden(plain, torch.full((len(places), 1), offset, device=plain.x.device))
            error[places] += ((fill(asked) - plain.x).square() * scored).to(torch.float64)
    by_channel = error.view(len(channels), -1)[:, -(behind - first) :]
    seen = windows.seen.view(len(channels), -1)[:, -(behind - first) :]
    score: Floats = (by_channel.sum(0) / seen.sum(0).clamp(min=1)).cpu().numpy()
    return score


def _hidden(batch: SeriesWindows, offsets_B1: Tensor) -> tuple[SeriesWindows, Tensor]:
    """Windows with every fourth token hidden from ``offsets`` on, and the hidden observed points."""
    tokens, length = batch.hidden.shape[1], batch.x.shape[1]
    wanted = torch.arange(tokens, device=batch.x.device) % PERIOD == offsets_B1
    hidden = wanted & token_seen(batch.seen, tokens)
    covered = points(hidden, length)
    return batch._replace(x=batch.x.masked_fill(covered, 0), hidden=hidden), covered & (batch.seen > 0)


def _random(case: str, channels: Sequence[Channel]) -> tuple[Floats, Floats]:
    key = torch.tensor([name_key(case)])
    draws = uniform(key, (len(channels[0].values),), torch.float64)[0].numpy()
    first, behind = channels[0].bounds("validation")
    return draws[first:behind], draws[behind:]


def _labels(channels: Sequence[Channel]) -> tuple[Bools, Bools]:
    label = channels[0].label
    assert label is not None, "anomaly targets are labelled"
    first, behind = channels[0].bounds("validation")
    return label[first:behind] > 0, label[behind:] > 0
