"""FedDis: a code that clients share by likeness beside a code that each keeps for itself, held apart.

Zhou et al. 2026 (WWW). Its text was not to be had, so its published code is the source. A client is one sensor here:
its graph is the number 1 + |E|^2, the read-out of its graph has one entry, whose regulariser is constant and left out.

Not copied: targets below 5 left out of loss and metric; last batches dropped; a bank that learns from test windows; an
optimiser made anew every round for tensors that never left; encoders and read-outs of the graph that each client draws
for itself (here one start and one read-out for all, or neither their mean nor likeness would mean anything); codes that
change places on their way to the loss (see ``swapped``). Left out: the rate is halved where the mean validation loss
stalls, which no method sees here. The error is in each client's own deviations, as everywhere here, not in raw units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from fedloom.federation.method import Clients, Method, Moment, Outcome, Phase, Step, Uploads
from fedloom.federation.optim import Adam
from fedloom.federation.randomness import client_keys, uniform
from fedloom.federation.stack import Bound, matching
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.layers.bank import Bank
from fedloom.models.layers.club import Club
from fedloom.models.layers.node_gru import NodeGRU

Tensors = dict[str, Tensor]

EMBEDDING = 2  # d, of a sensor in either encoder
LAYERS = 2  # of either encoder
SHARPNESS = 0.1  # temperature of the read of the shared memory
TRAINING_ONLY = ("club", "end")  # no forecast takes them
FITTED = 0.3  # share of a minibatch to which the guess of the information is fitted
FITS = 3  # its steps a minibatch


class DisentangledForecaster(nn.Module):
    """Shared and personal code of a window, the memories they read, and a head each.

    ``end`` is the shared encoder's own head: no forecast uses it, yet the published code sends it along.
    """

    def __init__(self, task: ForecastTask, params: FedDis.Params) -> None:
        super().__init__()
        width, bound, self.swapped = params.width, math.sqrt(6 / (1 + EMBEDDING)), params.swapped
        self.node = nn.Parameter(torch.empty(EMBEDDING).uniform_(-bound, bound))
        self.own_node = nn.Parameter(torch.empty(EMBEDDING).uniform_(-bound, bound))
        self.encoder, self.own_encoder = (NodeGRU(EMBEDDING, width, LAYERS) for _ in range(2))
        self.end = nn.Linear(width, task.horizon)
        self.memory = nn.Parameter(nn.init.xavier_uniform_(torch.empty(params.memory, width)))
        self.query = nn.Linear(width, width)
        self.bank = Bank(params.bank, width, params.keep)
        self.head, self.own_head = nn.Linear(width, task.horizon), nn.Linear(width, task.horizon)
        self.club = Club(width, 2 * width)

    def codes(self, batch: Windows) -> tuple[Tensor, Tensor]:
        """S and D [B, D]: the code for the shared memory, and the one for the bank."""
        shared, own = self.encoder(batch.x, self.node), self.own_encoder(batch.x, self.own_node)
        return (own, shared) if self.swapped else (shared, own)

    def forecast(self, s_BD: Tensor, d_BD: Tensor, read_BD: Tensor) -> Tensor:
        """Forecasts [B, H] from both codes and what the second one read from the bank."""
        weight = (self.query(s_BD) @ self.memory.T / SHARPNESS).softmax(-1)
        return self.own_head(read_BD + d_BD).relu() + self.head(weight @ self.memory + s_BD)

    def learn(self, batch: Windows) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Forecasts, S, what D read while the windows wrote to the bank in turn, and the bank they leave."""
        s_BD, d_BD = self.codes(batch)
        read_BD = self.bank.read(d_BD, self.bank.written(d_BD))
        return self.forecast(s_BD, d_BD, read_BD), s_BD, read_BD, self.bank.after(d_BD, batch.valid)

    def forward(self, batch: Windows) -> Tensor:
        """Forecasts [B, H], scaled, from the bank as training left it: no window sees what another wrote."""
        s_BD, d_BD = self.codes(batch)
        return self.forecast(s_BD, d_BD, self.bank.read(d_BD, self.bank.frozen(d_BD)))


def mixed_rows(memory_CND: Tensor, threshold: float, most: int, own: float) -> Tensor:
    """Each client's memory rows [C, N, D] moved towards rows of others that resemble them.

    Of every other client up to ``most`` rows with a cosine of at least ``threshold`` count, by the softmax of their
    cosines over all clients; a row keeps the share ``own`` of itself, and stays where nothing resembles it.
    """
    unit_CND, count = normalize(memory_CND, dim=-1), memory_CND.shape[1]
    mixed = []
    for client, (row_ND, unit_ND) in enumerate(zip(memory_CND, unit_CND, strict=True)):
        cosine_NCN = torch.einsum("nd,cmd->ncm", unit_ND, unit_CND)
        best, at = cosine_NCN.topk(min(most, count), dim=-1)
        best = torch.where(best >= threshold, best, -torch.inf)
        best[:, client] = -torch.inf
        some_N1 = (best > -torch.inf).flatten(1).any(1)[:, None]
        weight = best.flatten(1).masked_fill(~some_N1, 0).softmax(-1).view_as(best)
        spread_NCN = torch.zeros_like(cosine_NCN).scatter(-1, at, weight)
        others_ND = torch.einsum("ncm,cmd->nd", spread_NCN, memory_CND)
        mixed.append(torch.where(some_N1, own * row_ND + (1 - own) * others_ND, row_ND))
    return torch.stack(mixed)


class FedDis(Method):
    """Encoder and memory come back mixed by the likeness of clients' graphs; all else stays at home."""

    name = "feddis"
    cite = "Zhou et al. 2026, FedDis (WWW), published code"
    family = "forecast"
    only_averages = False
    shared = ("encoder", "end", "memory")

    @dataclass(frozen=True)
    class Params:
        """Settings of the published code, METR-LA's where they differ by dataset."""

        lr: float = 5e-3  # Adam
        clip: float = 5.0  # norm of a client's gradient
        width: int = 64  # of codes and memories
        bank: int = 96  # rows; PEMS-BAY 128
        keep: float = 0.5  # what the bank keeps when a window is written to it
        memory: int = 16  # rows; PEMS-BAY 32
        information: float = 0.01  # largest weight of the information term
        information_scale: float = 1000.0  # its weight is |I| over this, where that is less
        information_lr: float = 1e-3  # Adam of the guess of the information
        temperature: float = 1.0  # of likeness between clients
        threshold: float = 0.3  # least cosine of memory rows that are mixed
        most: int = 3  # rows of another client that a row is mixed with
        own: float = 0.4  # share of itself that a row keeps
        swapped: bool = False  # published code: the encoder that is averaged feeds the personal path

    # -- one client ----------------------------------------------------------------------------------------------

    def client(self, task: ForecastTask) -> nn.Module:
        """Two encoders, memory and bank, heads, the guess of the information."""
        return DisentangledForecaster(task, self.params)

    def parameters(self, task: ForecastTask, module: nn.Module) -> Tensor:
        """What forecasts take, with the rows of the bank."""
        held = dict(module.named_parameters()) | dict(module.named_buffers())
        return torch.full((len(task.ids),), sum(held[n].numel() for n in self._forecasts(held)))

    def _forecasts(self, names: Tensors) -> list[str]:
        left = matching(names, TRAINING_ONLY)
        return [n for n in names if n not in left]

    def steps(self, phase: Phase) -> Sequence[Step]:
        """The forecaster, then the guess, which the next minibatch is held to."""
        over = ("node", "own_node", "encoder", "own_encoder", "memory", "query", "bank", "head", "own_head")
        return (
            Step(self.loss, Adam(self.params.lr, self.params.clip), over, "forecast"),
            Step(self.guess, Adam(self.params.information_lr), ("club",), "guess", FITS),
        )

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Absolute error + w I(S; D^), w = min(0.01, |I| / 1000); the bank is written to on the way."""
        forecast_BH, s_BD, read_BD, rows_KD = model(batch, method="learn")
        error = ((forecast_BH - batch.y).abs() * batch.mask).sum() / batch.mask.sum().clamp(min=1)
        pair = normalize(s_BD, dim=-1), normalize(read_BD, dim=-1)
        shared = model(*pair, batch.valid, method=lambda module, *given: module.club.bound(*given))
        weight = (shared.detach().abs() / self.params.information_scale).clamp(max=self.params.information)
        means = {"error": error, "information": shared}
        return Outcome(error + weight * shared, {"bank.rows": rows_KD.detach()}, means)

    def guess(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """How badly D^ is guessed from S on the first windows of the minibatch, which lies in random order."""
        some = Windows(*(part[: math.ceil(FITTED * len(batch.valid))] for part in batch))
        counted = torch.arange(len(some.valid), device=some.valid.device) < FITTED * batch.valid.sum()
        _, s_BD, read_BD, _ = model(some, method="learn")
        pair = normalize(s_BD.detach(), dim=-1), normalize(read_BD.detach(), dim=-1)
        misfit = model(*pair, some.valid * counted, method=lambda module, *given: module.club.misfit(*given))
        return Outcome(misfit)

    # -- what is shared: encoder, its unused head, memory; and where the client's graph lies -------------------------

    def upload(self, clients: Clients) -> Tensors:
        """The shared tensors and a code of the client's graph, one projection for all of its sensor's embedding."""
        node_Cd = clients.params["node"]
        width = clients.params["memory"].shape[-1]
        drawn = uniform(client_keys(["graph read-out"], node_Cd.device), (EMBEDDING + 1, width), node_Cd.dtype)[0]
        affine = (2 * drawn - 1) / math.sqrt(EMBEDDING)
        return super().upload(clients) | {"graph": node_Cd @ affine[:EMBEDDING] + affine[EMBEDDING]}

    # -- the server ----------------------------------------------------------------------------------------------

    def server(self, task: ForecastTask, start: Tensors) -> Tensors:
        """One start for all, of which each client has its own row [C, ...]."""
        drawn = super().server(task, start)
        return {n: value.expand(len(task.ids), *value.shape).clone() for n, value in drawn.items()}

    def aggregate(self, server: Tensors, uploads: Uploads) -> Tensors:
        """Each client's own mean over all, by the softmax of its likeness to them; memories row by row."""
        graph_CD = normalize(uploads["graph"], dim=-1)
        share_CC = (graph_CD @ graph_CD.T / self.params.temperature).softmax(-1)
        sent = {n: value for n, value in uploads.tensors.items() if n not in ("graph", "memory")}
        mixed = {n: torch.tensordot(share_CC, value, 1) for n, value in sent.items()}
        mixed["memory"] = mixed_rows(uploads["memory"], self.params.threshold, self.params.most, self.params.own)
        return {n: server[n].index_copy(0, uploads.positions, value) for n, value in mixed.items()}

    def download(self, server: Tensors, clients: Clients) -> Tensors:
        """Each client's own mixture."""
        return {n: value[clients.positions] for n, value in server.items()}

    def evaluated(self, server: Tensors, clients: Clients) -> Tensors:
        """What a forecast takes, under a fresh download."""
        judged = super().evaluated(server, clients)
        return {n: judged[n] for n in self._forecasts(judged)}

    def round_log(self, server: Tensors, clients: Clients) -> dict[str, float]:
        """Error and information bound while training, means over clients."""
        return {n: float(v.mean()) for n, v in clients.means.items()}
