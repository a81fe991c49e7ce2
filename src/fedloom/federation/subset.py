"""A run on some of a dataset's clients: a share of them, in an order in which smaller shares lie within larger ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fedloom.errors import InputError
from fedloom.federation.randomness import bits, derive


@dataclass(frozen=True)
class Subset:
    """The ``first`` clients, ``share`` of them rounded down, in an order drawn from the run's seed, or the ``rest``."""

    share: float
    part: Literal["first", "rest"] = "first"

    def __post_init__(self) -> None:
        """Raise ValueError for a share that leaves one of the two parts empty."""
        if not 0 < self.share < 1:
            raise ValueError(f"clients.share: expected a share in (0, 1), found {self.share}")

    def chosen(self, keys_C: Tensor, seed: int) -> Tensor:
        """Places of the chosen among clients with ``keys_C``, in their order.

        A client's place in the draw depends on its key and the seed alone. Raises InputError where nobody is chosen.
        """
        words = bits(derive(keys_C, seed, "subset of clients"), 1)[:, 0]
        order = words.argsort(stable=True)
        # A share such as 0.29 of 100 is 28.999... in binary.
        count = int(self.share * len(order) + 1e-9)
        if not 0 < count < len(order):
            raise InputError(f"clients.share: expected some of {len(order)} clients, found {count} ({self.share})")
        return (order[:count] if self.part == "first" else order[count:]).sort().values
