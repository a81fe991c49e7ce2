"""Metrics of forecasts agree with an independent library and do not depend on how forecasts come in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import mean_absolute_error, mean_absolute_percentage_error, root_mean_squared_error

from fedloom.evaluation.forecast.conditions import MASKED, UNMASKED
from fedloom.evaluation.forecast.errors import METRICS, NO_LITERAL, Scores, metric_rows, null_rows
from fedloom.evaluation.forecast.stream import Forecasts

NODES = ["a", "b", "c"]
WINDOWS, HORIZON = 64, 12


def readings(seed: int = 0, missing: float = 0.2) -> Forecasts:
    """Return forecasts of 3 nodes with some missing targets, in single precision as a model gives them."""
    random = np.random.default_rng(seed)
    truth = random.normal(60, 10, (len(NODES), WINDOWS, HORIZON)).astype(np.float32)
    forecast = truth + random.normal(0, 3, truth.shape).astype(np.float32)
    mask = random.random(truth.shape) > missing
    windows = torch.arange(WINDOWS).expand(len(NODES), -1)
    return Forecasts(
        torch.from_numpy(forecast), torch.from_numpy(np.where(mask, truth, np.nan)), torch.from_numpy(mask), windows
    )


def cut(batch: Forecasts, size: int) -> list[Forecasts]:
    """Return the same windows in batches of ``size``."""
    tensors = batch.forecast_CBH, batch.truth_CBH, batch.mask_CBH, batch.window_CB
    parts = (tensor.split(size, dim=1) for tensor in tensors)
    return [Forecasts(*part) for part in zip(*parts, strict=True)]


def score(batches: list[Forecasts], clients: int, horizon: int, literal: float | None) -> Scores:
    """Return the sums over ``batches``."""
    scores = Scores(clients, horizon, literal)
    for batch in batches:
        scores.add(batch)
    return scores


def value(rows: pd.DataFrame, unit: str, metric: str, horizon: str, condition: str) -> float:
    """Return the one value that these keys name."""
    keys = {"unit": unit, "metric": metric, "horizon": horizon, "condition": condition}
    (found,) = rows[(rows[list(keys)] == pd.Series(keys)).all(axis=1)]["value"]
    return float(found)


@pytest.mark.parametrize("literal", [None, 0.0])
@pytest.mark.parametrize(("horizon", "steps"), [("3", [2]), ("6", [5]), ("12", [11]), ("all", list(range(12)))])
def test_masked_metrics_are_scikit_learns_on_observed_entries(
    literal: float | None, horizon: str, steps: list[int]
) -> None:
    batch = readings()
    rows = metric_rows(score([batch], 3, HORIZON, literal), NODES)
    theirs = {
        "mae": mean_absolute_error,
        "rmse": root_mean_squared_error,
        "mape": mean_absolute_percentage_error,
    }
    for metric, function in theirs.items():
        for unit, nodes in [("pooled", [0, 1, 2]), ("a", [0]), ("c", [2])]:
            seen = batch.mask_CBH[nodes][:, :, steps]
            truth = batch.truth_CBH[nodes][:, :, steps][seen].double()
            forecast = batch.forecast_CBH[nodes][:, :, steps][seen].double()
            assert value(rows, unit, metric, horizon, MASKED) == pytest.approx(function(truth, forecast), rel=1e-12)


def test_unmasked_metrics_score_a_missing_reading_as_the_raw_files_literal() -> None:
    batch = readings()
    rows = metric_rows(score([batch], 3, HORIZON, 0.0), NODES)
    truth = torch.nan_to_num(batch.truth_CBH, nan=0.0).double().flatten()
    forecast = batch.forecast_CBH.double().flatten()
    for metric, function in [("mae", mean_absolute_error), ("rmse", root_mean_squared_error)]:
        assert value(rows, "pooled", metric, "all", UNMASKED) == pytest.approx(function(truth, forecast), rel=1e-12)


def test_unmasked_metrics_are_null_with_a_reason_where_the_raw_files_hold_no_number() -> None:
    rows = metric_rows(score([readings()], 3, HORIZON, None), NODES)
    unmasked = rows[rows["condition"] == UNMASKED]
    assert unmasked["value"].isna().all()
    assert (unmasked["reason"] == NO_LITERAL).all()
    assert rows.loc[rows["condition"] == MASKED, "reason"].isna().all()


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_metrics_are_the_same_for_batches_of_any_size(size: int) -> None:
    whole = metric_rows(score([readings()], 3, HORIZON, 0.0), NODES)
    parts = metric_rows(score(cut(readings(), size), 3, HORIZON, 0.0), NODES)
    pd.testing.assert_frame_equal(whole, parts, rtol=1e-13)


def test_two_nodes_by_hand() -> None:
    """Node a errs by 1 and 3, node b by 2 and has one missing reading; both truths are 10, the raw literal is 0."""
    truth = torch.tensor([[[10.0, 10.0]], [[10.0, float("nan")]]])
    forecast = torch.tensor([[[11.0, 7.0]], [[12.0, 5.0]]])
    batch = Forecasts(forecast, truth, ~truth.isnan(), torch.zeros(2, 1, dtype=torch.int64))
    rows = metric_rows(score([batch], 2, 2, 0.0), ["a", "b"])
    assert set(rows["horizon"]) == {"all"}
    assert value(rows, "a", "mae", "all", MASKED) == 2
    assert value(rows, "b", "mae", "all", MASKED) == 2
    assert value(rows, "pooled", "mae", "all", MASKED) == 2
    assert value(rows, "pooled", "rmse", "all", MASKED) == pytest.approx((14 / 3) ** 0.5)
    assert value(rows, "mean", "rmse", "all", MASKED) == pytest.approx((5**0.5 + 2) / 2)
    assert value(rows, "pooled", "mape", "all", MASKED) == pytest.approx(0.2)
    assert value(rows, "pooled", "mae", "all", UNMASKED) == (1 + 3 + 2 + 5) / 4


def test_windows_that_a_node_does_not_have_count_nowhere() -> None:
    batch = readings()
    windows = batch.window_CB.clone()
    windows[1, 40:] = -1
    padded = Forecasts(batch.forecast_CBH, batch.truth_CBH, batch.mask_CBH, windows)
    rows = metric_rows(score([padded], 3, HORIZON, 0.0), NODES).set_index(["unit", "metric", "horizon", "condition"])
    assert rows.loc[("b", "mae", "all", UNMASKED), "n"] == 40 * HORIZON
    assert rows.loc[("b", "mae", "all", MASKED), "n"] == int(batch.mask_CBH[1, :40].sum())


def test_a_node_without_a_reading_is_null_and_left_out_of_the_mean() -> None:
    batch = readings()
    mask = batch.mask_CBH.clone()
    mask[2] = False
    rows = metric_rows(
        score([Forecasts(batch.forecast_CBH, batch.truth_CBH, mask, batch.window_CB)], 3, 12, None), NODES
    )
    masked = rows[(rows["condition"] == MASKED) & (rows["metric"] == "mae") & (rows["horizon"] == "all")]
    by_unit = masked.set_index("unit")
    assert np.isnan(by_unit.loc["c", "value"])
    assert by_unit.loc["c", "reason"] == "no observed target"
    assert by_unit.loc["mean", "n"] == 2
    assert by_unit.loc["mean", "value"] == pytest.approx(by_unit.loc[["a", "b"], "value"].mean())


def test_a_diverged_run_has_the_rows_of_a_finished_one_each_null_with_the_reason() -> None:
    finished = metric_rows(score([readings()], 3, HORIZON, 0.0), NODES)
    diverged = null_rows(NODES, HORIZON, "loss of client b is not finite", [MASKED, UNMASKED])
    keys = ["unit", "metric", "horizon", "condition"]
    assert set(diverged[keys].itertuples(index=False)) == set(finished[keys].itertuples(index=False))
    assert diverged["value"].isna().all()
    assert set(diverged["metric"]) == set(METRICS)
