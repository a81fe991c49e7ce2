"""A step may hold back clients whose loss is small already, and keep the norm of every client's gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedloom.check.problems import PROTOCOL, problem
from fedloom.federation.method import Clients, Method, Moment, Outcome, Phase, Step
from fedloom.federation.optim import Adam
from fedloom.federation.rounds import Federation, State
from fedloom.federation.stack import Bound


class Level(nn.Module):
    """One number, a start of its own, and a second one nobody gates."""

    def __init__(self, horizon: int) -> None:
        super().__init__()
        self.level, self.horizon = nn.Parameter(torch.randn(2)), horizon

    def forward(self, batch: Any) -> Tensor:
        return self.level.sum().expand(len(batch[0]), self.horizon)


class Gated(Method):
    """Pulls a number to 0, from as far as ``above`` says."""

    name = "gated"
    cite = "a test"
    family = "forecast"

    @dataclass(frozen=True)
    class Params:
        """Without ``above`` nobody is held back."""

        above: float | None = None

    def client(self, task: Any) -> nn.Module:
        return Level(task.horizon)

    def steps(self, phase: Phase) -> Sequence[Step]:
        return (Step(self.loss, Adam(0.01), ("level",), above=self.params.above, gradient="slope"),)

    def loss(self, model: Bound, batch: Any, moment: Moment) -> Outcome:
        return Outcome(model(batch, method=lambda net, _: net.level.square().sum()))

    def round_log(self, server: dict[str, Tensor], clients: Clients) -> dict[str, float]:
        return {"slope": float(clients.means["slope"].max())}


def ran(above: float | None) -> tuple[Federation, State, State]:
    """One round, and the state before it."""
    protocol = replace(PROTOCOL, rounds=1)
    federation = Federation(Gated(Gated.Params(above)), problem().task(protocol), protocol, 0)
    return federation, federation.start(), federation.run(federation.start())


def test_only_clients_above_the_mark_move_and_the_others_moments_and_counts_rest() -> None:
    _, before, free = ran(None)
    loss_C = before.params["level"].square().sum(1)
    mark = float(loss_C[:4].median())  # the fifth client has nothing to train on
    _, _, gated = ran(mark)
    rests = loss_C <= mark
    assert 0 < int(rests[:4].sum()) < 4
    moved = (gated.params["level"] != before.params["level"]).any(1)
    assert moved[:4].tolist() == (~rests[:4]).tolist()
    for kind in ("mean", "square", "count"):
        kept = gated.moments["step"][f"level/{kind}"]
        assert (kept[rests] == 0).all()
        assert (kept[:4][~rests[:4]] != 0).any(-1).all() if kept.dim() > 1 else (kept[:4][~rests[:4]] > 0).all()
    far = loss_C > mark + 0.5  # so far off that it never comes to the mark
    torch.testing.assert_close(gated.params["level"][far], free.params["level"][far], rtol=0, atol=0)


def test_gradient_norms_reach_the_log() -> None:
    _, before, state = ran(None)
    logged = [value for _, _, quantity, value in state.log if quantity == "slope"]
    steepest = float(2 * before.params["level"][:4].norm(dim=1).max())
    assert logged[0] == pytest.approx(steepest, rel=0.2)
    assert logged[0] < steepest  # the mean over minibatches that each come nearer to 0
