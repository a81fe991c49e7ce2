"""FedCM: a causal model in modules, some of them learned together (Rahman and Kocaoglu 2025; a baseline of
Fed-CausalDiff).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from fedloom.federation.method import Clients, Method, Moment, Noise, Outcome, Phase, Step, Tensors
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound
from fedloom.federation.tasks.trajectory import Trajectories, TrajectoryTask
from fedloom.models.layers.mechanisms import Mechanisms, Slice, slopes, softened, softened_binary

MECHANISMS = ("context", "action", "outcome")


class FedCM(Method):
    """Mechanisms of contexts and outcomes, and the summary they read, are averaged; each client keeps its own choice.

    The authors' models are of tables; ours is of sequences, cut into steps whose graph is A_t, T_t, Y_t in this order,
    all with X and a summary of the past among their parents. Given those nothing is confounded, so that the averaged
    mechanisms are the interventional distributions; fitting a copy of them at each client to samples of themselves, the
    authors' last stage, would add nothing. WGAN-GP for every mechanism; aggregation by sample counts (the authors weigh
    by similarity of tables too).
    """

    name = "fedcm"
    cite = "Rahman and Kocaoglu 2025, Federated causal modular generative models, Sec. 4"
    family = "trajectory"
    shared = ("",)
    personal = ("action", "action_critic")

    @dataclass(frozen=True)
    class Params:
        """The authors' code, but for widths (theirs: 256) and picks, which are ours."""

        lr: float = 2e-4
        critic_lr: float = 2e-4
        width: int = 128
        summary: int = 32
        noise: int = 16  # behind a context
        picks: int = 8  # steps of a sequence and minibatch
        critic_steps: int = 3
        penalty: float = 10.0
        temperature: float = 0.2
        l2: float = 1e-5

    # -- one client ----------------------------------------------------------------------------------------------

    def client(self, task: TrajectoryTask) -> nn.Module:
        return Mechanisms(task, self.params.noise, self.params.summary, self.params.width)

    def steps(self, phase: Phase) -> Sequence[Step]:
        """The critics' steps, then the generators', on every minibatch."""
        p = self.params
        learn, judge = (Adam(lr, betas=(0.5, 0.9), l2=p.l2) for lr in (p.lr, p.critic_lr))
        draws = {"pick": Noise((p.picks,), "uniform"), "z": Noise((p.picks, p.noise))}
        draws |= {"t": Noise((p.picks, "actions"), "uniform"), "y": Noise((p.picks, 1), "uniform")}
        mixed = draws | {"mix": Noise((p.picks,), "uniform")}
        critics = tuple(f"{name}_critic" for name in MECHANISMS)
        generators = ("seen", "memory", *MECHANISMS)
        return (
            Step(
                self.criticising, judge, critics, "critics", p.critic_steps, noise=mixed, gradient="gradient_of_critics"
            ),
            Step(self.generating, learn, generators, "generators", noise=draws, gradient="gradient_of_generators"),
        )

    def criticising(self, model: Bound, batch: Trajectories, moment: Moment) -> Outcome:
        """Each critic's mean score of drawn rows less that of real ones, + the penalty on its slope."""
        return model(batch, moment.noise, method=self._criticise)

    def generating(self, model: Bound, batch: Trajectories, moment: Moment) -> Outcome:
        """Less each critic's mean score of drawn rows."""
        return model(batch, moment.noise, method=self._generate)

    def _criticise(self, net: Mechanisms, batch: Trajectories, noise: Tensors) -> Outcome:
        steps, weight = net.picked(batch, noise["pick"])
        drawn, loss = self._drawn(net, steps, noise), batch.y.new_zeros(())
        means: Tensors = {}
        for name, (parents, value) in steps.rows.items():
            critic = getattr(net, f"{name}_critic")
            real, made = torch.cat([parents, value], -1), torch.cat([parents, drawn[name]], -1)
            gap = ((critic(real) - critic(made)) * weight).sum()
            slope = slopes(critic, real, made, noise["mix"])
            loss = loss - gap + self.params.penalty * ((slope - 1).square() * weight).sum()
            means |= {f"gap_of_{name}": gap, f"slope_of_{name}": (slope * weight).sum()}
        means["real_outcomes"] = (steps.y[..., 0] * weight).sum()
        means["drawn_outcomes"] = (drawn["outcome"][..., 0] * weight).sum()
        return Outcome(loss, means=means)

    def _generate(self, net: Mechanisms, batch: Trajectories, noise: Tensors) -> Outcome:
        steps, weight = net.picked(batch, noise["pick"])
        drawn, loss = self._drawn(net, steps, noise), batch.y.new_zeros(())
        for name, (parents, _) in steps.rows.items():
            # The summary must not learn to please a critic as a parent, beside what is drawn from it.
            row = torch.cat([parents.detach(), drawn[name]], -1)
            loss = loss - (getattr(net, f"{name}_critic")(row) * weight).sum()
        return Outcome(loss)

    def _drawn(self, net: Mechanisms, steps: Slice, noise: Tensors) -> Tensors:
        """What each mechanism draws for real parents."""
        parents, by = {name: rows[0] for name, rows in steps.rows.items()}, self.params.temperature
        return {
            "context": net.drawn_context(steps.x, steps.summary, noise["z"]),
            "action": softened(net.action(parents["action"]), noise["t"], by),
            "outcome": softened_binary(net.outcome(parents["outcome"]), noise["y"], by),
        }

    # -- the server ----------------------------------------------------------------------------------------------

    def round_log(self, server: Tensors, clients: Clients) -> dict[str, float]:
        """Critics' gaps and slopes, and the share of outcomes that are 1, real and drawn: means over clients."""
        return {name: float(values.mean()) for name, values in clients.means.items()}

    # -- answers to do(T = a) ------------------------------------------------------------------------------------

    @property
    def answers(self) -> FedCM:
        """The method itself."""
        return self

    @property
    def noise_width(self) -> int:
        """Numbers of noise behind a context."""
        width: int = self.params.noise
        return width

    potential_draws = 0  # the outcome's mechanism gives its probability
    reads_history = True
    source: ClassVar[Literal["synthetic"]] = "synthetic"

    def potentials(self, model: Bound, batch: Trajectories, actions: Tensor, noise: Tensor) -> Tensor:
        """The outcome's mechanism under each of ``actions`` [A], [B, L, A]."""
        return torch.sigmoid(model(batch, actions, method="potentials"))

    def simulate(
        self, model: Bound, batch: Trajectories, plans_PBW: Tensor, first: int, noise: Tensor, luck: Tensor
    ) -> Tensor:
        """Outcome probabilities [P, B, M, W], mechanism by mechanism from the summary of the logged history."""
        return model(batch, plans_PBW, first, noise, luck, method="simulate")

    def generate(
        self, model: Bound, batch: Trajectories, noise: Tensor, luck_t: Tensor, luck_y: Tensor
    ) -> Trajectories:
        """Every mechanism in turn, actions by the client's own."""
        made: Trajectories = model(batch, noise, luck_t, luck_y, method="generate")
        return made
