"""CLUB: an upper bound of the information that one code holds about another (Cheng et al. 2020, Sec. 3)."""

from __future__ import annotations

from torch import Tensor, nn


def _mlp(width: int, hidden: int, *last: nn.Module) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, width), *last
    )


class Club(nn.Module):
    """A Gaussian guess q(y | x) of ``y`` [B, D] from ``x`` [B, D]; means count samples with ``valid`` [B] 1."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.mean = _mlp(width, hidden)
        self.log_variance = _mlp(width, hidden, nn.Tanh())

    def misfit(self, x_BD: Tensor, y_BD: Tensor, valid_B: Tensor) -> Tensor:
        """-2 log q(y | x) without its constant: what fitting the guess lowers."""
        spread_BD = self.log_variance(x_BD)
        misfit_B = ((self.mean(x_BD) - y_BD).square() * (-spread_BD).exp() + spread_BD).sum(-1)
        return (misfit_B * valid_B).sum() / valid_B.sum().clamp(min=1)

    def bound(self, x_BD: Tensor, y_BD: Tensor, valid_B: Tensor) -> Tensor:
        """Mean of log q(y_i | x_i) less the mean of log q(y_j | x_i) over all pairs (Eq. 8)."""
        count = valid_B.sum().clamp(min=1)
        mean_D = (y_BD * valid_B[:, None]).sum(0) / count
        square_D = (y_BD.square() * valid_B[:, None]).sum(0) / count
        guess_BD, precision_BD = self.mean(x_BD), (-self.log_variance(x_BD)).exp()
        other_BD = guess_BD.square() - 2 * guess_BD * mean_D + square_D
        own_BD = (guess_BD - y_BD).square()
        bound_B = ((other_BD - own_BD) * precision_BD).sum(-1) / 2
        return (bound_B * valid_B).sum() / count
