"""Fed-CausalDiff: latent diffusion world models whose causal part is shared and whose confounding part stays home.

"Fed-CausalDiff", Sec. III: the transition's score is the sum of a causal score (Theta_c) and a confounding score
(Theta_s); only Theta_c travels (decoupled score sharing, DSS).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from fedloom.federation.method import ClientModel, Clients, Method, Moment, Phase, Step
from fedloom.federation.stack import Bound, matching
from fedloom.federation.tasks.trajectory import Trajectories, TrajectoryTask
from fedloom.models.latent_world import LatentWorldModel


class FedCausalDiff(Method):
    """Clients share encoder, causal score and decoders; confounding score and policy heads never leave them."""

    name = "fed_causaldiff"
    cite = "Fed-CausalDiff: Federated causal diffusion world models, Sec. III"
    family = "trajectory"

    @dataclass(frozen=True)
    class Params:
        """The paper gives no learning rate; the switches are its ablations and the literal reading of one loss."""

        lr: float = 2e-3  # ours: Adam, decoders and scores alike
        sharing: Literal["selective", "full"] = "selective"  # full: w/o DSS, everything is averaged
        disentangle: bool = True  # off: w/o L_dis
        align: Literal["before", "literal"] = "before"

    def __init__(self, params: Params | None = None, model: ClientModel | None = None) -> None:
        super().__init__(params, model)
        settings = LatentWorldModel.Params(divided=True, align=self.params.align)
        if not self.params.disentangle:
            settings = LatentWorldModel.Params(divided=True, align=self.params.align, disentangle_weight=0.0)
        self.world = LatentWorldModel(settings)

    # -- one client: a divided latent world, trained in phases A, B, C ---------------------------------------------

    def client(self, task: TrajectoryTask) -> nn.Module:
        """Encoder to K = [kc, ks], causal and confounding score, decoders."""
        return self.world.build(task)

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        """Representation, then dynamics beside it, then the decoder on sampled latents."""
        return self.world.phases(round_, rounds)

    def steps(self, phase: Phase) -> Sequence[Step]:
        """A, B, C of the phase, each with its own optimiser."""
        return self.world.steps(phase, self.params.lr)

    def selectable(self, round_: int, rounds: int) -> bool:
        """Only rounds whose dynamics have been trained."""
        return self.world.selectable(round_, rounds)

    def predict(self, model: Bound, batch: Trajectories, moment: Moment) -> Tensor:
        """Logits of the logged outcomes, [B, L]."""
        return model(batch)

    @property
    def answers(self) -> LatentWorldModel:
        """The world that is asked for potentials and simulations."""
        return self.world

    # -- what is shared: Theta_c -----------------------------------------------------------------------------------

    def _shared(self, tensors: dict[str, Tensor]) -> list[str]:
        kept = matching(tensors, self.world.head) if self.params.sharing == "selective" else []
        return [name for name in tensors if name not in kept]

    def upload(self, clients: Clients) -> dict[str, Tensor]:
        """Theta_c, and the running moments by which latents are standardised."""
        return {name: clients.tensors[name] for name in self._shared(clients.tensors)}

    # -- the server: weighted mean of Theta_c ----------------------------------------------------------------------

    def server(self, task: TrajectoryTask, start: dict[str, Tensor]) -> dict[str, Tensor]:
        """The server's own draw of Theta_c."""
        return {name: start[name] for name in self._shared(start)}

    def download(self, server: dict[str, Tensor], clients: Clients) -> dict[str, Tensor]:
        """Theta_c, the same for every client."""
        return {name: value.expand(len(clients), *value.shape) for name, value in server.items()}
