"""Trajectories: sequences of decisions and their outcomes."""
