"""Persistence: the last observed reading, repeated over the horizon."""

from __future__ import annotations

from torch import Tensor, nn

from fedloom.federation.method import Method
from fedloom.federation.tasks.forecast import ForecastTask, Windows


class LastObserved(nn.Module):
    """Repeats the last observed scaled reading H times: [B, H]."""

    def __init__(self, horizon: int) -> None:
        super().__init__()
        self.horizon = horizon

    def forward(self, batch: Windows) -> Tensor:
        return batch.last[..., None].expand(*batch.last.shape, self.horizon)


class Persistence(Method):
    """The reference that every trained method should beat; it learns nothing."""

    name = "persistence"
    cite = "last observed value (reference row, not a published method)"
    family = "forecast"
    trains = False

    def client(self, task: ForecastTask) -> nn.Module:
        """A module without parameters."""
        return LastObserved(task.horizon)

    def rounds(self, requested: int) -> int:
        """None: there is nothing to train."""
        return 0
