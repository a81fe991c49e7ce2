"""In the generated world, whose propensities and potential outcomes are known, estimates find the true values."""

from __future__ import annotations

import numpy as np
import pytest

from fedloom.data.trajectories.dkt.log import generate
from fedloom.data.trajectories.dkt.settings import DktSynth
from fedloom.data.trajectories.dkt.truth import build_truth
from fedloom.data.trajectories.table import pad
from fedloom.data.trajectories.truth import TruthSettings
from fedloom.evaluation.causal.propensity import History, estimate_propensities, of_chosen
from fedloom.evaluation.offpolicy.log import Log
from fedloom.evaluation.offpolicy.policies import OFF, ON, POLICIES, groups, plan
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
    padded, anchors = pad(data), truth.about["anchors"]
    x_NX, a_NLA, outcome_NL = (values.astype(np.float64) for values in (padded.x, padded.a, padded.y))
    chosen_NL, owner_N = groups(padded.t, anchors["off"], anchors["on"]), np.arange(UNITS)
    history = History(x_NX, a_NLA, chosen_NL, outcome_NL, padded.mask, site, owner_N)
    length_N = padded.mask.sum(axis=1)
    potentials = truth.potentials.astype(np.float64)
    values = {}
    for policy in POLICIES:
        asked = plan(policy, np.full(UNITS, LENGTH), LENGTH)[..., None]
        values[policy] = float(np.take_along_axis(potentials, asked, axis=2).mean())
    of_anchor = np.where(chosen_NL == ON, truth.anchor_propensity[..., ON], truth.anchor_propensity[..., OFF])
    odd = np.arange(UNITS) % 2 == 1
    estimated = np.zeros((UNITS, LENGTH, 3))
    for half in (odd, ~odd):
        estimated[half] = estimate_propensities(history.of(~half), history.of(~half), history.of(half), len(clients))
    # Estimated propensities are off where few steps are like one another, which ratios bear better than sums.
    for name, propensity, tolerance, estimators in (
        ("logged", of_anchor, 1.5, ("ips", "snips")),
        ("estimated", of_chosen(estimated, chosen_NL), 2.5, ("snips",)),
    ):
        log = Log(site, owner_N, length_N, chosen_NL, outcome_NL, propensity)
        rows = step_rows(log, clients, name, truth=values)
        found = {row["condition"]: row for row in rows if row["metric"] == "value"}
        for policy, value in values.items():
            for estimator in estimators:
                row = found[f"estimator={estimator},policy={policy},propensity={name},scope=step"]
                assert abs(row["value"] - value) < tolerance * (row["hi"] - row["lo"]) / 2
