"""Artifacts of the study of Fed-CausalDiff (decoupled synchronisation, do-simulation, policy evaluation)."""

from __future__ import annotations

from fedloom.report.causal.effects import effects, heterogeneity
from fedloom.report.causal.progress import convergence, traffic
from fedloom.report.causal.support import overlap, support
from fedloom.report.causal.trajectories import datasets, partition, protocol
from fedloom.report.causal.utility import utility
from fedloom.report.causal.values import estimates, sampler, values

TABLES = {
    "table1": datasets,
    "table2": protocol,
    "table3": effects,
    "table4": utility,
    "table_heterogeneity": heterogeneity,
    "table_support": support,
    "table_values": estimates,
    "table_sampler": sampler,
}
FIGURES = {
    "figure2": values,
    "figure3": convergence,
    "figure4": traffic,
    "figure_partition": partition,
    "figure_overlap": overlap,
}
