"""Atlas: clients share a codebook of environment prototypes and nothing else.

"Every Client Is an Environment: Federated De-confounding for Spatio-Temporal Forecasting", Sec. 4, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from fedloom.federation.alignment import align_rows, placed_rows
from fedloom.federation.method import Clients, Method, Moment, Outcome, Phase, Step, Uploads
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound, Tensors
from fedloom.federation.tasks.forecast import ForecastTask, Windows
from fedloom.models.forecaster import Encoder, Size, masked_mse


class CodebookForecaster(nn.Module):
    """phi_k, Q_k, psi_k of one client (Sec. 4.4); ``forward`` gives forecasts [B, H], scaled."""

    def __init__(self, task: ForecastTask, params: Atlas.Params) -> None:
        super().__init__()
        self.temperature, self.hard, self.residual = params.temperature, params.assignment == "hard", params.residual
        self.encoder = Encoder(task, params.encoder, params.width, params.depth)
        self.codebook = nn.Parameter(torch.randn(params.prototypes, params.width))
        self.decoder = nn.Linear(params.width * (2 if params.residual else 1), task.horizon)

    def locate(self, batch: Windows) -> tuple[Tensor, Tensor]:
        """The latent vectors z [B, D] and the weights w [B, I] of the prototypes (Eq. 5)."""
        z_BD = self.encoder(batch)
        cosine = normalize(z_BD, dim=-1, eps=1e-8) @ normalize(self.codebook, dim=-1, eps=1e-8).T
        w_BI = (cosine / self.temperature).softmax(-1)
        if self.hard:
            one_hot = torch.zeros_like(w_BI).scatter(-1, w_BI.argmax(-1, keepdim=True), 1.0)
            w_BI = w_BI + (one_hot - w_BI).detach()
        return z_BD, w_BI

    def read(self, batch: Windows) -> tuple[Tensor, Tensor]:
        """Forecasts [B, H] and the weights w [B, I]."""
        z_BD, w_BI = self.locate(batch)
        read_out = w_BI @ self.codebook
        return self.decoder(torch.cat([z_BD, read_out], -1) if self.residual else read_out), w_BI

    def forward(self, batch: Windows) -> Tensor:
        return self.read(batch)[0]


class Atlas(Method):
    """Clients share a codebook of environment prototypes and nothing else (Sec. 4, Alg. 1)."""

    name = "atlas"
    cite = "Every Client Is an Environment, Sec. 4, Alg. 1"
    family = "forecast"
    only_averages = False

    @dataclass(frozen=True)
    class Params:
        """The paper's settings, then the switches of its ablations (Table 2) and of our controls."""

        lr: float = 1e-3  # Adam, Sec. 5.1
        prototypes: int = 10  # I, Sec. 5.1
        width: int = 64  # D, Sec. 5.1
        depth: int = 3  # residual blocks, Sec. 5.1
        temperature: float = 0.1  # alpha, Eq. 5, Sec. 5.1
        encoder: Size = "wide"  # not in the paper: STID's published width, or `compact` at a quarter of the cost
        share: Literal["codebook", "encoder", "all"] = "codebook"  # A.2: also phi; A.3: phi and psi
        codebook: Literal["federated", "local", "local_shared_start", "frozen"] = "federated"  # A.1, A.1s, FR
        align: bool = True  # A.4 averages by slot number
        independent_start: bool = False  # A.4': round 0 starts from each client's own codebook
        assignment: Literal["soft", "hard"] = "soft"  # A.5: one-hot, straight-through gradient
        upload: Literal["all", "dominant"] = "all"  # A.6: the most used prototype alone
        residual: bool = False  # ours: the decoder also sees z, past the codebook

    def client(self, task: ForecastTask) -> nn.Module:
        """Encoder, codebook and decoder."""
        return CodebookForecaster(task, self.params)

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        """Federated: Q comes down and goes up. Else it comes down once (shared start, frozen) or never (local)."""
        if self.params.codebook == "federated":
            return (Phase(download=round_ > 0 or not self.params.independent_start),)
        return (Phase(download=round_ == 0 and self.params.codebook != "local", upload=False),)

    def steps(self, phase: Phase) -> Sequence[Step]:
        """phi, psi and Q step together (Alg. 1, line 6); a frozen Q stays as it was drawn."""
        over = ("encoder", "decoder") if self.params.codebook == "frozen" else ()
        return (Step(self.loss, Adam(self.params.lr), over),)

    def loss(self, model: Bound, batch: Windows, moment: Moment) -> Outcome:
        """Squared error (Eq. 10), and how much each prototype was used."""
        forecast, w_BI = model(batch, method="read")
        usage_I = (w_BI * batch.valid[:, None]).sum(0) / batch.valid.sum().clamp(min=1)
        return Outcome(masked_mse(forecast, batch), means={"usage": usage_I})

    def diagnose(self, model: Bound, batch: Windows) -> Tensors:
        """The prototype that weighs most in each window [B], the weights of all [B, I], the latent vector [B, D]."""
        z_BD, w_BI = model(batch, method="locate")
        return {"assignment": w_BI.argmax(-1), "weights": w_BI, "latent": z_BD}

    @property
    def shared(self) -> tuple[str, ...]:
        """Q alone: I x D numbers a client and round."""
        return {
            "codebook": ("codebook",),
            "encoder": ("codebook", "encoder"),
            "all": ("codebook", "encoder", "decoder"),
        }[self.params.share]

    def upload(self, clients: Clients) -> Tensors:
        """The shared parameters; or (A.6) the row of the dominant prototype, D numbers, and its slot."""
        if self.params.upload == "all":
            return super().upload(clients)
        slot_C = clients.means["usage"].argmax(-1)
        rows = torch.arange(len(clients), device=slot_C.device)
        return {"row": clients.params["codebook"][rows, slot_C], "slot": slot_C[:, None]}

    def aggregate(self, server: Tensors, uploads: Uploads) -> Tensors:
        """Align each codebook to the global one, then the weighted mean (Eq. 6-8)."""
        if self.params.upload == "dominant":
            codebook_ID, slot_C = placed_rows(uploads["row"], uploads.weights, server["codebook"])
            return server | {"codebook": codebook_ID, "permuted": slot_C != uploads["slot"][:, 0]}
        rows_CID = uploads["codebook"]
        order_CI = torch.arange(rows_CID.shape[1], device=rows_CID.device).expand(rows_CID.shape[:2])
        if self.params.align:
            order_CI = align_rows(rows_CID, server["codebook"])
            rows_CID = rows_CID.gather(1, order_CI[:, :, None].expand_as(rows_CID))
        permuted_C = (order_CI != torch.arange(order_CI.shape[1], device=order_CI.device)).any(-1)
        aligned = uploads.tensors | {"codebook": rows_CID}
        return server | uploads.means(aligned, server) | {"permuted": permuted_C}

    @property
    def averages_uploads(self) -> bool:
        """Aligned codebooks are averaged; single rows (A.6) are not."""
        return self.params.upload == "all"

    def evaluated(self, server: Tensors, clients: Clients) -> Tensors:
        """The global Q with own phi and psi; own Q where it is not federated."""
        if self.params.codebook != "federated":
            return clients.tensors
        return super().evaluated(server, clients)

    def round_log(self, server: Tensors, clients: Clients) -> dict[str, float]:
        """The alignment audit, how evenly prototypes are used (entropy in nats), and their norms."""
        usage_I = clients.means["usage"].mean(0)
        rows = server["codebook"] if self.params.codebook == "federated" else clients.params["codebook"]
        norm_I = rows.norm(dim=-1).reshape(-1, len(usage_I)).mean(0)
        log = {f"prototype_norm/{i}": float(norm) for i, norm in enumerate(norm_I)}
        log["usage_entropy"] = float(-(usage_I * usage_I.clamp(min=1e-30).log()).sum())
        if "permuted" in server:  # something has arrived
            log["permuted_share"] = float(server["permuted"].double().mean())
        return log
