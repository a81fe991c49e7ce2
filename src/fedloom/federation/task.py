"""The engine's view of a task, whatever its family."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

Predict = Callable[[Any, Tensor], Any]  # (batch, rows) -> what the method predicts for these clients


@dataclass(frozen=True)
class Validation:
    """Result of a look at the validation part: ``score`` selects the round (lower is better).

    ``log`` holds further quantities by name: a float for the federation or a tensor [C]. A score that is ``bounded``
    never tells that training ran away.
    """

    score: float
    log: dict[str, float | Tensor]
    bounded: bool = False


class Task(Protocol):
    """Samples of C clients on one device.

    ``ids`` name the clients, ``keys`` [C] seed their randomness, ``edges`` [2, E] is the graph of coupled methods.
    """

    @property
    def ids(self) -> list[str]: ...

    @property
    def keys(self) -> Tensor: ...

    @property
    def edges(self) -> Tensor: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def dtype(self) -> torch.dtype: ...

    def sizes(self, part: str) -> Tensor:
        """Samples of each client in a part, [C] (int64, CPU)."""

    def batch(self, part: str, rows: Tensor, samples_CB: Tensor) -> Any:
        """Minibatch of clients ``rows`` [c]: a tuple of tensors [c, B, ...].

        A sample number equal to or beyond a client's size marks padding: its ``valid`` entry is 0 and it contributes
        nothing.
        """

    def chunks(self, part: str, chunk: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All samples of a part in order, ``chunk`` units of work at a time: (clients [c], sample numbers [c, B])."""

    def validate(self, predict: Predict, chunk: int) -> Validation:
        """Judge predictions on the fixed validation samples, ``chunk`` client-samples at a time at most."""
