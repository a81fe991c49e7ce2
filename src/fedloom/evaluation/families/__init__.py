"""The judges of runs: one module a family of tasks."""
