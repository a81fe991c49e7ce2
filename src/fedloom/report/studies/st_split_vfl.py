"""Artifacts of the study of ST-SplitVFL (split learning across a spatial graph)."""

from __future__ import annotations

from fedloom.report.costs import cost_table
from fedloom.report.growth import growth
from fedloom.report.maps import error_map
from fedloom.report.neighbours import neighbours
from fedloom.report.spatial import accuracy, datasets

TABLES = {"table_datasets": datasets, "table_accuracy": accuracy, "table_cost": cost_table}
FIGURES = {"figure_map": error_map, "figure_growth": growth, "figure_neighbours": neighbours}
