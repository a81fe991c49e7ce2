"""What the noise on uploads promises: (epsilon, delta) of a whole client, from the noise and clipping of its uploads.

Protected is all that a client has: two federations that differ in the whole data of one client, and in nothing else,
are told apart from what is released no better than epsilon and delta allow. An upload lies within ``clip`` of what the
server holds, which all know, so that other data move it by at most twice that. Rounds compose, and each may depend on
those before. Not protected, since they are used as they are: how many samples a client has, and the validation scores
by which a round is selected.
"""

from __future__ import annotations

import math

import numpy as np
from dp_accounting import (
    GaussianDpEvent,
    NeighboringRelation,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    get_epsilon_gaussian,
)
from dp_accounting.rdp import RdpAccountant
from numpy.typing import NDArray

from fedloom.federation.upload_noise import UploadNoise

MOVED = 2.0  # clips: how far one upload may lie from another


def epsilon_of_uploads(noise: UploadNoise, uploads: int, delta: float) -> float:
    """Return epsilon against a server that sees each of a client's ``uploads``; infinite where nothing is promised.

    Exact: several Gaussian releases tell as much as one with less noise (Dong, Roth and Su 2022, Sec. 3), whose epsilon
    has a closed form (Balle and Wang 2018, Theorem 8). Who sends is no secret to the server.
    """
    if not uploads:
        return 0.0
    return _of_gaussians(_multiplier(noise) / math.sqrt(uploads), delta)


def epsilon_of_means(
    noise: UploadNoise, samples_C: NDArray[np.int64], joining: int, rounds: int, delta: float
) -> float:
    """Return epsilon against one who sees no upload but the weighted mean of each round's, as of a sum that is trusted.

    Clients weigh as their ``samples_C``. Of them ``joining`` are drawn each round, without replacement and in secret,
    which hides a client in the rounds that it does not join (Wang, Balle and Kasiviswanathan 2019, an upper bound).
    Where clients weigh unequally, the promise is to the heaviest beside the lightest others.
    """
    weights = np.sort(samples_C.astype(np.float64))
    multiplier = _multiplier(noise) * math.sqrt(float((weights[:joining] ** 2).sum())) / float(weights[-1])
    known = _of_gaussians(multiplier / math.sqrt(rounds), delta)
    if joining == len(weights) or not 0 < known < math.inf:
        return known
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    drawn = SampledWithoutReplacementDpEvent(len(weights), joining, GaussianDpEvent(multiplier))
    hidden: float = accountant.compose(SelfComposedDpEvent(drawn, rounds)).get_epsilon(delta)
    return min(known, hidden)


def _multiplier(noise: UploadNoise) -> float:
    """Deviation of the noise over how far other data can move an upload; 0 where nothing is promised."""
    if noise.kind != "gaussian" or noise.clip is None:
        return 0.0
    return noise.scale / (MOVED * noise.clip)


def _of_gaussians(multiplier: float, delta: float) -> float:
    return float(get_epsilon_gaussian(multiplier, delta))
