"""CRN: counterfactual recurrent networks, federated by averaging (Bica et al. 2020; baseline of Fed-CausalDiff)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from fedloom.federation.method import Clients, Method, Moment, Noise, Outcome, Phase, Step, Tensors
from fedloom.federation.optim import Adam
from fedloom.federation.stack import Bound, matching
from fedloom.federation.tasks.trajectory import Trajectories, TrajectoryTask
from fedloom.models.layers.balanced import BalancedLSTM, CounterfactualRecurrent, Widths
from fedloom.models.layers.matching import group_loss, reversal
from fedloom.models.layers.steps import masked_mean, picked_steps

ENCODED = 0.5  # share of the rounds in which the encoder learns; then it rests and the decoder learns


class CRN(Method):
    """An encoder whose representation hides the chosen action, and a decoder that foretells plans from it.

    Outcomes are 0 or 1, so that the loss is their cross-entropy and the outcome is that of the same step (the original
    regresses the next one). Dropout acts in training alone: the original averages draws of it, we use their mean
    network. The clients average the encoder in the first half of the rounds, then, the encoder at rest, the decoder;
    they send what they trained and receive both.
    """

    name = "crn"
    cite = "Bica et al. 2020, Estimating Counterfactual Treatment Outcomes over Time, Sec. 5"
    family = "trajectory"
    shared = ("",)

    @dataclass(frozen=True)
    class Params:
        """Widths are ours, so that a message is within three times Fed-CausalDiff's; the rest is the authors' code."""

        lr: float = 0.01  # encoder
        decoder_lr: float = 0.01  # the larger of their grid: half the rounds must do
        hidden: int = 64
        balanced: int = 32
        decoder_balanced: int = 32
        inner: int = 64
        keep: float = 0.9  # dropout keeps so much of state and output
        balance: bool = True  # off: the representation need not hide the action
        starts: int = 2  # steps of a sequence and minibatch from which the decoder foretells the rest; ours

    # -- one client ----------------------------------------------------------------------------------------------

    def client(self, task: TrajectoryTask) -> nn.Module:
        p = self.params
        return CounterfactualRecurrent(task, Widths(p.hidden, p.balanced, p.decoder_balanced, p.inner))

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        return (Phase("encode" if round_ < ENCODED * rounds else "decode"),)

    def selectable(self, round_: int, rounds: int) -> bool:
        """The last round alone: validation judges the encoder, which rests while the decoder learns."""
        return round_ == rounds - 1

    def steps(self, phase: Phase) -> Sequence[Step]:
        p = self.params
        if phase.name == "encode":
            masks = {"state": Noise((p.hidden,), "uniform"), "output": Noise((p.hidden,), "uniform")}
            return (Step(self.encoding, Adam(p.lr), ("encoder", "table"), name="encoder", noise=masks),)
        masks = {name: Noise((p.starts, p.balanced), "uniform") for name in ("state", "output")}
        masks["start"] = Noise((p.starts,), "uniform")
        return (Step(self.decoding, Adam(p.decoder_lr), ("decoder",), name="decoder", noise=masks),)

    def encoding(self, model: Bound, batch: Trajectories, moment: Moment) -> Outcome:
        """Cross-entropy of the logged outcomes, and of the chosen actions through a reversed gradient."""
        return model(batch, moment, method=self._encoding)

    def _encoding(self, net: CounterfactualRecurrent, batch: Trajectories, moment: Moment) -> Outcome:
        balanced = net.encode(batch, *self._kept(moment))
        strength = self._strength(moment.progress / ENCODED)
        return Outcome(_loss(net, net.encoder, balanced, batch.t, batch.y, batch.mask, strength))

    def decoding(self, model: Bound, batch: Trajectories, moment: Moment) -> Outcome:
        """The same two losses of the decoder, on the steps after some that are picked, told the real outcomes."""
        return model(batch, moment, method=self._decoding)

    def _decoding(self, net: CounterfactualRecurrent, batch: Trajectories, moment: Moment) -> Outcome:
        longest, picks = batch.t.shape[1], moment.noise["start"]
        start_BS = picked_steps(batch.mask, picks)
        later_BSK = start_BS[..., None] + torch.arange(1, max(2, longest), device=picks.device)
        at_BSK = later_BSK.clamp(max=longest - 1)

        def taken(values_BL: Tensor, at: Tensor) -> Tensor:
            return values_BL[:, None].expand(-1, picks.shape[1], -1).gather(2, at)

        inside = taken(batch.mask, at_BSK) * (later_BSK < longest)
        before = (at_BSK - 1).clamp(min=0)
        x = net.static(batch)[:, None, None].expand(*at_BSK.shape, -1)
        said = 2 * taken(batch.y, before)[..., None] - 1
        u = torch.cat([said, x, net.action(taken(batch.t, before))], -1)
        found = net.encode(batch)
        begin = found.gather(1, start_BS[..., None].expand(-1, -1, found.shape[-1]))
        balanced = net.decoder(u, begin, *self._kept(moment))
        strength = self._strength((moment.progress - ENCODED) / (1 - ENCODED))
        loss = _loss(net, net.decoder, balanced, taken(batch.t, at_BSK), taken(batch.y, at_BSK), inside, strength)
        return Outcome(loss, means={"decoded": inside.sum()})

    def _kept(self, moment: Moment) -> tuple[Tensor, Tensor]:
        """Dropout's factors for state and output: 0, or the inverse of the share that is kept."""
        state, output = ((moment.noise[n] < self.params.keep) / self.params.keep for n in ("state", "output"))
        return state, output

    def _strength(self, done: float) -> float:
        """Of the reversed gradient, when so much of a part's rounds is over."""
        return reversal(done) if self.params.balance else 0.0

    # -- what is shared ------------------------------------------------------------------------------------------

    def upload(self, clients: Clients) -> Tensors:
        """The half of the network that was trained."""
        trained = ("decoder",) if "decoded" in clients.means else ("encoder", "table")
        return {name: clients.tensors[name] for name in matching(clients.tensors, trained)}

    # -- answers to do(T = a) ------------------------------------------------------------------------------------

    @property
    def answers(self) -> CRN:
        """The method itself."""
        return self

    noise_width, potential_draws = 0, 0  # everything it says is an expectation
    reads_history = True
    source: ClassVar[Literal["partly_synthetic"]] = "partly_synthetic"

    def potentials(self, model: Bound, batch: Trajectories, actions: Tensor, noise: Tensor) -> Tensor:
        """The encoder's outcome head under each of ``actions`` [A], [B, L, A]."""
        return torch.sigmoid(model(batch, actions, method="potentials"))

    def simulate(
        self, model: Bound, batch: Trajectories, plans_PBW: Tensor, first: int, noise: Tensor, luck: Tensor
    ) -> Tensor:
        """The decoder's outcomes [P, B, M, W] under the plans, the same in every draw."""
        found_PBW: Tensor = model(batch, plans_PBW, first, method="simulate")
        return found_PBW[:, :, None].expand(-1, -1, luck.shape[1], -1)

    def generate(
        self, model: Bound, batch: Trajectories, noise: Tensor, luck_t: Tensor, luck_y: Tensor
    ) -> Trajectories:
        """The real sequences with outcomes drawn by the encoder."""
        made: Trajectories = model(batch, luck_y, method="relived")
        return made


def _loss(
    net: CounterfactualRecurrent, half: BalancedLSTM, balanced: Tensor, t: Tensor, y: Tensor, mask: Tensor, by: float
) -> Tensor:
    """Outcome's and action's cross-entropy [...] of one half of the network, means over the steps that exist."""
    outcome = bce(half.outcome(balanced, net.action(t)), y, reduction="none")
    action = group_loss(half.chosen(balanced, by), net.group(t), mask)
    return masked_mean(outcome, mask) + action
