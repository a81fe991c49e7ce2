"""How the runs of each family of tasks are judged: one module a family."""
