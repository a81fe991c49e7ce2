"""Small problems, one module a family, on which methods are checked and tests stand."""

from fedloom.check.problem import CLIENTS, NAMES, PROTOCOL, Problem
from fedloom.check.problems.forecast import HISTORY, HORIZON, ForecastProblem
from fedloom.check.problems.series import LENGTH, SeriesProblem
from fedloom.check.problems.trajectory import ACTIONS, LONGEST, TrajectoryProblem

__all__ = [
    "ACTIONS", "CLIENTS", "HISTORY", "HORIZON", "LENGTH", "LONGEST", "NAMES", "PROTOCOL", "Problem",
    "problem", "series_problem", "trajectory_problem",
]  # fmt: skip

problem, series_problem, trajectory_problem = ForecastProblem.small, SeriesProblem.small, TrajectoryProblem.small
