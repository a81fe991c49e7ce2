"""One network at a centre reads all clients' windows of the same moments side by side: centralised forecasting.

Following BasicTS, by whose protocol the centralised rows of Atlas' Table 1 were made: readings of all nodes in one
scale, the loss in the unit of the readings, over observed targets.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from fedloom.errors import InputError
from fedloom.federation.method import Method, Moment, Outcome, Tensors
from fedloom.federation.stack import Bound, StackedBound
from fedloom.federation.tasks.forecast import ForecastTask, Windows


class Scene(NamedTuple):
    """Windows of all N nodes at the same B moments; nodes in the order of their keys, readings in one scale.

    ``x_NBT`` readings, missing ones filled · ``slot_BT``, ``weekday_BT`` time-of-day slot and weekday of every input
    step · ``y_NBH`` targets · ``mask_NBH`` 1 where a target was observed and is asked for.
    """

    x_NBT: Tensor
    slot_BT: Tensor
    weekday_BT: Tensor
    y_NBH: Tensor
    mask_NBH: Tensor


class Learning:
    """What a network needs while it learns: the step's draws [N, ...] by name, and how far training has come.

    ``renewed`` collects new values of a layer's buffers. A network that is judged gets no ``Learning``.
    """

    def __init__(self, draws: Tensors, progress: float) -> None:
        self.draws, self.progress = draws, progress
        self.renewed: dict[nn.Module, Tensors] = {}


def dropped(x: Tensor, learning: Learning | None, name: str, rate: float) -> Tensor:
    """``x`` with dropout at ``rate`` by the uniform draws of that name, of its shape; whole where nobody learns."""
    if learning is None or not rate:
        return x
    return x * (learning.draws[name] >= rate) / (1 - rate)


class Centre(nn.Module):
    """A network ``net(scene, learning)`` -> forecasts [N, B, H] behind windows of clients, [C, B, ...] each.

    The scale of all nodes is the mean and deviation of their training readings, each node counting the same. Raises
    InputError where clients have windows at different moments.
    """

    order: Tensor
    place: Tensor
    gain: Tensor
    lift: Tensor
    unit: Tensor

    def __init__(self, task: ForecastTask, net: nn.Module) -> None:
        super().__init__()
        for part, starts in task.starts.items():
            if bool((starts != starts[:1]).any()):
                raise InputError(f"clients: {part} windows: expected those of all at the same moments, found others")
        self.net, self.slots_per_day = net, task.slots_per_day
        order = task.keys.cpu().argsort()
        mean, sd = task.mean.cpu().double()[order, None, None], task.sd.cpu().double()[order, None, None]
        spread = ((sd.square() + mean.square()).mean() - mean.mean().square()).sqrt()
        constants = {"order": order, "place": order.argsort(), "unit": task.sd.cpu()[:, None, None]}
        constants |= {"gain": sd / spread, "lift": (mean - mean.mean()) / spread}
        for name, value in constants.items():
            self.register_buffer(name, value, persistent=False)

    def scene(self, batch: Windows) -> Scene:
        """The clients' windows as the network sees them."""
        steps_T = torch.arange(1 - batch.x.shape[-1], 1, device=batch.x.device)
        slot_CBT, weekday_CBT = batch.clock_at(steps_T, self.slots_per_day)
        x_NBT, y_NBH = (v[self.order] * self.gain + self.lift for v in (batch.x, batch.y))
        return Scene(x_NBT, slot_CBT[0], weekday_CBT[0], y_NBH, batch.mask[self.order])

    def forward(self, batch: Windows) -> Tensor:
        """Forecasts [C, B, H] in each client's own scale."""
        return self._at_home(self.net(self.scene(batch), None))

    def learn(self, batch: Windows, draws: Tensors, progress: float) -> tuple[Tensor, Tensors]:
        """Errors [C, B, H] in the unit of the readings, and new values of buffers by their names.

        ``draws`` [C, ...] are the step's.
        """
        learning = Learning({n: d[self.order] for n, d in draws.items()}, progress)
        forecast_CBH = self._at_home(self.net(self.scene(batch), learning))
        found = {
            f"{path}.{n}": v for path, part in self.named_modules() for n, v in learning.renewed.get(part, {}).items()
        }
        return (forecast_CBH - batch.y) * self.unit, found

    def _at_home(self, forecast_NBH: Tensor) -> Tensor:
        return ((forecast_NBH - self.lift) / self.gain)[self.place]


class Central(Method, abstract=True):
    """Base of methods that train a ``Centre``; they say which in ``client``, and how it steps in ``steps``."""

    family = "forecast"
    couples = True
    central = True

    def collected(self, task: ForecastTask) -> Tensor:
        """Readings up to the last one that training or validation sees; the clock is known."""
        return torch.full((len(task.ids),), steps_seen(task), dtype=torch.float64)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Each client's part of the mean absolute error over all observed targets, in the unit of the readings."""
        assert isinstance(model, StackedBound)
        error_CBH, renewed = model.one(batch, moment.noise, moment.progress, method="learn")
        return Outcome(shares(error_CBH.abs(), batch.mask), {n: v[None] for n, v in renewed.items()})

    def predict(self, model: Bound, batch: Windows, moment: Moment) -> Tensor:
        """Forecasts [C, B, H] of the one network that stands behind all rows."""
        assert isinstance(model, StackedBound)
        return model.one(batch)


def steps_seen(task: ForecastTask) -> int:
    """Steps from the first to the last that a training or validation window holds."""
    last = max(int(task.starts[part].max()) for part in ("train", "validation"))
    return last + task.history + task.horizon


def shares(error_CBH: Tensor, mask_CBH: Tensor) -> Tensor:
    """What each client adds to the mean of ``error_CBH`` over all entries where the mask is 1: [C]."""
    return (error_CBH * mask_CBH).sum((1, 2)) / mask_CBH.sum().clamp(min=1)
