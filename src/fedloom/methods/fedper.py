"""FedPer: the base is averaged, every client keeps its own head (Arivazhagan et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.federation.method import Method


class FedPer(Method):
    """Federated averaging of all parameters outside the client model's head; the head never leaves the client."""

    name = "fedper"
    cite = "Arivazhagan et al. 2019, Federated Learning with Personalization Layers, Alg. 1"
    takes_model = True
    shared = ("",)

    @dataclass(frozen=True)
    class Params:
        lr: float = 1e-3  # Atlas, Sec. 5.1

    @property
    def personal(self) -> tuple[str, ...]:
        """The head."""
        head: tuple[str, ...] = self.model.head
        return head
