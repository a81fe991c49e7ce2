"""Fed-CausalDiff: latent diffusion world models whose causal part is shared and whose confounding part stays home.

"Fed-CausalDiff", Sec. III: the transition's score is the sum of a causal score (Theta_c) and a confounding score
(Theta_s); only Theta_c travels (decoupled score sharing, DSS).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedloom.federation.method import ClientModel, Method
from fedloom.models.latent_world import LatentWorldModel


class FedCausalDiff(Method):
    """Clients share encoder, causal score and decoders; confounding score and policy heads never leave them.

    Client model, phases A, B, C and their losses are the divided latent world's. The server takes the weighted mean of
    Theta_c, and of the running moments by which latents are standardised.
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

    def __init__(self, params: Params | None = None, model: ClientModel | None = None) -> None:
        params = params or self.Params()
        weight = LatentWorldModel.Params.disentangle_weight if params.disentangle else 0.0
        divided = LatentWorldModel.Params(divided=True, align=params.align, disentangle_weight=weight)
        super().__init__(params, LatentWorldModel(divided))

    @property
    def personal(self) -> tuple[str, ...]:
        """Confounding score and policy heads."""
        return LatentWorldModel.head if self.params.sharing == "selective" else ()
