"""Artifacts of the study of FeDaL (a federated time-series foundation model)."""

from __future__ import annotations

from functools import partial

from fedloom.report.curves import curves
from fedloom.report.series.bias import bias
from fedloom.report.series.coreset import core_sets
from fedloom.report.series.eight import tasks
from fedloom.report.series.heldout import full_shot, zero_shot
from fedloom.report.series.rebuilt import ablations, reconstruction
from fedloom.report.series.scaling import scaling
from fedloom.report.series.sensitivity import sensitivity
from fedloom.report.series.windows import forecasts
from fedloom.report.series.windows import reconstruction as filled

TABLES = {
    "table1": reconstruction,
    "table3": full_shot,
    "table4": zero_shot,
    "table_ablation": ablations,
    "table_tasks": tasks,
}
FIGURES = {
    "figure_scaling": scaling,
    "figure_sensitivity": sensitivity,
    "figure_bias": bias,
    "figure_coreset": core_sets,
    "figure_reconstruction": filled,
    "figure_forecast": forecasts,
    "figure_curves": partial(curves, quantity="validation_score", label="validation MSE"),
}
