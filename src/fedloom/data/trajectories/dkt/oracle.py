"""The frozen oracle: the probability of a right answer to any item after any history, in float64 on the CPU.

An answer is a threshold, ``noise < p``: a difference of 1e-7 between two devices would flip one now and then, and the
rest of that trajectory with it. So weights are cast up, and every matrix product has one fixed shape, which makes a
row's result independent of how many rows are computed with it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from fedloom.data.trajectories.dkt.noise import Array, Ints
from fedloom.errors import InputError

FILE = "oracle.safetensors"
SHA256 = "61bb1a58d5fcd4a1e2d6500de81ecba53a66b048d1a632e8a43a1a1c3e212225"
BLOCK = 128  # rows of a matrix product
OFF_RANK, ON_RANK = 11, 39  # the two anchor items, counted from the easiest


@dataclass(frozen=True)
class State:
    """What the oracle remembers of N students.

    seen: [N, H + dx], the LSTM's output followed by the covariates. cell: [N, H].
    """

    seen: Array
    cell: Array

    def take(self, rows: Ints) -> State:
        """Return the states at positions ``rows``, which may repeat."""
        return State(self.seen[rows], self.cell[rows])


class Oracle:
    """p(right answer) of each of J items; the weights never change."""

    def __init__(self, weights: dict[str, NDArray[np.float32]]) -> None:
        """Take the tensors of an oracle file, see ``fedloom.data.trajectories.dkt.training.weights``."""
        up = {name: array.astype(np.float64) for name, array in weights.items()}
        width, embedding = up["recurrent"].shape[1], up["embedding"].shape[1]
        self.items = len(up["head_bias"])
        self.width = width
        self.difficulty = up["difficulty"]  # [J], of the simulator
        self.mixing = up["mixing"]  # [concepts, dx], of the simulator
        # sigmoid(z) = (1 + tanh(z / 2)) / 2: halved weights leave one tanh for all four gates.
        order = np.concatenate([np.arange(2 * width), np.arange(3 * width, 4 * width), np.arange(2 * width, 3 * width)])
        scale = np.where(np.arange(4 * width) < 3 * width, 0.5, 1.0)
        of_token, of_x = up["input"][order, :embedding], up["input"][order, embedding:]
        self._tokens = (up["embedding"] @ of_token.T + up["bias"][order]) * scale
        self._gates = np.ascontiguousarray(np.concatenate([up["recurrent"][order], of_x], axis=1).T * scale)
        self._head, self._head_bias = np.ascontiguousarray(up["head"].T), up["head_bias"]

    @property
    def anchors(self) -> tuple[int, int]:
        """The items (off, on): the easier and the harder of the two that policies switch between."""
        ranked = np.argsort(self.difficulty, kind="stable")
        return int(ranked[OFF_RANK - 1]), int(ranked[ON_RANK - 1])

    def start(self, x: Array) -> State:
        """Return the state of students with covariates ``x`` [N, dx] before their first item."""
        seen = np.concatenate([np.zeros((len(x), self.width)), x], axis=1)
        return self._advance(State(seen, np.zeros((len(x), self.width))), np.full(len(x), 2 * self.items))

    def step(self, state: State, item: Ints, answer: NDArray[np.bool_]) -> State:
        """Return the state after items [N] were met with answers [N]."""
        return self._advance(state, item + self.items * answer)

    def logits(self, state: State) -> Array:
        """Return the logit of a right answer to each item now, [N, J]."""
        logits = _product(state.seen, self._head)
        logits += self._head_bias
        return logits

    def _advance(self, state: State, token: Ints) -> State:
        gates = _product(state.seen, self._gates)
        gates += self._tokens[token]
        np.tanh(gates, out=gates)
        h = self.width
        keep = gates[:, : 3 * h]
        keep *= 0.5
        keep += 0.5
        cell = gates[:, h : 2 * h] * state.cell
        cell += gates[:, :h] * gates[:, 3 * h :]
        seen = state.seen.copy()
        np.multiply(gates[:, 2 * h : 3 * h], np.tanh(cell), out=seen[:, :h])
        return State(seen, cell)


@cache
def shipped() -> Oracle:
    """Return the oracle that comes with the package. Raises InputError where its file is damaged."""
    with resources.as_file(resources.files("fedloom.data.trajectories.dkt") / FILE) as path:
        return read_oracle(path, SHA256)


def read_oracle(path: Path, sha256: str) -> Oracle:
    """Read an oracle's file. Raises InputError for a file whose hash is another."""
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise InputError(f"{path}: sha256: expected {sha256}, found {found}")
    return Oracle(load(data))


def sigmoid(z: Array) -> Array:
    """Return 1 / (1 + exp(-z)), without overflow."""
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * z))


def _product(rows: Array, matrix: Array) -> Array:
    """Return ``rows @ matrix``, computed in blocks of one shape; the last is filled up with zeros."""
    n = len(rows)
    result = np.empty((n, matrix.shape[1]))
    whole = n - n % BLOCK
    for at in range(0, whole, BLOCK):
        np.matmul(rows[at : at + BLOCK], matrix, out=result[at : at + BLOCK])
    if whole < n:
        filled = np.zeros((BLOCK, rows.shape[1]))
        filled[: n - whole] = rows[whole:]
        result[whole:] = (filled @ matrix)[: n - whole]
    return result
