"""Trajectories: every client holds sequences of decisions and learns what their outcomes would be under others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from fedloom.data.trajectories.table import Padded, TrajectorySet, pad, read_trajectories, scaled
from fedloom.errors import InputError
from fedloom.federation.protocol import Protocol
from fedloom.federation.randomness import client_keys, derive
from fedloom.federation.samples import answered, located, on_device, side_by_side, stretches
from fedloom.federation.task import Predict, Validation
from fedloom.partition.folder import TrajectoryPartition, read_partition

COMMON_ACTIONS = 15  # actions that losses may group by; the rest are one group


class Trajectories(NamedTuple):
    """A minibatch of one client's sequences (with a leading client axis outside the loss).

    ``x`` [B, Fx] scaled static features · ``x_code`` [B, Kx] static categories · ``a`` [B, L, Fa] scaled context ·
    ``t`` [B, L] actions, the padding id beyond a sequence's end · ``y`` [B, L] outcomes in [0, 1] · ``mask`` [B, L] 1
    for steps that exist · ``valid`` [B] 0 for padding sequences.
    """

    x: Tensor
    x_code: Tensor
    a: Tensor
    t: Tensor
    y: Tensor
    mask: Tensor
    valid: Tensor


@dataclass(frozen=True)
class TrajectoryTask:
    """Sequences and their partition on one device, padded to one length.

    ``rows`` gives each part's sequences as [C, n] positions in the arrays, padded with -1; ``counts`` how many each
    client has. ``actions`` is the number of actions, also the padding id; ``common`` the actions most frequent in
    training, most frequent first; ``anchors`` the pair (off, on); ``binary`` [Fa] which context columns are 0/1;
    ``units`` [n] keys of the sequences, for noise that belongs to a sequence.
    """

    name: ClassVar[str] = "trajectory"

    ids: list[str]
    keys: Tensor
    edges: Tensor
    actions: int
    longest: int
    anchors: tuple[int, int]
    common: Tensor
    binary: Tensor
    x_categories: tuple[int, ...]
    units: Tensor
    arrays: Trajectories
    rows: dict[str, Tensor]
    counts: dict[str, Tensor]

    @classmethod
    def read(cls, data: Path, partition: Path, protocol: Protocol, device: torch.device) -> TrajectoryTask:
        """The task of the trajectories and partition artifacts (folders), on ``device``."""
        return trajectory_task(
            read_trajectories(data), read_partition(TrajectoryPartition, partition), protocol, device
        )

    @property
    def device(self) -> torch.device:
        """Where the data lie."""
        return self.arrays.a.device

    @property
    def dtype(self) -> torch.dtype:
        """Floating-point type of the data."""
        return self.arrays.a.dtype

    @property
    def drawn(self) -> int:
        """Numbers of a step that a generator of whole sequences draws: its context and its outcome."""
        return self.arrays.a.shape[-1] + 1

    def sizes(self, part: str) -> Tensor:
        """Sequences of each client in ``part``, [C] (int64, CPU)."""
        return self.counts[part]

    def positions(self, part: str, rows: Tensor, samples_CB: Tensor) -> tuple[Tensor, Tensor]:
        """Positions [c, B] of a part's sequences in the arrays, and whether each exists."""
        return located(self.rows[part], self.counts[part], rows, samples_CB)

    def batch(self, part: str, rows: Tensor, samples_CB: Tensor) -> Trajectories:
        """Sequences ``samples_CB`` [c, B] of clients ``rows`` [c]; numbers beyond a client's size are padding."""
        at, exists = self.positions(part, rows, samples_CB)
        valid = exists.to(self.dtype)
        taken = Trajectories(*(array[at] for array in self.arrays))
        return taken._replace(mask=taken.mask * valid[:, :, None], valid=valid)

    def chunks(self, part: str, chunk: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All sequences of a part in order: (clients [c], numbers [c, B]), beyond a short client's size too."""
        return stretches(self.counts[part], chunk // (len(self.ids) * self.longest), self.device)

    def validate(self, predict: Predict, chunk: int) -> Validation:
        """Cross-entropy of the logged outcomes under the predicted logits [c, B, L], in nats a step."""
        nats = torch.zeros(len(self.ids), dtype=torch.float64, device=self.device)
        steps = torch.zeros_like(nats)
        for _, _, batch, logits in answered(self, "validation", predict, chunk):
            loss = binary_cross_entropy_with_logits(logits, batch.y, reduction="none") * batch.mask
            nats += loss.to(torch.float64).sum((1, 2))
            steps += batch.mask.to(torch.float64).sum((1, 2))
        return Validation(float(nats.sum() / steps.sum()), {"validation_nats": nats / steps})


def _by_support(padded: Padded, train: NDArray[np.int64], actions: int) -> NDArray[np.int64]:
    """Actions by how often the training sequences take them, most frequent first, ties by id."""
    taken = padded.t[train]
    support = np.bincount(taken[padded.mask[train]], minlength=actions)[:actions]
    return np.argsort(-support, kind="stable")


def trajectory_task(
    data: TrajectorySet, partition: TrajectoryPartition, protocol: Protocol, device: torch.device
) -> TrajectoryTask:
    """Put trajectories and their partition on ``device``.

    Raises InputError where the partition and the trajectories hold other sequences.
    """
    about, ids = partition.about, [str(c) for c in partition.clients.index]
    table = data.table.set_index("id")
    assignment = partition.assignment.set_index("id").reindex(table.index)
    if assignment["client"].isna().any():
        missing = assignment.index[assignment["client"].isna()][0]
        raise InputError(f"partition of {about['dataset']}: expected every sequence, found none for id {missing}")
    assignment = assignment.reset_index()
    padded = scaled(pad(data), about)
    dtype = getattr(torch, protocol.precision)
    kinds = np.array(data.about.get("x_kinds", ["continuous"] * data.about["dx"]))
    if "category" in data.about["a_kinds"]:
        raise InputError(f"{data.about['dataset']}: a_kinds: expected continuous or binary, found category")
    codes = kinds == "category"
    sizes = data.about.get("x_categories", {})
    names = np.array(data.about["x_names"])
    put = partial(on_device, device=device)
    rows, counts = {}, {}
    for part in ("train", "validation", "test"):
        chosen = assignment[assignment["part"] == part]
        members, count = side_by_side(chosen.index.to_numpy(), chosen["client"].to_numpy(np.int64), len(ids))
        rows[part], counts[part] = put(members, torch.int64), torch.from_numpy(count)
    train = np.flatnonzero(assignment["part"].to_numpy() == "train")
    actions = int(data.about["actions"])
    units = derive(put(table.index.to_numpy(), torch.int64), "unit")
    return TrajectoryTask(
        ids=ids,
        keys=client_keys(ids, device),
        edges=torch.empty((2, 0), dtype=torch.int64, device=device),
        actions=actions,
        longest=int(data.about["longest"]),
        anchors=(int(about["anchors"]["off"]), int(about["anchors"]["on"])),
        common=put(_by_support(padded, train, actions)[:COMMON_ACTIONS], torch.int64),
        binary=put(np.array([kind == "binary" for kind in data.about["a_kinds"]]), torch.bool),
        x_categories=tuple(int(sizes[name]) for name in names[codes]),
        units=units,
        arrays=Trajectories(
            x=put(padded.x[:, ~codes], dtype),
            x_code=put(padded.x[:, codes], torch.int64),
            a=put(padded.a, dtype),
            t=put(padded.t, torch.int64),
            y=put(padded.y, dtype),
            mask=put(padded.mask, dtype),
            valid=put(np.ones(len(table)), dtype),
        ),
        rows=rows,
        counts=counts,
    )
