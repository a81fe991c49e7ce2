"""The simulator that the oracle learns from: students who practise items of five concepts and improve by it.

A three-parameter logistic response (guessing 0.1) with practice that helps most at items near one's ability. Items come
uniformly at random, so that what is learnt from the log holds for every order of items. (In the simulated files that
Piech et al. publish with "Deep knowledge tracing" (2015), all students meet the items in one order: there, item and
position are one thing, and any other order is extrapolation.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from fedloom.data.trajectories.dkt.noise import Array, Ints, normal, uniform

CONCEPTS = 5
COVARIATES = 4
GUESSING = 0.1
PRACTICE = 0.2  # gain of ability by one item at one's own level, halved where the answer is wrong


@dataclass(frozen=True)
class Items:
    """What the simulator knows of J items and of the covariates.

    difficulty, discrimination: [J]; the concept of item j is j modulo CONCEPTS.
    mixing: [CONCEPTS, COVARIATES], how initial ability shows in the covariates.
    """

    difficulty: Array
    discrimination: Array
    mixing: Array


@dataclass(frozen=True)
class Students:
    """Simulated records of N students: covariates x [N, COVARIATES], items t and answers y [N, L]."""

    x: Array
    t: Ints
    y: Ints


def draw_items(seed: int, items: int = 50) -> Items:
    """Return the items of one simulator."""
    return Items(
        difficulty=normal(seed, "difficulty", range(items)),
        discrimination=0.8 + 0.6 * uniform(seed, "discrimination", range(items)),
        mixing=normal(seed, "mixing", range(CONCEPTS), COVARIATES),
    )


def abilities(seed: int, units: Ints) -> Array:
    """Return initial abilities [N, CONCEPTS]: a part of each concept's own and a part common to all."""
    own, common = normal(seed, "ability", units, CONCEPTS), normal(seed, "common ability", units, 1)
    return 0.7 * own + 0.7 * common


def covariates(seed: int, units: Ints, ability: Array, mixing: Array) -> Array:
    """Return covariates [N, COVARIATES] that show initial ability with noise; mean 0 and variance 1 in the population.

    Values are float32 numbers (cast up), so that covariates read back from a file are these to the last bit.
    """
    law = 0.49 * (np.eye(CONCEPTS) + np.ones((CONCEPTS, CONCEPTS)))
    spread = np.sqrt(1.44 / CONCEPTS * np.einsum("ik,ij,jk->k", mixing, law, mixing) + 0.25)
    # A sum in fixed order: a matrix product may round differently for other numbers of rows.
    shown = sum(ability[:, c, None] * mixing[c] for c in range(CONCEPTS))
    noise = normal(seed, "covariates", units, COVARIATES)
    raw = (1.2 / np.sqrt(CONCEPTS) * shown + 0.5 * noise) / spread
    return raw.astype(np.float32).astype(np.float64)


def simulate(items: Items, seed: int, units: Ints, length: int) -> Students:
    """Return the records of the students ``units`` over ``length`` random items each."""
    ability = abilities(seed, units)
    x = covariates(seed, units, ability, items.mixing)
    t = (uniform(seed, "item", units, length) * len(items.difficulty)).astype(np.int64)
    luck = uniform(seed, "answer", units, length)
    y = np.zeros_like(t)
    rows = np.arange(len(units))
    for step in range(length):
        item = t[:, step]
        concept = item % CONCEPTS
        gap = ability[rows, concept] - items.difficulty[item]
        y[:, step] = luck[:, step] < GUESSING + (1 - GUESSING) * expit(items.discrimination[item] * gap)
        ability[rows, concept] += PRACTICE * np.exp(-(gap**2) / 2) * (0.5 + 0.5 * y[:, step])
    return Students(x, t, y)
