"""In the generated world, whose propensities and potential outcomes are known, estimates find the true values."""

from __future__ import annotations

import numpy as np
import pytest

from fedloom.data.trajectories.dkt.log import generate
from fedloom.data.trajectories.dkt.settings import DktSynth
from fedloom.data.trajectories.dkt.truth import build_truth
from fedloom.data.trajectories.table import pad
from fedloom.data.trajectories.truth import TruthSettings
from fedloom.evaluation.causal.anchors import estimated_log, history_of, log_of
from fedloom.evaluation.causal.propensity import estimate_propensities
from fedloom.evaluation.offpolicy.policies import OFF, ON, POLICIES, plan
from fedloom.evaluation.offpolicy.rows import step_rows

UNITS, LENGTH = 1000, 12


@pytest.mark.slow
def test_weights_by_true_and_by_estimated_propensities_find_the_true_values() -> None:
    settings = DktSynth(sequences=UNITS, length=LENGTH)
    data = generate(settings)
    truth = build_truth(
        settings, TruthSettings(window_start=LENGTH, draws=2, units=1, floor_draws=1, horizons=(1,)), data
    )
    site = np.unique(data.table["label"], return_inverse=True)[1]
    clients = [f"site{i}" for i in range(settings.sites)]
    history = history_of(pad(data), site, np.arange(UNITS), truth.about["anchors"])
    potentials = truth.potentials.astype(np.float64)
    values = {}
    for policy in POLICIES:
        asked = plan(policy, np.full(UNITS, LENGTH), LENGTH)[..., None]
        values[policy] = float(np.take_along_axis(potentials, asked, axis=2).mean())
    of_anchor = np.where(history.chosen_NL == ON, truth.anchor_propensity[..., ON], truth.anchor_propensity[..., OFF])
    odd = np.arange(UNITS) % 2 == 1
    estimated = np.zeros((UNITS, LENGTH, 3))
    for half in (odd, ~odd):
        estimated[half] = estimate_propensities(history.of(~half), history.of(~half), history.of(half), len(clients))
    # Estimated propensities are off where few steps are like one another, which ratios bear better than sums.
    for name, log, tolerance, estimators in (
        ("logged", log_of(history, of_anchor), 1.5, ("ips", "snips")),
        ("estimated", estimated_log(history, estimated), 2.5, ("snips",)),
    ):
        rows = step_rows(log, clients, name, truth=values)
        found = {row["condition"]: row for row in rows if row["metric"] == "value"}
        for policy, value in values.items():
            for estimator in estimators:
                row = found[f"estimator={estimator},policy={policy},propensity={name},scope=step"]
                assert abs(row["value"] - value) < tolerance * (row["hi"] - row["lo"]) / 2
