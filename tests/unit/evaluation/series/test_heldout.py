"""Held-out sets: cutting, foretelling, and learning from them for an epoch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fedloom.evaluation.families.series import blank
from fedloom.evaluation.rows import as_metrics
from fedloom.evaluation.schema import METRICS, check_table
from fedloom.evaluation.series import fullshot
from fedloom.evaluation.series.adapted import NO_SET, adapted_rows
from fedloom.evaluation.series.finetune import Adaptation, Start
from fedloom.evaluation.series.foresee import past_mean, rollout, seasonal_naive
from fedloom.evaluation.series.fullshot import full_shot_rows, imputed_rows
from fedloom.evaluation.series.targets import Channel, Targets, horizons
from fedloom.evaluation.series.windows import cut, origins, spread
from fedloom.evaluation.series.zeroshot import forecast_rows, imputation_rows, unseen_rows
from fedloom.federation.tasks.series import SeriesWindows

LENGTH, PATCH = 64, 8
Make = Callable[..., Channel]

SPEC = {"dataset": "d", "method": "m", "variant": "base", "seed": 0}
QUICK = Adaptation(windows=64, tested=16)


def test_the_first_and_the_last_window_of_a_part_are_judged(channel: Make) -> None:
    some = channel("a/0")
    at = origins(some, "test", 96, 5)
    assert at[0] == 640
    assert at[-1] == 800 - 96
    assert len(at) == 5
    assert len(origins(some, "test", 200, 5)) == 0
    assert spread(3, 4, 10).tolist() == [3]


def test_no_window_reaches_out_of_its_part_with_what_it_foretells(channel: Make) -> None:
    some = channel("a/0")
    for part, (first, behind) in {"train": (0, 560), "validation": (560, 640), "test": (640, 800)}.items():
        for horizon in (24, 60):
            at = origins(some, part, horizon, 1000)  # type: ignore[arg-type]
            assert at.min() >= first
            assert at.max() + horizon == behind


def test_windows_hold_what_was_before_and_what_follows(channel: Make) -> None:
    some = channel("a/0")
    found = cut(some, np.array([10, 700]), 32, 8)
    assert found.past[0, :22].isnan().all()
    assert torch.equal(found.past[0, 22:], some.values[:10])
    assert torch.equal(found.future[1], some.values[700:708])
    assert torch.equal(found.past[1], some.values[668:700])


def test_weekly_series_have_horizons_of_their_own(channel: Make) -> None:
    assert horizons([channel("a/0")]) == (96, 192, 336, 720)
    assert horizons([channel("a/0", seconds=604800.0)]) == (24, 36, 48, 60)


def test_seasonal_naive_repeats_the_last_season() -> None:
    x = torch.arange(20.0)[None]
    seen = torch.ones_like(x)
    assert seasonal_naive(x, seen, 7, 3).tolist() == [[17, 18, 19, 17, 18, 19, 17]]
    assert seasonal_naive(x, seen, 2, 0).tolist() == [[19, 19]]
    gone = torch.cat([seen[:, :-2], torch.zeros(1, 2)], 1)
    assert seasonal_naive(x * gone, gone, 3, 3).tolist() == [[17, 17, 17]]
    assert past_mean(x * gone, gone, 2).tolist() == [[8.5, 8.5]]


def test_the_future_is_foretold_in_blocks_that_are_fed_back() -> None:
    asked: list[SeriesWindows] = []

    def count(batch: SeriesWindows) -> torch.Tensor:
        """Says one more than the last visible value, everywhere that is hidden."""
        asked.append(batch)
        visible = LENGTH - int(batch.hidden[0].sum()) * PATCH
        return (batch.x[:, visible - 1 : visible] + 1).expand_as(batch.x)

    past = torch.arange(float(LENGTH))[None]
    found = rollout(count, past, torch.ones_like(past), 72, PATCH)
    half = LENGTH // 2
    wanted = [LENGTH] * half + [LENGTH + 1] * half + [LENGTH + 2] * 8
    assert found[0].tolist() == wanted
    assert [int(batch.hidden.sum()) for batch in asked] == [4, 4, 1]
    # The second block saw the first one as its latest past.
    assert asked[1].x[0, half - 1].item() == LENGTH
    assert not asked[0].x[0, -half:].any()
    assert (asked[0].seen == 1).all()


def test_a_horizon_inside_half_a_window_takes_one_look() -> None:
    looks = []

    def fill(batch: SeriesWindows) -> torch.Tensor:
        looks.append(int(batch.hidden.sum()))
        return batch.x

    past = torch.randn(1, LENGTH)
    assert rollout(fill, past, torch.ones_like(past), 12, PATCH).shape == (1, 12)
    assert looks == [2]


@pytest.mark.parametrize("judge", [forecast_rows, imputation_rows, unseen_rows])
def test_any_batch_size_gives_the_same_numbers(judge, start: Start, targets: Targets) -> None:
    model = start.model().requires_grad_(False)
    sets = targets.of("forecast")
    one, many = (pd.DataFrame(judge(start.fill(model), sets, LENGTH, PATCH, chunk, 12)) for chunk in (3, 1000))
    np.testing.assert_allclose(one["value"], many["value"], rtol=1e-5)
    assert (one["n"] == many["n"]).all()


def test_forecast_errors_are_those_of_numpy(targets: Targets) -> None:
    sets = {"bikes": targets.of("forecast")["bikes"][:1]}
    rows = pd.DataFrame(forecast_rows(lambda b: torch.zeros_like(b.x), sets, LENGTH, PATCH, 1000, 1000))
    values = sets["bikes"][0].values.numpy().astype(np.float64)
    windows = np.stack([values[o : o + 96] for o in range(640, 705)])
    own = rows[(rows["condition"] == "target=bikes,task=forecast") & (rows["horizon"] == "96")].set_index("metric")
    assert own.loc["mse", "value"] == pytest.approx(np.mean(windows**2))
    assert own.loc["mae", "value"] == pytest.approx(np.mean(np.abs(windows)))
    season = np.stack([np.tile(values[o - 24 : o], 4) for o in range(640, 705)])
    naive = rows[
        rows["condition"].str.contains("seasonal_naive") & (rows["horizon"] == "96") & (rows["metric"] == "mse")
    ]
    assert naive["value"].iloc[0] == pytest.approx(np.mean((windows - season) ** 2), rel=1e-6)


def test_horizons_beyond_the_test_part_are_null_with_their_reason(targets: Targets) -> None:
    rows = pd.DataFrame(forecast_rows(lambda b: b.x, targets.of("forecast"), LENGTH, PATCH, 100, 8))
    long = rows[rows["horizon"].isin(["192", "336", "720", "all"])]
    assert long["value"].isna().all()
    assert long["reason"].notna().all()


def test_every_task_is_judged_after_an_epoch(start: Start, targets: Targets) -> None:
    rows = pd.DataFrame(adapted_rows(start, targets, QUICK))
    tasks = rows["condition"].str.extract(r"task=([a-z_0-9]+)")[0]
    assert set(tasks) == {"full_shot", "imputed", "m4", "classification", "anomaly"}
    check_table(METRICS, as_metrics(list(rows.to_dict("records")), SPEC, "selected"), "adapted")  # type: ignore[arg-type]
    naive = rows[(rows["metric"] == "owa") & rows["condition"].str.contains("naive2")]
    assert naive["value"].tolist() == [1.0]


def test_a_task_without_a_held_out_set_is_null_with_its_reason(start: Start, targets: Targets) -> None:
    without = Targets({name: sets for name, sets in targets.by_task.items() if name != "m4"})
    rows = pd.DataFrame(adapted_rows(start, without, QUICK))
    m4 = rows[rows["condition"] == "task=m4"]
    assert m4["value"].isna().all()
    assert (m4["reason"] == NO_SET).all()


def test_adaptations_depend_on_the_weights_and_the_seed_alone(start: Start, targets: Targets) -> None:
    sets = targets.of("imputation")
    one, again = (imputed_rows(start, sets, QUICK) for _ in range(2))
    assert one == again
    assert one != imputed_rows(dataclasses.replace(start, seed=1), sets, QUICK)


def test_the_test_part_changes_nothing_that_is_learned(
    start: Start, channel: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[dict[str, torch.Tensor]] = []
    original = fullshot._learned

    def remember(*given: Any) -> Any:
        model = original(*given)
        learned.append(model.state_dict())
        return model

    monkeypatch.setattr(fullshot, "_learned", remember)
    some = [channel("bikes/0", name, bounds=(450, 640)) for name in "vw"]
    spoiled = [dataclasses.replace(c, values=torch.cat([c.values[:640], torch.full((160,), 1e6)])) for c in some]
    for channels in (some, spoiled):
        full_shot_rows(start, {"bikes": channels}, QUICK)
    half = len(learned) // 2
    assert half == len(fullshot.HOW)  # of one horizon: the others do not fit into validation
    for one, other in zip(learned[:half], learned[half:], strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_blank_rows_keep_their_references() -> None:
    rows = [
        {"condition": "task=forecast", "value": 1.0, "lo": 0.0, "hi": 2.0, "n": 3, "reason": None},
        {
            "condition": "prediction=seasonal_naive,task=forecast",
            "value": 1.0,
            "lo": 0.0,
            "hi": 2.0,
            "n": 3,
            "reason": None,
        },
    ]
    emptied = blank(rows, "diverged")
    assert np.isnan(emptied[0]["value"])
    assert emptied[0]["reason"] == "diverged"
    assert emptied[1] == rows[1]
