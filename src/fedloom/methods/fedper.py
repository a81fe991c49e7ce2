"""FedPer: the base is averaged, every client keeps its own head (Arivazhagan et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.federation.method import Clients, Method
from fedloom.federation.stack import matching


class FedPer(Method):
    """Federated averaging of all parameters outside the client model's head; the head never leaves the client."""

    name = "fedper"
    cite = "Arivazhagan et al. 2019, Federated Learning with Personalization Layers, Alg. 1"
    takes_model = True

    @dataclass(frozen=True)
    class Params:
        lr: float = 1e-3  # Atlas, Sec. 5.1

    def _base(self, tensors: dict[str, Tensor]) -> list[str]:
        head = matching(tensors, self.model.head)
        return [name for name in tensors if name not in head]

    def upload(self, clients: Clients) -> dict[str, Tensor]:
        """Everything but the head."""
        return {name: clients.tensors[name] for name in self._base(clients.tensors)}

    def server(self, task: object, start: dict[str, Tensor]) -> dict[str, Tensor]:
        """The server's own draw of the base."""
        return {name: start[name] for name in self._base(start)}

    def download(self, server: dict[str, Tensor], clients: Clients) -> dict[str, Tensor]:
        """The averaged base, the same for every client."""
        return {name: value.expand(len(clients), *value.shape) for name, value in server.items()}
