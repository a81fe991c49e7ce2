"""Real truth without a simulator: what a log says of another policy, against what that policy earned itself.

A second log, of a sampler that chose among the same actions on the same pages in the same time, lies beside the judged
one. The sampler's probabilities are its shares of actions by place, counted in the *training* rows of its own log; no
outcome goes into them. The truth is the mean outcome of *all* rows of that log: nothing learns from its outcomes, so
none need be held back, and clicks are few. The judged log is read twice. All estimators see its test part, whose rows
the model never learned from; those that use no model also see the whole of it, for the same reason as above.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedloom.data.trajectories.table import TrajectorySet, flat_steps, read_trajectories
from fedloom.errors import InputError
from fedloom.evaluation.causal.judge import Judge, Part
from fedloom.evaluation.offpolicy.rows import on_policy_row
from fedloom.evaluation.offpolicy.stochastic import action_shares, stochastic_rows
from fedloom.federation.worlds import World
from fedloom.partition.trajectories import read_trajectory_partition

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Row = dict[str, Any]

PLACE = "position_"
"""What the names of the context's columns begin with that say where on a page an item was shown."""

ACTIONS_AT_ONCE = 16
"""Answers of a model are kept for so many actions at a time."""


@dataclass(frozen=True)
class Sampler:
    """A policy by its name, its probabilities [places, actions], and the row of what it earned in its own log."""

    name: str
    share_PA: Floats
    earned: Row


def read_sampler(data: Path, partition: Path, judged: TrajectorySet) -> Sampler:
    """Return the sampler whose log lies in ``data``, dealt to clients by ``partition``.

    Raises InputError where it chose among other actions than the ``judged`` log, or has another context.
    """
    log = read_trajectories(data)
    for key in ("actions", "a_names"):
        if log.about[key] != judged.about[key]:
            raise InputError(f"{data}: {key}: expected those of {judged.about['dataset']}, found {log.about[key]}")
    dealt = read_trajectory_partition(partition)
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
    return Sampler(name, shares, on_policy_row(name, steps.y.astype(np.float64), client_R, owner_R, clients))


def place_columns(names: list[str]) -> list[int]:
    """Return the columns of the context that say where an item was shown."""
    return [column for column, name in enumerate(names) if name.startswith(PLACE)]


def places(context: NDArray[Any], columns: list[int]) -> Ints:
    """Return where every item was shown, [...], from the context [..., Fa]; 0 where nothing says so."""
    if not columns:
        return np.zeros(context.shape[:-1], dtype=np.int64)
    return context[..., columns].argmax(axis=-1).astype(np.int64)


def sampler_rows(judge: Judge, world: World, sampler: Sampler) -> list[Row]:
    """Return rows of the sampler's value by every step estimator, with its error, and of what it earned.

    Raises InputError where the log does not say how likely its own policy was to act as it did.
    """
    columns = place_columns(judge.data.about["a_names"])
    expected, logged = _model_answers(judge, world, sampler.share_PA[_place(judge.test, columns)])
    valid, truth = judge.test.valid, float(sampler.earned["value"])
    rows = [sampler.earned]
    for name, parts in {"test": (judge.test,), "all": (judge.train, judge.validation, judge.test)}.items():
        read = [_log(judge, part, columns) for part in parts]
        place_R, action_R, propensity_R, outcome_R, client_R, owner_R = map(np.concatenate, zip(*read, strict=True))
        target_R = sampler.share_PA[place_R, action_R]
        of_rows = target_R, propensity_R, outcome_R, client_R, owner_R
        by_model, as_logged = (expected[valid], logged[valid]) if name == "test" else (None, None)
        named = {"policy": sampler.name, "rows": name}
        rows += stochastic_rows(named, *of_rows, judge.clients, by_model, as_logged, truth)
    return rows


def _model_answers(judge: Judge, world: World, share_NLA: Floats) -> tuple[Floats, Floats]:
    """Expected outcome under the sampler and of the logged action at the test part's histories, both [n, L]."""
    expected, logged = np.zeros(share_NLA.shape[:2]), np.zeros(share_NLA.shape[:2])
    for actions in np.split(np.arange(share_NLA.shape[2]), range(ACTIONS_AT_ONCE, share_NLA.shape[2], ACTIONS_AT_ONCE)):
        found = judge.potentials(world, actions.tolist())
        expected += (share_NLA[..., actions] * found[..., :-1]).sum(axis=-1)
        logged = found[..., -1]
    return expected, logged


def _log(judge: Judge, part: Part, columns: list[int]) -> tuple[NDArray[Any], ...]:
    """Place, action, propensity, outcome, client and owner of every step of a part."""
    known = judge.logged_propensity(part)
    if known is None:
        raise InputError(f"{judge.data.about['dataset']}: propensity: expected one of every step, found unknown ones")
    client, owner = (np.broadcast_to(each[:, None], known.shape) for each in (part.client, judge.owners(part)))
    steps = (_place(part, columns), part.arrays.t.numpy(), known, part.outcome, client, owner)
    return tuple(each[part.valid] for each in steps)


def _place(part: Part, columns: list[int]) -> Ints:
    return places(part.arrays.a.numpy(), columns)
