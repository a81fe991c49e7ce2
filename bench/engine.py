"""The engine: all clients as one batched program."""

from __future__ import annotations

import time

import torch

from bench.problem import WARM_UP, Problem, Timing


def synchronise(device: torch.device) -> None:
    """Wait until ``device`` has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def run(problem: Problem) -> Timing:
    """Train by the path that every method takes."""
    federation = problem.federation()
    state = federation.start()
    seconds = []
    for _ in range(WARM_UP + problem.setting.rounds):
        synchronise(problem.task.device)
        begun = time.perf_counter()
        federation.step(state)
        synchronise(problem.task.device)
        seconds.append(time.perf_counter() - begun)
    return Timing(seconds[WARM_UP:], state.server)
