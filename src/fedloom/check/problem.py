"""What a small problem of any family offers: five clients of unequal size, missing readings, one client idle."""

from __future__ import annotations

from typing import ClassVar
from typing import Protocol as Shape

from fedloom.federation.client_model import ClientModel
from fedloom.federation.protocol import Protocol
from fedloom.federation.task import Task

NAMES = "abcde"
CLIENTS = len(NAMES)
PROTOCOL = Protocol(rounds=3, batch=16, train_stride=2, validation_stride=2, snapshot_every=2, precision="float64")


class Problem(Shape):
    """A problem of five clients a to e, of whom e has no training sample (unless all are equal).

    ``answer`` names the field of a minibatch that has the shape of what a method predicts for it.
    """

    name: ClassVar[str]
    answer: ClassVar[str]

    @classmethod
    def small(cls, equal: bool = False) -> Problem:
        """The problem, the same every time; equal samples for all where ``equal`` (coupled methods)."""

    @staticmethod
    def model() -> ClientModel:
        """A small client model that learns the problem, for methods that take any."""

    def task(self, protocol: Protocol = PROTOCOL, device: str = "cpu") -> Task:
        """The problem as a task on ``device``."""

    def pick(self, order: list[int]) -> Problem:
        """The same problem with these clients, in this order."""

    def spoiled_test(self) -> Problem:
        """The same problem with other values in the test part."""

    def disturbed(self, client: int) -> Problem:
        """The same problem with other readings of one client."""
