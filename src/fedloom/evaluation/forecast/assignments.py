"""What prototypes make of the test part: how much each client uses them, and every window of a few clients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedloom.evaluation.forecast.stream import Forecasts
from fedloom.federation.tasks.forecast import ForecastTask

WATCHED = 5  # clients of whom all windows are kept (Atlas, Sec. 5.4, draws five stations)
LATENTS = 150  # windows of each of them whose latent vector is kept, evenly through the part


class Assignments:
    """Hears forecasts whose ``diagnostics`` hold ``weights`` [C, B, I] of prototypes and ``latent`` vectors [C, B, D].

    The watched clients are those at the middle of each fifth of all clients, in the order of their mean reading in the
    training part: a rule that sees no forecast.
    """

    def __init__(self, task: ForecastTask) -> None:
        clients, windows = task.starts["test"].shape
        order = task.mean.argsort(stable=True)
        places = sorted({clients * (2 * k + 1) // (2 * WATCHED) for k in range(WATCHED)})
        self.watched_K = order[places]
        self.shown_L = torch.arange(min(LATENTS, windows), device=task.device) * windows // min(LATENTS, windows)
        self.windows = windows
        self.kept: dict[str, Tensor] = {}
        self.count_C = torch.zeros(clients, dtype=torch.float64, device=task.device)

    def add(self, some: Forecasts) -> None:
        """Take in the windows of ``some``."""
        w_CBI, z_CBD = some.diagnostics["weights"], some.diagnostics["latent"]
        if not self.kept:
            count, width = len(self.watched_K), z_CBD.shape[-1]
            self.kept = {
                "usage": w_CBI.new_zeros((len(w_CBI), w_CBI.shape[-1]), dtype=torch.float64),
                "weights": w_CBI.new_full((count, self.windows, w_CBI.shape[-1]), torch.nan),
                "latents": z_CBD.new_full((count, self.windows, width), torch.nan),
            }
        real_CB = some.window_CB >= 0
        self.kept["usage"] += (w_CBI.double() * real_CB[..., None]).sum(1)
        self.count_C += real_CB.sum(1)
        for name, values in (("weights", w_CBI), ("latents", z_CBD)):
            client, place = real_CB[self.watched_K].nonzero(as_tuple=True)
            row = self.watched_K[client]
            self.kept[name][client, some.window_CB[row, place]] = values[row, place]

    def arrays(self, codebook_CID: Tensor) -> dict[str, NDArray[Any]]:
        """Return what is kept of what was heard; ``codebook_CID`` are the clients' prototypes.

        ``usage`` [C, I]: mean weight of each prototype; ``watched`` [K]: places of the watched clients, and of these
        ``weights`` [K, W, I], ``latents`` [K, L, D] of the windows ``latent_windows`` [L], and ``prototypes``
        [K, I, D]. NaN stands for a window that a client does not have.
        """
        found = {
            "usage": self.kept["usage"] / self.count_C.clamp(min=1)[:, None],
            "watched": self.watched_K.to(torch.int32),
            "weights": self.kept["weights"],
            "latents": self.kept["latents"][:, self.shown_L],
            "latent_windows": self.shown_L.to(torch.int32),
            "prototypes": codebook_CID[self.watched_K],
        }
        single = {name: value.float() if value.is_floating_point() else value for name, value in found.items()}
        return {name: np.ascontiguousarray(value.cpu().numpy()) for name, value in single.items()}
