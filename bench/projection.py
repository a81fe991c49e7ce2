"""From the cost of one step to that of the runs of a scale, and the page that says so."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

import torch

from fedloom.report.layout import pipes

HEAD = """# What the {scale} scale costs

`make probe` wrote this page on {device}.
Every method takes a step on random data of each dataset's shape, so that none fails for the first time on a rented
machine.

A step is a minibatch of all clients, with what a round does before and after it (download, aggregation, the server's
own work), counted for every step. A round also looks at the whole validation part. Memory is what a step adds at its
peak to the data. Hours are of a run of one seed, and of all seeds of the scale.
{how}"""
COLUMNS = (  # and whether they hold numbers
    ("dataset", False), ("method", False), ("clients", True), ("parameters", True), ("batch", True),
    ("s a step", True), ("steps a round", True), ("s a round", True), ("peak, MB", True), ("rounds", True),
    ("h a run", True), ("h in all", True), ("measured on", False),
)  # fmt: skip
EXTRAPOLATED = """
Seconds are those of one core. Where the last column names a part of a step, that was measured, and time and memory
grow from it in proportion to clients and windows: what does not grow with them is counted too often, what grows faster
too little. Clients that do not meet are trained in chunks that fit into memory, whatever all of them would take side by
side.
"""


@dataclass(frozen=True)
class Cost:
    """What a run of ``rounds`` rounds will cost, from one step; ``taken`` says of which part, where not of the whole.

    ``step_seconds``: a minibatch of all clients. ``validation_seconds``: of a whole validation part, once a round.
    """

    dataset: str
    method: str
    clients: int
    parameters: int
    batch: int
    step_seconds: float
    steps: int
    validation_seconds: float
    rounds: int
    peak_megabytes: float
    taken: str
    seeds: int = 1

    @property
    def round_seconds(self) -> float:
        """Seconds of a round: its steps and its look at the validation part."""
        return self.steps * self.step_seconds + self.validation_seconds

    @property
    def hours(self) -> float:
        """Hours of the run of one seed."""
        return self.rounds * self.round_seconds / 3600


def document(costs: list[Cost], device: torch.device, scale: str) -> str:
    """The page, in Markdown: a row a method and dataset, and what each dataset takes in all."""
    how = EXTRAPOLATED if any(cost.taken for cost in costs) else ""
    text = HEAD.format(scale=scale, device=device_name(device), how=how)
    text += f"\n{pipes([name for name, _ in COLUMNS])}\n"
    text += f"{pipes(['---:' if number else '---' for _, number in COLUMNS])}\n"
    for cost in costs:
        cells = [
            cost.dataset,
            cost.method,
            f"{cost.clients}",
            f"{cost.parameters:,}",
            f"{cost.batch}",
            f"{cost.step_seconds:.3g}",
            f"{cost.steps}",
            f"{cost.round_seconds:,.0f}",
            f"{cost.peak_megabytes:,.0f}",
            f"{cost.rounds}",
            f"{cost.hours:,.1f}",
            f"{cost.seeds * cost.hours:,.1f}",
            cost.taken or "whole step",
        ]
        text += f"{pipes(cells)}\n"
    totals = {cost.dataset: 0.0 for cost in costs}
    for cost in costs:
        totals[cost.dataset] += cost.seeds * cost.hours
    said = [f"{dataset} {hours:,.0f}" for dataset, hours in totals.items()]
    return f"{text}\nHours in all, all seeds: {', '.join(said)}; together {sum(totals.values()):,.0f}.\n"


def device_name(device: torch.device) -> str:
    """The device as its maker calls it."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    try:
        listed = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        listed = []
    models = [line.partition(":")[2].strip() for line in listed if line.startswith("model name")]
    return f"a processor ({models[0] if models else platform.machine()})"
