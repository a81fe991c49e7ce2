"""A sensor's encoder and decoder around a context that comes from elsewhere (CNFGNN, Sec. 3.1).

Tensors may have any leading axes before the batch, where one set of weights serves all.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.layers.recurrent import GRU


class SeqToSeq(nn.Module):
    """GRU encoder, GRU decoder and output map of one sensor; both read a value and the time of day, in [0, 1)."""

    def __init__(self, task: ForecastTask, hidden: int) -> None:
        super().__init__()
        self.slots_per_day, self.hidden = task.slots_per_day, hidden
        self.encoder, self.decoder = GRU(2, hidden), GRU(2, 2 * hidden)
        self.output = nn.Linear(2 * hidden, 1)

    def of_day(self, batch: Windows, first: int, last: int) -> Tensor:
        """Time of day [..., B, S] at steps ``first`` to before ``last``, counted from the last input step."""
        steps = torch.arange(first, last, device=batch.clock.device)
        return ((batch.clock[..., :1] + steps) % self.slots_per_day / self.slots_per_day).to(batch.x.dtype)

    def encode(self, batch: Windows) -> Tensor:
        """State [..., B, D] after the window."""
        u = torch.stack([batch.x, self.of_day(batch, 1 - batch.x.shape[-1], 1)], -1)
        state = u.new_zeros((*batch.x.shape[:-1], self.hidden))
        for gates in self.encoder.gates(u).unbind(-2):
            state = self.encoder.step(gates, state)
        return state

    def decode(self, batch: Windows, code: Tensor, context: Tensor, taught: Tensor | None = None) -> Tensor:
        """Forecasts [..., B, H] from code and context [..., B, D] each, each step fed with the one before.

        Where ``taught`` (bool, like the targets) it is fed with the truth instead, if that was observed.
        """
        state = torch.cat([code, context], -1)
        value, ahead = batch.x[..., -1], []
        taught = None if taught is None else taught & (batch.mask > 0)
        for step, of_day in enumerate(self.of_day(batch, 0, batch.y.shape[-1]).unbind(-1)):
            state = self.decoder.step(self.decoder.gates(torch.stack([value, of_day], -1)), state)
            value = self.output(state)[..., 0]
            ahead.append(value)
            if taught is not None:
                value = torch.where(taught[..., step], batch.y[..., step], value)
        return torch.stack(ahead, -1)

    def forward(self, batch: Windows, context: Tensor, taught: Tensor) -> Tensor:
        return self.decode(batch, self.encode(batch), context, taught)
