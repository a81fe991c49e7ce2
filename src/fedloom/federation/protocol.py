"""The training protocol that a study sets for a run, whatever the method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedloom.federation.faults import Faults
from fedloom.federation.robust import ServerRule
from fedloom.federation.upload_noise import UploadNoise


@dataclass(frozen=True)
class Protocol:
    """How long and on what a federation trains (Atlas, Sec. 5.1: 200 rounds, 1 local epoch, batch 256, all clients).

    An epoch takes one sample in ``train_stride``, drawn anew every time, and ends after ``batches`` minibatches (0: all
    of them), so that clients of very unequal size take equally many steps; validation takes one window in
    ``validation_stride``, the same in every round and run. Neither follows the clock: every n-th window of a day would
    show a model the same times of day for ever. The weights of every ``snapshot_every``-th round and of the last one
    are kept for what must not be known while training (0: none are). ``precision`` is the floating-point type of
    weights and data, ``products`` that of matrix products in training (``full``: the same; ``bfloat16``: 8 bits of
    mantissa, sums and everything else in full). ``noise`` is what is done to every upload before it leaves its client
    (None: nothing), ``faults`` what goes wrong with it on its way, ``server_rule`` what a server that averages does
    with what arrives.
    """

    rounds: int = 200
    batch: int = 256
    epochs: int = 1
    batches: int = 0
    participation: float = 1.0
    train_stride: int = 1
    validation_stride: int = 1
    validate_every: int = 1
    snapshot_every: int = 0
    precision: str = "float32"
    products: str = "full"
    noise: UploadNoise | None = None
    faults: Faults = field(default_factory=Faults)
    server_rule: ServerRule = field(default_factory=ServerRule)

    def __post_init__(self) -> None:
        for name, kind in (("noise", UploadNoise), ("faults", Faults), ("server_rule", ServerRule)):
            given: Any = getattr(self, name)
            if isinstance(given, Mapping):  # a run's spec is plain data
                object.__setattr__(self, name, kind(**given))
        for name in ("batch", "epochs", "train_stride", "validation_stride", "validate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"protocol.{name}: expected at least 1, found {getattr(self, name)}")
        for name in ("rounds", "batches", "snapshot_every"):
            if getattr(self, name) < 0:
                raise ValueError(f"protocol.{name}: expected at least 0, found {getattr(self, name)}")
        if not 0 < self.participation <= 1:
            raise ValueError(f"protocol.participation: expected a share in (0, 1], found {self.participation}")
        if self.precision not in ("float32", "float64"):
            raise ValueError(f"protocol.precision: expected float32 or float64, found {self.precision!r}")
        if self.products not in ("full", "bfloat16"):
            raise ValueError(f"protocol.products: expected full or bfloat16, found {self.products!r}")
