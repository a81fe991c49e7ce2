"""Real truth without a simulator: what a log says of another policy, against what that policy earned itself.

A second log, of a sampler that chose among the same actions on the same pages in the same time, lies beside the judged
one (Open Bandit's own comparison: its Thompson sampler and its uniform policy). The sampler's probabilities are its
shares of actions by place, counted in the *training* rows of its own log; no outcome goes into them. The truth is the
mean outcome of *all* rows of that log: nothing learns from its outcomes, so none need be held back, and clicks are few.
The judged log is read twice. All estimators see its test part, whose rows the model never learned from; those that use
no model also see the whole of it, for the same reason as above.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.trajectories.table import TrajectorySet, flat_steps, read_trajectories
from fedloom.errors import InputError
from fedloom.evaluation.causal.part import Part
from fedloom.evaluation.offpolicy.rows import PolicySteps, on_policy_row, policy_rows
from fedloom.evaluation.rows import Row
from fedloom.federation.worlds import World
from fedloom.partition.folder import TrajectoryPartition, read_partition

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PLACE = "position_"
"""What the names of the context's columns begin with that say where on a page an item was shown."""

ACTIONS_AT_ONCE = 16
"""Answers of a model are kept for so many actions at a time."""


@dataclass(frozen=True)
class Sampler:
    """A policy by its name, its probabilities [places, actions], and the row of what it earned in its own log.

    ``columns`` of the context say where an item was shown.
    """

    name: str
    share_PA: Floats
    earned: Row
    columns: list[int]


def read_sampler(data: Path, partition: Path, judged: TrajectorySet) -> Sampler:
    """Return the sampler whose log lies in ``data``, dealt to clients by ``partition``.

    Raises InputError where it chose among other actions than the ``judged`` log, or has another context, and where the
    judged log does not say how likely its own policy was to act as it did.
    """
    log = read_trajectories(data)
    for key in ("actions", "a_names"):
        if log.about[key] != judged.about[key]:
            raise InputError(f"{data}: {key}: expected those of {judged.about['dataset']}, found {log.about[key]}")
    if np.isnan(flat_steps(judged).propensity).any():
        raise InputError(f"{judged.about['dataset']}: propensity: expected one of every step, found unknown ones")
    dealt = read_partition(TrajectoryPartition, partition)
    assignment = dealt.assignment.set_index("id").loc[log.table["id"]]
    clients = [str(name) for name in dealt.clients.index]
    steps = flat_steps(log)
    columns = place_columns(log.about["a_names"])
    place_R, action_R = places(steps.a, columns), steps.t.astype(np.int64)
    train_R = (assignment["part"] == "train").to_numpy()[steps.row]
    shares = action_shares(action_R[train_R], place_R[train_R], log.about["actions"], max(1, len(columns)))
    client_R = assignment["client"].to_numpy().astype(np.int64)[steps.row]
    owner_R = pd.factorize(log.table["owner"])[0].astype(np.int64)[steps.row]
    name = log.about["dataset"]
    return Sampler(name, shares, on_policy_row(name, steps.y.astype(np.float64), client_R, owner_R, clients), columns)


def place_columns(names: list[str]) -> list[int]:
    """Return the columns of the context that say where an item was shown."""
    return [column for column, name in enumerate(names) if name.startswith(PLACE)]


def places(context: NDArray[Any], columns: list[int]) -> Ints:
    """Return where every item was shown, [...], from the context [..., Fa]; 0 where nothing says so."""
    if not columns:
        return np.zeros(context.shape[:-1], dtype=np.int64)
    return context[..., columns].argmax(axis=-1).astype(np.int64)


def action_shares(action_R: Ints, place_R: Ints, actions: int, places: int) -> Floats:
    """Return how often a policy took each action at each place: [places, actions], rows summing to 1.

    For a policy that does not look at the user, such as a Bernoulli Thompson sampler, these are its probabilities,
    averaged over the time of the log. ``place_R`` is where on the page a row was shown.
    """
    counts = np.zeros((places, actions))
    np.add.at(counts, (place_R, action_R), 1.0)
    shares: Floats = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    return shares


def sampler_rows(sampler: Sampler, world: World, parts: Mapping[str, Part]) -> list[Row]:
    """Return rows of the sampler's value by every step estimator, with its error, and of what it earned.

    ``parts`` are those of the judged log, ``test`` among them.
    """
    test, truth, rows = parts["test"], float(sampler.earned["value"]), [sampler.earned]
    answers = _model_answers(sampler, world, test)
    for name, read in {"test": [test], "all": list(parts.values())}.items():
        columns = zip(*(_steps(sampler, part) for part in read), strict=True)
        target_R, propensity_R, outcome_R, client_R, owner_R = map(np.concatenate, columns)
        q_target_R, q_logged_R = answers if name == "test" else (None, None)
        asked = PolicySteps(target_R, propensity_R, outcome_R, client_R, owner_R, q_target_R, q_logged_R)
        under = {"scope": "step", "propensity": "logged", "policy": sampler.name, "rows": name}
        rows += policy_rows(asked, test.task.ids, under, truth)[0]
    return rows


def _model_answers(sampler: Sampler, world: World, test: Part) -> tuple[Floats, Floats]:
    """Expected outcome under the sampler, and of the logged action, at every step of the test part."""
    share_NLA = sampler.share_PA[places(test.arrays.a.numpy(), sampler.columns)]
    expected, logged = np.zeros(share_NLA.shape[:2]), np.zeros(share_NLA.shape[:2])
    for actions in np.split(np.arange(share_NLA.shape[2]), range(ACTIONS_AT_ONCE, share_NLA.shape[2], ACTIONS_AT_ONCE)):
        found = test.potentials(world, actions.tolist())
        expected += (share_NLA[..., actions] * found[..., :-1]).sum(axis=-1)
        logged = found[..., -1]
    return expected[test.valid], logged[test.valid]


def _steps(sampler: Sampler, part: Part) -> tuple[NDArray[Any], ...]:
    """The sampler's probability of the logged action, its propensity, outcome, client and owner, of every step."""
    assert part.propensity is not None, "known of every step"
    valid = part.valid
    place_R, action_R = places(part.arrays.a.numpy()[valid], sampler.columns), part.arrays.t.numpy()[valid]
    client, owner = (np.broadcast_to(each[:, None], valid.shape) for each in (part.client, part.owner))
    known = part.propensity[valid], part.outcome[valid], client[valid], owner[valid]
    return sampler.share_PA[place_R, action_R], *known
