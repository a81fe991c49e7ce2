"""Estimates of a policy's value from another policy's log, against what the policy earned in a log of its own."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedloom.evaluation.offpolicy.policies import POLICIES
from fedloom.report.captions import told
from fedloom.report.causal.values import SHOWN
from fedloom.report.layout import Cell, Table
from fedloom.report.numbers import pick, tidy
from fedloom.report.shown import Shown, of_run, runs_in

WITHOUT_MODEL = ("ips", "snips")
PARTS = {"all": "whole log", "test": "test part"}
NO_SAMPLER = "no log of another policy beside these data"


def sampler(shown: Shown) -> Table:
    """Estimates of a random policy's value from another policy's log, against what it earned in its own log."""
    frame = pick(tidy(shown), metric="value")
    frame = frame[~frame["of_policy"].isin([*POLICIES, "mean", "logged", ""])]
    header = [("", name) for name in ("estimate", "95 % interval", "earned", "its 95 % interval", "estimate / earned")]
    rows = []
    for dataset in shown.datasets:
        of = frame[frame["dataset"] == dataset]
        label = shown.label(dataset)
        rows += _sampled(shown, of, label) or [(label, NO_SAMPLER, [Cell()] * len(header))]
    notes = told(
        shown,
        "Earned: mean outcome of all rows in the log of the policy itself, in the same days on the same pages; its "
        "probabilities are its shares of actions by place on the page, in training rows of that log. All estimators "
        "see the test part of the other log; IPS and SNIPS, which use no model, also the whole of it. Intervals are "
        "bootstrap intervals over owners, stratified by client.",
    )
    return Table(header, rows, shown.caption, notes, frame, ("Data set: policy", "Estimator"))


def _sampled(shown: Shown, of: pd.DataFrame, label: str) -> list[tuple[str, str, list[Cell]]]:
    """Rows of every policy that has a log of its own beside a dataset."""
    rows = []
    for policy in of["of_policy"].unique():
        mine = of[of["of_policy"] == policy]
        runs = shown.foremost_first(runs_in(mine))
        earned = pick(of_run(mine, runs[0]), estimator="on_policy").iloc[0]
        for part, estimators in (("all", WITHOUT_MODEL), ("test", SHOWN)):
            for estimator in estimators:
                what = f"{shown.names.word(estimator)}, {PARTS[part]}"
                # Without a model nothing of the method is in an estimate.
                for run in runs[:1] if estimator in WITHOUT_MODEL else runs:
                    whose = "" if estimator in WITHOUT_MODEL else f": {shown.names.run(run)}"
                    for _, row in pick(of_run(mine, run), estimator=estimator, rows=part).iterrows():
                        rows.append((f"{label}: {policy}", what + whose, _against(row, earned)))
    return rows


def _against(row: pd.Series, earned: pd.Series) -> list[Cell]:
    if np.isnan(row["ours_mean"]):
        return [Cell(str(row["note"]).replace("_", " ")), Cell(), *_interval(earned), Cell()]
    return [*_interval(row), *_interval(earned), Cell(f"{row['ours_mean'] / earned['ours_mean']:.2f}")]


def _interval(row: pd.Series) -> list[Cell]:
    return [Cell(f"{row['ours_mean']:.5f}"), Cell(f"{row['lo']:.5f} to {row['hi']:.5f}")]
