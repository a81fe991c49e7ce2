"""What would have happened: the oracle's answer to any action sequence or policy, after any logged beginning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedloom.data.trajectories.dkt.noise import Array, Ints, uniform
from fedloom.data.trajectories.dkt.world import Moment, Students, World
from fedloom.errors import InputError

# The item given in the first half of a window (the larger where it is odd), and in the second.
POLICIES = {"never": ("off", "off"), "always": ("on", "on"), "early_on": ("on", "off"), "late_on": ("off", "on")}
BATCH = 512  # rows that go through time together; larger batches leave the processor's cache


def plan(world: World, policy: str, steps: int) -> Ints:
    """Return the items [steps] of one of ``POLICIES`` over a window."""
    first, second = (getattr(world, name) for name in POLICIES[policy])
    return np.where(np.arange(steps) < (steps + 1) // 2, first, second)


class Policy(Protocol):
    """A rule that may look at the context; ``rows`` [n] are positions among the units of the rollout."""

    def __call__(self, step: int, rows: Ints, context: Array) -> Ints:
        """Return the items [n] of step ``step`` (from 0) at contexts [n]."""
        ...


@dataclass(frozen=True)
class Prefix:
    """What is already history: items and answers [N, S] of the first S steps."""

    t: Ints
    y: Ints


@dataclass(frozen=True)
class Rollout:
    """Steps S to L of N units, each [N, L - S]: context, item, answer and the answer's probability."""

    a: Array
    t: Ints
    y: NDArray[np.bool_]
    p: Array


def rollout(
    world: World,
    units: Ints,
    actions: Ints | Policy,
    *,
    prefix: Prefix | None = None,
    noise: Array | None = None,
    batch: int = BATCH,
) -> Rollout:
    """Return what follows ``prefix`` when ``actions`` are taken.

    units: ids [N], which may repeat. actions: items [L - S] or [N, L - S], or a policy, which runs to the world's
    length. noise: uniform draws [N, L - S] that answers are thresholds of; without them each unit's own, as in the log.
    batch: units that go through time together; it changes speed and memory, never a result. Raises InputError for an
    item that the world does not have, padding included.
    """
    begun = 0 if prefix is None else prefix.t.shape[1]
    steps = world.settings.length - begun if callable(actions) else np.shape(actions)[-1]
    fixed = np.broadcast_to(0 if callable(actions) else _known(world, actions), (len(units), steps))
    shape = len(units), steps
    result = Rollout(np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.bool_), np.empty(shape))
    for rows in batches(len(units), batch):
        students = world.students(units[rows])
        moment = world.start(students)
        if prefix is not None:
            moment = follow(world, moment, prefix.t[rows], prefix.y[rows])
        draws = own_noise(world, students.units, begun + steps)[:, begun:] if noise is None else noise[rows]
        for step in range(steps):
            result.a[rows, step] = moment.context
            item = actions(begun + step, rows, moment.context) if callable(actions) else fixed[rows, step]
            moment, result.p[rows, step], result.y[rows, step] = meet(world, students, moment, item, draws[:, step])
            result.t[rows, step] = item
    return result


def potentials(
    world: World, units: Ints, logged: Prefix, items: Ints | None = None, batch: int = BATCH
) -> NDArray[np.float32]:
    """Return p(right answer | logged history before the step, do(item)), [N, L, len(items)], at every logged step.

    items: which ones, all J unless given. No Monte Carlo: these are the oracle's own numbers, rounded to float32.
    """
    chosen = np.arange(world.oracle.items) if items is None else _known(world, items)
    _known(world, logged.t)
    result = np.empty((*logged.t.shape, len(chosen)), dtype=np.float32)
    for rows in batches(len(units), batch):
        students = world.students(units[rows])
        moment = world.start(students)
        for step in range(logged.t.shape[1]):
            result[rows, step] = world.potentials(moment, students, np.broadcast_to(chosen, (len(rows), len(chosen))))
            moment = world.answer(moment, logged.t[rows, step], logged.y[rows, step] == 1)
    return result


def window_values(
    world: World, units: Ints, prefix: Prefix, steps: int, draws: int, *, stream: str = "draw", batch: int = BATCH
) -> Array:
    """Return the mean of p(right answer) over the ``steps`` steps after ``prefix``, [P, N, draws].

    One row for each of ``POLICIES``, which all meet the same noise: draw m of a unit is keyed by (seed, stream, unit)
    and does not depend on how many draws there are. Another stream gives draws that are independent of these.
    """
    half = (steps + 1) // 2
    items = {"off": world.off, "on": world.on}
    result = np.empty((len(POLICIES), len(units), draws))
    for outer in batches(len(units), batch):
        students = world.students(units[outer])
        logged = follow(world, world.start(students), prefix.t[outer], prefix.y[outer])
        for rows in batches(len(outer), max(1, batch // draws)):
            copies = np.repeat(rows, draws)
            many, moment = students.take(copies), logged.take(copies)
            noise = uniform(world.settings.seed, stream, students.units[rows], draws, steps).reshape(-1, steps)
            # Policies that begin alike share their first half.
            halfway = {name: _hold(world, many, moment, item, noise[:, :half]) for name, item in items.items()}
            for policy, (first, second) in enumerate(POLICIES.values()):
                between, earlier = halfway[first]
                _, later = _hold(world, many, between, items[second], noise[:, half:])
                result[policy, outer[rows]] = (earlier + later).reshape(-1, draws) / steps
    return result


def own_noise(world: World, units: Ints, steps: int) -> Array:
    """Return the draws [N, steps] that the log's own answers are thresholds of."""
    return uniform(world.settings.seed, "outcome", units, steps)


def follow(world: World, moment: Moment, t: Ints, y: Ints) -> Moment:
    """Return the moment after logged items and answers [N, S]; InputError for an item that the world does not have."""
    _known(world, t)
    for step in range(t.shape[1]):
        moment = world.answer(moment, t[:, step], y[:, step] == 1)
    return moment


def meet(
    world: World, students: Students, moment: Moment, item: Ints, noise: Array
) -> tuple[Moment, Array, NDArray[np.bool_]]:
    """Return the moment after ``item`` [N] is met, with p of a right answer [N] and the answer [N]."""
    p = world.potentials(moment, students, item[:, None])[:, 0]
    right = noise < p
    return world.answer(moment, item, right), p, right


def batches(count: int, size: int) -> Iterator[Ints]:
    """Yield the positions 0..count-1 in runs of at most ``size``."""
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))


def _hold(world: World, students: Students, moment: Moment, item: int, noise: Array) -> tuple[Moment, Array]:
    """Return the moment after ``item`` was given at every column of ``noise`` [N, steps], and the sum of p [N]."""
    total = np.zeros(len(noise))
    for step in range(noise.shape[1]):
        moment, p, _ = meet(world, students, moment, np.full(len(noise), item), noise[:, step])
        total += p
    return moment, total


def _known(world: World, items: Ints) -> Ints:
    wrong = (np.asarray(items) < 0) | (np.asarray(items) >= world.oracle.items)
    if wrong.any():
        found = np.asarray(items)[wrong][0]
        raise InputError(f"actions: expected an item from 0 to {world.oracle.items - 1}, found {found}")
    return items
