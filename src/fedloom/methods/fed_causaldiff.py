"""Fed-CausalDiff: latent diffusion world models whose causal part is shared and whose confounding part stays home.

"Fed-CausalDiff", Sec. III: the transition's score is the sum of a causal score (Theta_c) and a confounding score
(Theta_s); only Theta_c travels (decoupled score sharing, DSS).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from fedloom.federation.clusters import clustered
from fedloom.federation.method import ClientModel, Clients, Method, Tensors, Uploads
from fedloom.federation.stack import along, matching
from fedloom.models.latent_world import LatentWorldModel

MOMENTS = ("latent_mean", "latent_square", "change_mean", "change_square")
CAUSAL_SCORE = ("causal_score", "action_score")


class FedCausalDiff(Method):
    """Clients share encoder, causal score and decoders; confounding score and policy heads never leave them.

    Client model, phases A, B, C and their losses are the divided latent world's. The server takes the weighted mean of
    Theta_c, and of the running moments by which latents are standardised. With several clusters (ours; nothing more
    is sent for it) those moments also tell the server which clients' latents move alike, and the causal score is
    averaged among these alone; a client that has not been heard of yet receives the mean of all.
    """

    name = "fed_causaldiff"
    cite = "Fed-CausalDiff: Federated causal diffusion world models, Sec. III"
    family = "trajectory"
    shared = ("",)

    @dataclass(frozen=True)
    class Params:
        """The paper gives no learning rate; the switches are its ablations and the literal reading of one loss."""

        lr: float = 2e-3  # ours: Adam, decoders and scores alike
        sharing: Literal["selective", "full"] = "selective"  # full: w/o DSS, everything is averaged
        disentangle: bool = True  # off: w/o L_dis
        align: Literal["before", "literal"] = "before"
        clusters: int = 1  # among whose clients the causal score is shared

    def __init__(self, params: Params | None = None, model: ClientModel | None = None) -> None:
        params = params or self.Params()
        weight = LatentWorldModel.Params.disentangle_weight if params.disentangle else 0.0
        divided = LatentWorldModel.Params(divided=True, align=params.align, disentangle_weight=weight)
        super().__init__(params, LatentWorldModel(divided))

    @property
    def personal(self) -> tuple[str, ...]:
        """Confounding score and policy heads."""
        return LatentWorldModel.head if self.params.sharing == "selective" else ()

    # -- the server, where clients are clustered -----------------------------------------------------------------

    @property
    def averages_uploads(self) -> bool:
        """All of them, but where clusters are made of moments as they came."""
        return self.params.clusters == 1

    def server(self, task: Any, start: Tensors) -> Tensors:
        """What is shared; for clusters also each one's causal score, each client's cluster and its last moments."""
        server, clusters, clients = super().server(task, start), self.params.clusters, len(task.ids)
        if clusters == 1:
            return server
        server["cluster_of"] = torch.full((clients,), -1, device=task.device)
        server["moments_of"] = start[MOMENTS[0]].new_zeros((clients, sum(len(start[name]) for name in MOMENTS)))
        scores = {f"of_clusters/{n}": start[n].expand(clusters, *start[n].shape).clone() for n in self._score(start)}
        return server | scores

    def aggregate(self, server: Tensors, uploads: Uploads) -> Tensors:
        """Means of all; for clusters, all clients that were ever heard of are clustered anew, and means within each."""
        server = server | uploads.means(uploads.tensors, server)
        if self.params.clusters == 1:
            return server
        moments, of = server["moments_of"].clone(), server["cluster_of"].clone()
        moments[uploads.positions] = torch.cat([uploads[name] for name in MOMENTS], 1)
        heard = of >= 0
        heard[uploads.positions] = True
        of[heard] = clustered(moments[heard], self.params.clusters, of[heard])
        for name in self._score(uploads.tensors):
            scores = server[f"of_clusters/{name}"].clone()
            for cluster in range(len(scores)):
                own = of[uploads.positions] == cluster
                if bool(own.any()):
                    theirs = replace(uploads, weights=uploads.weights[own])
                    scores[cluster] = theirs.means({name: uploads[name][own]}, {name: scores[cluster]})[name]
            server[f"of_clusters/{name}"] = scores
        return server | {"moments_of": moments, "cluster_of": of}

    def download(self, server: Tensors, clients: Clients) -> Tensors:
        """What is shared, with the causal score of each client's own cluster."""
        received = super().download(server, clients)
        if self.params.clusters == 1:
            return received
        of = server["cluster_of"][clients.positions]
        for name in self._score(received):
            own, everyones = server[f"of_clusters/{name}"][of.clamp(min=0)], received[name]
            received[name] = torch.where(along(of >= 0, own), own, everyones)
        return received

    def round_log(self, server: Tensors, clients: Clients) -> dict[str, float]:
        """For clusters, how many clients the largest one has."""
        if self.params.clusters == 1:
            return {}
        of = server["cluster_of"]
        return {"largest_cluster": float(of[of >= 0].bincount(minlength=1).max())}

    def _score(self, tensors: Tensors) -> list[str]:
        return [name for name in matching(tensors, CAUSAL_SCORE) if name in self.travelling(tensors)]
