"""What the latent world minimises, where the answer is known in closed form."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedloom.check.problems import trajectory_problem
from fedloom.federation.method import Moment
from fedloom.federation.tasks.trajectory import Trajectories
from fedloom.models.latent_world import PICKS, LatentWorldModel
from fedloom.models.layers.diffusion import Noise
from fedloom.models.layers.latent import LatentWorld, Now, Widths

SEQUENCES, STEPS, LEVELS, DRIFT, SPREAD = 4000, 5, 100, 0.3, 2.0


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Walk(LatentWorld):
    """A world whose latents are a random walk of Gaussian steps, and whose score is told how noise is predicted.

    A standardised step z0 ~ N(0, 1) noised to z = sqrt(s) z0 + sqrt(1 - s) e has E[e | z] = sqrt(1 - s) z.
    """

    knows: float = 1.0

    def encode(self, batch: Trajectories) -> Tensor:
        return (DRIFT + SPREAD * draw(*batch.t.shape, self.widths.latent)).cumsum(1)

    def scorer(self, now: Now, t: Tensor) -> Noise:
        return lambda noised, level: self.knows * (1 - self.share[level]).sqrt()[..., None] * noised


def loss(knows: float) -> float:
    """The denoising loss of the walk over all noise levels alike."""
    problem = trajectory_problem().task()
    world = Walk(problem, Widths(), True, LEVELS).double()
    world.knows = knows
    world.change_mean.fill_(DRIFT)
    world.change_square.fill_(DRIFT**2 + SPREAD**2)
    batch = Trajectories(
        x=draw(SEQUENCES, 2),
        x_code=torch.zeros(SEQUENCES, 0, dtype=torch.int64),
        a=draw(SEQUENCES, STEPS, 2),
        t=torch.zeros(SEQUENCES, STEPS, dtype=torch.int64),
        y=torch.ones(SEQUENCES, STEPS, dtype=torch.float64),
        mask=torch.ones(SEQUENCES, STEPS, dtype=torch.float64),
        valid=torch.ones(SEQUENCES, dtype=torch.float64),
    )
    picks = SEQUENCES * PICKS
    even = ((torch.arange(picks, dtype=torch.float64) + 0.5) / picks).reshape(SEQUENCES, PICKS)
    shuffled = even[torch.randperm(SEQUENCES, generator=torch.Generator().manual_seed(1))]
    noise = {"pick": shuffled, "level": even, "other": even, "noise": draw(SEQUENCES, PICKS, 48, seed=2)}
    model = LatentWorldModel(LatentWorldModel.Params(divided=True, levels=LEVELS, consistency_weight=0.0))
    return model._move(world, batch, Moment({}, noise)).loss.item()


def test_the_denoising_loss_of_a_perfect_score_is_the_noise_that_nobody_can_know() -> None:
    share = Walk(trajectory_problem().task(), Widths(), True, LEVELS).share.double()
    assert loss(knows=1.0) == pytest.approx(share.mean().item(), abs=4e-3)


def test_a_score_that_says_nothing_loses_the_variance_of_the_noise_and_half_a_score_lies_between() -> None:
    share = Walk(trajectory_problem().task(), Widths(), True, LEVELS).share.double()
    assert loss(knows=0.0) == pytest.approx(1.0, abs=4e-3)
    # E (e - k sqrt(1 - s) z)^2 = 1 - (2k - k^2)(1 - s) for z of unit variance.
    assert loss(knows=0.5) == pytest.approx(1 - 0.75 * (1 - share.mean().item()), abs=4e-3)
