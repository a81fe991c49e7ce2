"""What one client of a split network holds, and what it computes, for all clients at once (ST-SplitVFL, Sec. 3)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from fedloom.federation.exchange import Exchange
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.bilstm import BiForecaster, channel_counts, channels, forecaster_size
from fedloom.models.layers.lstm import LSTM, lstm

LAYERS = 2  # of encoder and decoder, Sec. 4.2


class SplitClient(nn.Module):
    """An autoencoder for pre-training, a head for each of ``receivers``, a forecaster of what ``senders`` send.

    Clients differ in how many they are; each module has places for the most, and those unused never learn.
    """

    def __init__(self, task: ForecastTask, receivers: int, senders: int, code: int, hidden: int) -> None:
        super().__init__()
        width = int(channel_counts(task).max())
        self.slots_per_day, self.code, self.hidden = task.slots_per_day, code, hidden
        self.encoder = LSTM(width, code, LAYERS)
        self.decoder = LSTM(code, code, LAYERS)
        self.rebuild = nn.Linear(code, width)
        self.heads = LSTM(width, code, LAYERS, copies=(receivers,))
        self.forecaster = BiForecaster(senders * code, hidden, task.horizon)

    def channels(self, batch: Windows) -> Tensor:
        """What the client reads, [T, F, B]."""
        return channels(batch, self.slots_per_day)

    def reconstruction(self, batch: Windows) -> Tensor:
        """Mean squared error of what the autoencoder makes of the client's channels."""
        x_TFB = self.channels(batch)
        decoded_TBD = self.decoder(self.encoder(x_TFB)).mT
        return (self.rebuild(decoded_TBD) - x_TFB.mT).square().mean()


def codes(x_CTFB: Tensor, heads: Mapping[str, Tensor], exchange: Exchange) -> Tensor:
    """Z_{i,j} = E_{i,j}(X_i) of every edge, [E, T, D, B]: all clients' heads [C, receivers, ...] in one program."""
    own = exchange.src * next(iter(heads.values())).shape[1] + exchange.sender_slot
    picked = {name: head.flatten(0, 1).index_select(0, own) for name, head in heads.items()}
    return lstm(x_CTFB.index_select(0, exchange.src), picked)


def parameters_held(task: ForecastTask, module: SplitClient, edges: Tensor) -> Tensor:
    """Numbers [C] of each client's heads and forecaster, without padding; a passive client has no forecaster."""
    clients, code = len(task.ids), module.code
    receivers, senders = (torch.bincount(ends.cpu(), minlength=clients) for ends in edges)
    owned = channel_counts(task)
    head = sum(p.numel() for p in module.encoder.parameters()) - 4 * code * (owned.max() - owned)
    return receivers * head + forecaster_size(senders * code, module.hidden, task.wanted.sum(1).cpu())


def degrees(edges: Tensor) -> tuple[int, int]:
    """The most receivers and the most senders that a client has."""
    receivers, senders = (int(torch.bincount(ends.cpu()).max()) for ends in edges)
    return receivers, senders
