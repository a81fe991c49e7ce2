"""AUC and RMSE equal an independent library's, ties and all; constants score what constants must."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, roc_auc_score

from fedloom.evaluation.causal.factual import auc, factual_rows, rmse
from fedloom.evaluation.rows import as_metrics
from fedloom.evaluation.schema import METRICS

CLIENTS = ["c00", "c01", "c02"]


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_auc_with_ties_is_that_of_scikit_learn(seed: int, levels: int) -> None:
    random = np.random.default_rng(seed)
    outcome = np.concatenate([[0.0, 1.0], random.integers(0, 2, 40)])
    prediction = random.integers(0, levels, 42) / levels
    assert auc(prediction, outcome) == pytest.approx(roc_auc_score(outcome, prediction), abs=1e-12)


def test_rmse_is_the_root_of_the_brier_score() -> None:
    random = np.random.default_rng(0)
    outcome, prediction = random.integers(0, 2, 100).astype(float), random.random(100)
    assert rmse(prediction, outcome) ** 2 == pytest.approx(brier_score_loss(outcome, prediction))


def test_constants_have_auc_one_half_and_the_rmse_of_their_bias_and_spread() -> None:
    random = np.random.default_rng(1)
    outcome = (random.random(3000) < 0.3).astype(np.float64)
    rows = factual_rows(random.random(3000), outcome, np.arange(3000) % 3, CLIENTS, outcome.mean())
    pooled = {(row["metric"], row["condition"]): row["value"] for row in rows if row["unit"] == "pooled"}
    assert pooled["auc", "prediction=half"] == pooled["auc", "prediction=base_rate"] == 0.5
    assert pooled["rmse", "prediction=half"] == 0.5
    p = outcome.mean()
    assert pooled["rmse", "prediction=base_rate"] == pytest.approx(np.sqrt(p * (1 - p)))


def test_a_client_with_one_class_is_null_and_left_out_of_the_mean() -> None:
    outcome = np.array([0.0, 1.0, 1.0, 1.0, 0.0, 1.0])
    client = np.array([0, 0, 1, 1, 2, 2])
    prediction = np.array([0.1, 0.9, 0.5, 0.6, 0.8, 0.2])
    rows = factual_rows(prediction, outcome, client, CLIENTS, 0.5)
    spec = {"dataset": "made", "method": "m", "variant": "base", "seed": 0}
    frame = METRICS.validate(as_metrics(rows, spec, "selected"))
    found = frame[(frame["metric"] == "auc") & (frame["condition"] == "")].set_index("unit")
    assert found.loc["c01", "reason"] == "single_class"
    assert found.loc["mean", ["value", "n"]].tolist() == [0.5, 2]
