"""Value of following a policy through a whole window (Precup 2000; Jiang and Li 2016), no discount, reward y / W.

For S sequences of at most W steps: step ratio ρ_t, product ρ_{1:t}, return G = Σ r_t. Beyond its own window a sequence
rests: ratio 1, reward 0. Trajectory IPS mean ρ_{1:W} G; WIS Σ ρ_{1:W} G / Σ ρ_{1:W}; per-decision IPS mean Σ_t ρ_{1:t}
r_t; PDWIS Σ_t (Σ ρ_{1:t} r_t / Σ ρ_{1:t}); per-decision DR mean V_1 of the recursion below. DM is mean V̂(H_1). With
W = 1 these are IPS, SNIPS, IPS, SNIPS, DR and DM of single steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.evaluation.offpolicy.log import Window
from fedloom.evaluation.offpolicy.policies import Policy, plan
from fedloom.evaluation.offpolicy.steps import Estimator, Sums, ratio
from fedloom.evaluation.offpolicy.weights import Clipping, weigh

Floats = NDArray[np.float64]

SEQUENCE_ESTIMATORS: dict[str, Estimator] = {
    "dm": lambda s: ratio(s["v"], s["rows"]),
    "ips": lambda s: ratio(s["wg"], s["rows"]),
    "wis": lambda s: ratio(s["wg"], s["w"]),
    "pdis": lambda s: ratio(s["pd"].sum(-1), s["rows"]),
    "pdwis": lambda s: ratio(s["pd"], s["pw"]).sum(-1),
    "pddr": lambda s: ratio(s["dr"], s["rows"]),
}


@dataclass(frozen=True)
class Followed:
    """How far logged sequences follow a policy: step ratio and reward [S, W], and where a bound clipped a ratio.

    Beyond its window (``inside_SW`` false) a sequence that followed the policy keeps the ratio 1, another 0.
    """

    ratio_SW: Floats
    reward_SW: Floats
    inside_SW: NDArray[np.bool_]
    clipped_S: NDArray[np.bool_]

    @property
    def product_SW(self) -> Floats:
        """ρ_{1:t}, summed as logarithms: fifty small propensities would leave the range of a float otherwise."""
        with np.errstate(divide="ignore"):
            products: Floats = np.exp(np.cumsum(np.log(self.ratio_SW), axis=1))
        return products

    @property
    def weight_S(self) -> Floats:
        """ρ_{1:W} of the whole window; 0 where the policy was left somewhere."""
        return self.product_SW[:, -1]


def follow(part: Window, policy: Policy, clipping: Clipping) -> Followed:
    """Return how far the sequences of ``part`` follow ``policy``. InputError for an impossible propensity."""
    chosen = part.chosen_SW == plan(policy, part.width_S, part.chosen_SW.shape[1])
    # Behind the first departure nothing counts, whatever the propensities there.
    ever = np.logical_and.accumulate(chosen | ~part.inside_SW, axis=1)
    still = np.concatenate([np.ones_like(ever[:, :1]), ever[:, :-1]], axis=1) & part.inside_SW
    target_SW = (ever & part.inside_SW).astype(np.float64)
    weights = weigh(target_SW, part.propensity_SW, clipping, still.sum(axis=0))
    ratio_SW = np.where(part.inside_SW, weights.weight, ever.astype(np.float64))
    reward_SW = np.where(part.inside_SW, part.outcome_SW, 0.0) / part.width_S[:, None]
    return Followed(ratio_SW, reward_SW, part.inside_SW, weights.clipped.any(axis=1) & ever[:, -1])


def recursion(followed: Followed, q_SW: Floats, v_SW: Floats) -> Floats:
    """Return V_1 [S] of V_t = V̂_t + ρ_t (r_t + V_{t+1} - Q̂_t), V_{W+1} = 0, with Q̂ of the logged action."""
    v_S = np.zeros(len(q_SW))
    for t in reversed(range(q_SW.shape[1])):
        v_S = v_SW[:, t] + followed.ratio_SW[:, t] * (followed.reward_SW[:, t] + v_S - q_SW[:, t])
    return v_S


def _before(product_SW: Floats) -> Floats:
    """ρ_{1:t-1}, which is 1 before the first step."""
    return np.concatenate([np.ones((len(product_SW), 1)), product_SW[:, :-1]], axis=1)


def sequence_terms(followed: Followed, v_SW: Floats | None = None) -> Sums:
    """Return what each of S sequences adds to the sums of ``SEQUENCE_ESTIMATORS``; without ``v_SW`` no DM and no DR.

    ``v_SW`` is V̂(H_t), the model's value of following the policy from step t on, as a sum of rewards y / W. It is read
    only where the sequence followed the policy up to t - 1 and may be NaN elsewhere. The policies are deterministic, so
    where a step follows the policy Q̂(H_t, a_t) is V̂(H_t), and where it does not its ratio is 0.
    """
    product_SW = followed.product_SW
    weight_S = product_SW[:, -1]
    terms = {"rows": np.ones(len(weight_S)), "w": weight_S, "wg": weight_S * followed.reward_SW.sum(axis=1)}
    terms |= {"pd": product_SW * followed.reward_SW, "pw": product_SW}
    if v_SW is not None:
        read_SW = np.where((_before(product_SW) > 0) & followed.inside_SW, v_SW, 0.0)
        terms |= {"v": v_SW[:, 0], "dr": recursion(followed, read_SW, read_SW)}
    return terms
