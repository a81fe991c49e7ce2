"""Weekly profile: each client's mean training reading at the target's slot of the week."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fedloom.federation.method import Method, Moment, Outcome, Phase, Step
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.forecast import DAYS_PER_WEEK, ForecastTask, Windows


class WeeklyMeans(nn.Module):
    """Sums and counts of a client's scaled readings in each slot of the week; forecasts [B, H] are their means.

    A slot never seen in training gives 0, the client's mean. Slots run on from the last input step, so the windows
    that cross a change of the clock are an hour off.
    """

    total: Tensor
    count: Tensor

    def __init__(self, task: ForecastTask) -> None:
        super().__init__()
        self.slots_per_day, self.horizon = task.slots_per_day, task.horizon
        self.register_buffer("total", torch.zeros(DAYS_PER_WEEK * task.slots_per_day))
        self.register_buffer("count", torch.zeros(DAYS_PER_WEEK * task.slots_per_day))

    def slots(self, batch: Windows) -> Tensor:
        """Slot of the week of every target, [B, H]."""
        now = batch.clock[..., 1] * self.slots_per_day + batch.clock[..., 0]
        ahead = torch.arange(1, self.horizon + 1, device=now.device)
        return (now[..., None] + ahead) % (DAYS_PER_WEEK * self.slots_per_day)

    def counted(self, batch: Windows) -> tuple[Tensor, Tensor]:
        """Sums and counts with this minibatch added."""
        at = self.slots(batch).flatten()
        total = self.total.index_add(0, at, (batch.y * batch.mask).flatten())
        return total, self.count.index_add(0, at, batch.mask.flatten())

    def forward(self, batch: Windows) -> Tensor:
        return (self.total / self.count.clamp(min=1))[self.slots(batch)]


class WeeklyProfile(Method):
    """One pass over the training windows fills the profile; there is no gradient and nothing is shared."""

    name = "weekly_profile"
    cite = "mean of the training readings by slot of the week (reference row, not a published method)"
    family = "forecast"
    trains = False

    def client(self, task: ForecastTask) -> nn.Module:
        """A client's empty profile."""
        return WeeklyMeans(task)

    def rounds(self, requested: int) -> int:
        """One pass, however long the others train."""
        return 1

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        """One epoch of counting by everyone."""
        return (Phase("count", epochs=1, participation=1.0, download=False, upload=False),)

    def steps(self, phase: Phase) -> Sequence[Step]:
        """A statistics step."""
        return (Step(self.loss, optimiser=None),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """No loss, only the new sums and counts."""
        total, count = model(batch, method="counted")
        return Outcome(batch.y.sum() * 0, buffers={"total": total, "count": count})
