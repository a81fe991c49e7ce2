"""Privacy of noisy uploads: more noise promises more, more rounds less, and one round is the closed form."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from fedloom.evaluation.privacy import epsilon_of_means, epsilon_of_uploads
from fedloom.federation.upload_noise import UploadNoise

DELTA = 1e-5
EQUAL = np.full(40, 100)

scales = st.floats(0.02, 20)
clips = st.floats(0.05, 5)


def closed_form(multiplier: float) -> float:
    """Epsilon of one Gaussian release (Balle and Wang 2018, Eq. 6), by a root of its delta."""

    def excess(epsilon: float) -> float:
        upper = norm.cdf(0.5 / multiplier - epsilon * multiplier)
        lower = math.exp(epsilon) * norm.cdf(-0.5 / multiplier - epsilon * multiplier)
        return float(upper - lower) - DELTA

    return float(brentq(excess, 0, 200))


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 3.0])
def test_one_upload_has_the_epsilon_of_the_closed_form(multiplier: float) -> None:
    noise = UploadNoise("gaussian", 2 * 0.7 * multiplier, 0.7)
    assert epsilon_of_uploads(noise, 1, DELTA) == pytest.approx(closed_form(multiplier), rel=1e-6)
    assert epsilon_of_means(noise, np.array([5]), 1, 1, DELTA) == pytest.approx(closed_form(multiplier), rel=1e-6)


@settings(max_examples=30, deadline=None)
@given(scales, clips, st.integers(1, 60))
def test_more_noise_promises_more_and_more_uploads_less(scale: float, clip: float, uploads: int) -> None:
    noise = UploadNoise("gaussian", scale, clip)
    epsilon = epsilon_of_uploads(noise, uploads, DELTA)
    assert epsilon_of_uploads(replace(noise, scale=1.1 * scale), uploads, DELTA) < epsilon
    assert epsilon_of_uploads(noise, uploads + 1, DELTA) > epsilon
    assert epsilon_of_uploads(replace(noise, clip=1.1 * clip), uploads, DELTA) > epsilon
    assert epsilon_of_uploads(noise, uploads, DELTA / 10) > epsilon


@settings(max_examples=5, deadline=None)
@given(st.floats(0.2, 5), st.integers(1, 20))
def test_a_mean_tells_less_than_the_uploads_behind_it_and_less_still_where_few_join(scale: float, rounds: int) -> None:
    noise = UploadNoise("gaussian", scale, 0.5)
    means = epsilon_of_means(noise, EQUAL, len(EQUAL), rounds, DELTA)
    assert means < epsilon_of_uploads(noise, rounds, DELTA)
    drawn = epsilon_of_means(noise, EQUAL, 8, rounds, DELTA)
    assert drawn <= epsilon_of_means(noise, EQUAL[:8], 8, rounds, DELTA)
    assert drawn <= epsilon_of_means(noise, EQUAL, 8, rounds + 1, DELTA)


def test_sharing_a_round_with_few_of_many_hides_a_client() -> None:
    noise = UploadNoise("gaussian", 3.0, 0.5)
    assert epsilon_of_means(noise, np.full(1000, 7), 8, 5, DELTA) < epsilon_of_means(noise, EQUAL[:8], 8, 5, DELTA) / 5


def test_a_client_that_weighs_more_is_promised_less() -> None:
    noise = UploadNoise("gaussian", 1.0, 0.5)
    heavy = np.array([*EQUAL, 300])
    assert epsilon_of_means(noise, heavy, 41, 3, DELTA) > epsilon_of_means(noise, np.full(41, 100), 41, 3, DELTA)


@pytest.mark.parametrize(
    "noise",
    [UploadNoise("laplace", 1.0, 1.0), UploadNoise("gaussian", 1.0), UploadNoise("gaussian", 0.0, 1.0)],
    ids=["another kind", "not clipped", "no noise"],
)
def test_nothing_is_promised_but_by_gaussian_noise_on_clipped_uploads(noise: UploadNoise) -> None:
    assert epsilon_of_uploads(noise, 3, DELTA) == math.inf
    assert epsilon_of_means(noise, EQUAL, 8, 3, DELTA) == math.inf
    assert epsilon_of_uploads(noise, 0, DELTA) == 0
