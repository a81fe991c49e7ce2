"""The truth of generated trajectories: what each anchor would have done at every step, and what policies are worth.

The artifact is a folder with ``truth.safetensors`` and ``truth.json``, checked when written and when read. This module
imports only numpy and safetensors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from fedloom.artifacts import atomic, read_json, write_text
from fedloom.errors import InputError, require

ABOUT_KEYS = (
    "dataset",
    "anchors",
    "policies",
    "window_start",
    "horizons",
    "draws",
    "floor_draws",
    "valued_units",
    "monte_carlo_se",
    "settings",
)


@dataclass(frozen=True)
class TruthSettings:
    """What the truth is computed for. A window runs from ``window_start`` to the end of the sequence."""

    window_start: int = 26  # counted from 1; what is before it is logged history
    draws: int = 256  # of outcome noise in a unit's value, shared by all policies
    units: int = 1000  # test sequences at most that have a value: each costs draws * 3 windows of the oracle's time
    floor_draws: int = 16  # of a second, independent estimate: what an oracle with so few draws would err
    horizons: tuple[int, ...] = (1, 2, 3, 5)  # lengths of shorter windows from the same start

    def __post_init__(self) -> None:
        """Raise InputError for a setting out of its range."""
        for name, least in (("window_start", 1), ("draws", 2), ("units", 1), ("floor_draws", 1)):
            value = getattr(self, name)
            if value < least:
                raise InputError(f"truth: {name}: expected at least {least}, found {value}")
        if min(self.horizons, default=1) < 1:
            raise InputError(f"truth: horizons: expected at least 1, found {min(self.horizons)}")


@dataclass(frozen=True)
class Truth:
    """The truth about n sequences of L steps, two anchors (off, on) and P policies.

    id: [n] int64, the sequences, in the order of the other tensors.
    potentials: [n, L, 2] float32, p(outcome 1 | logged history, do(anchor)) at each logged step.
    anchor_propensity: [n, L, 2] float64, the logging policy's probability of each anchor there.
    values: [P, n] float64, mean over draws of the mean of p over the window; NaN where a sequence has no value.
    values_se: [P, n] float64, the Monte-Carlo standard error of ``values``.
    effect_se: [n] float64, that of the second policy's value less the first's, which share their noise.
    floor: [floor_draws, P, n] float32, the window's mean of p in each of some other draws.
    horizon_values: [H, P, n] float64, ``values`` of shorter windows, by ``about["horizons"]``.
    outcomes: [P, n, L] uint8, outcomes under the policy with the unit's own noise; logged ones before the window.
    about: the keys ``ABOUT_KEYS``; ``monte_carlo_se`` are standard errors of the policies' mean values.
    """

    id: NDArray[np.int64]
    potentials: NDArray[np.float32]
    anchor_propensity: NDArray[np.float64]
    values: NDArray[np.float64]
    values_se: NDArray[np.float64]
    effect_se: NDArray[np.float64]
    floor: NDArray[np.float32]
    horizon_values: NDArray[np.float64]
    outcomes: NDArray[np.uint8]
    about: dict[str, Any]

    @property
    def valued(self) -> NDArray[np.bool_]:
        """Which sequences have values, [n]."""
        return np.asarray(np.isfinite(self.values).all(axis=0))

    def value(self, policy: str) -> NDArray[np.float64]:
        """Values [n] of the named policy. Raises InputError for a policy that is not among them."""
        if policy not in self.about["policies"]:
            raise InputError(f"truth: policy: expected one of {', '.join(self.about['policies'])}, found {policy}")
        return np.asarray(self.values[self.about["policies"].index(policy)])


TENSORS = {
    "id": np.int64,
    "potentials": np.float32,
    "anchor_propensity": np.float64,
    "values": np.float64,
    "values_se": np.float64,
    "effect_se": np.float64,
    "floor": np.float32,
    "horizon_values": np.float64,
    "outcomes": np.uint8,
}
assert [field.name for field in fields(Truth)] == [*TENSORS, "about"]


def write_truth(truth: Truth, folder: Path) -> None:
    """Check ``truth`` and write it to ``folder``; ``truth.json`` comes last, so its presence means a whole artifact.

    Raises InputError for a truth that breaks the schema.
    """
    _check(truth, "truth")
    with atomic(folder / "truth.safetensors") as temporary:
        temporary.write_bytes(save({name: np.ascontiguousarray(getattr(truth, name)) for name in TENSORS}))
    write_text(folder / "truth.json", json.dumps(truth.about, indent=2, sort_keys=True) + "\n")


def read_truth(folder: Path) -> Truth:
    """Read and check the artifact in ``folder``. Raises InputError for a missing file or one that breaks the schema."""
    tensors = folder / "truth.safetensors"
    if not tensors.is_file():
        raise InputError(f"{tensors}: expected a file of a truth, found no such file")
    try:
        loaded = load_file(tensors)
    except SafetensorError as error:
        raise InputError(f"{tensors}: expected safetensors, found {error}") from error
    described = read_json(folder / "truth.json", "a file of a truth")
    if set(loaded) != set(TENSORS):
        raise InputError(f"{tensors}: expected tensors {', '.join(TENSORS)}, found {', '.join(sorted(loaded))}")
    truth = Truth(**loaded, about=described)
    _check(truth, str(folder))
    return truth


def _check(truth: Truth, where: str) -> None:
    missing = [key for key in ABOUT_KEYS if key not in truth.about]
    require(not missing, where, "about", f"keys {', '.join(ABOUT_KEYS)}", f"no {', '.join(missing)}")
    n, policies = len(truth.id), len(truth.about["policies"])
    steps = truth.potentials.shape[1] if truth.potentials.ndim == 3 else -1
    shapes: dict[str, tuple[int, ...]] = {
        "id": (n,),
        "potentials": (n, steps, 2),
        "anchor_propensity": (n, steps, 2),
        "values": (policies, n),
        "values_se": (policies, n),
        "effect_se": (n,),
        "floor": (truth.about["floor_draws"], policies, n),
        "horizon_values": (len(truth.about["horizons"]), policies, n),
        "outcomes": (policies, n, steps),
    }
    for name, kind in TENSORS.items():
        array = getattr(truth, name)
        require(array.dtype == kind, where, name, np.dtype(kind).name, array.dtype.name)
        require(array.shape == shapes[name], where, name, f"shape {shapes[name]}", str(array.shape))
    require(len(np.unique(truth.id)) == n, where, "id", "each sequence once", "one twice")
    for name in ("potentials", "anchor_propensity", "values", "floor", "horizon_values"):
        array = getattr(truth, name)
        known = array if name in ("potentials", "anchor_propensity") else array[..., truth.valued]
        wrong = ~((known >= 0) & (known <= 1))
        require(not wrong.any(), where, name, "probabilities", str(known[wrong][:1]))
    require(bool((truth.outcomes <= 1).all()), where, "outcomes", "0 or 1", str(truth.outcomes.max(initial=0)))
    found = int(truth.valued.sum())
    require(found == truth.about["valued_units"], where, "values", f"{truth.about['valued_units']} units", str(found))
