"""Artifacts of the study of ST-SplitVFL (split learning across a spatial graph)."""

from __future__ import annotations

from fedloom.report.costs import cost_table
from fedloom.report.forecast.growth import growth
from fedloom.report.forecast.maps import error_map
from fedloom.report.forecast.neighbours import neighbours
from fedloom.report.forecast.spatial import accuracy, datasets

TABLES = {"table_datasets": datasets, "table_accuracy": accuracy, "table_cost": cost_table}
FIGURES = {"figure_map": error_map, "figure_growth": growth, "figure_neighbours": neighbours}
