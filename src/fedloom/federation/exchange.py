"""What crosses a client's border is counted here, and nothing crosses elsewhere."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

WIRE_BYTES = 4  # a number travels as float32 or int32, whatever precision computes it


class Ledger:
    """Bytes of one round, per client: ``up`` and ``down`` [C]."""

    def __init__(self, clients: int) -> None:
        self.up = np.zeros(clients)
        self.down = np.zeros(clients)

    def uploaded(self, clients: Tensor, numbers: int | Tensor) -> None:
        """Each of ``clients`` (positions) sent ``numbers`` numbers to the server: one count for all, or one each."""
        self.up[clients.numpy(force=True)] += WIRE_BYTES * _count(numbers)

    def downloaded(self, clients: Tensor, numbers: int | Tensor) -> None:
        """Each of ``clients`` received ``numbers`` numbers from the server: one count for all, or one each."""
        self.down[clients.numpy(force=True)] += WIRE_BYTES * _count(numbers)

    def along(self, sources: np.ndarray, receivers: np.ndarray, numbers: int) -> None:
        """``numbers`` numbers ran along every edge; a client's message to itself costs nothing."""
        between = sources != receivers
        np.add.at(self.up, sources[between], WIRE_BYTES * numbers)
        np.add.at(self.down, receivers[between], WIRE_BYTES * numbers)


def _count(numbers: int | Tensor) -> int | NDArray[np.float64]:
    return numbers.numpy(force=True) if isinstance(numbers, Tensor) else numbers


def slots(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number each edge [E] among those with the same end, in their order: 0, 1, ..."""
    order = np.argsort(ends, kind="stable")
    sorted_ends = ends[order]
    first = np.searchsorted(sorted_ends, sorted_ends)
    numbered = np.empty_like(ends)
    numbered[order] = np.arange(len(ends)) - first
    return numbered


class Exchange:
    """Moves tensors between clients inside a forward pass of a coupled method, along declared edges only.

    ``edges`` is a LongTensor [2, E] of (source, destination) positions; ``sender_slot`` [E] numbers them among those of
    the same source. While training, each crossing is counted forward, and backward too where the gradient returns over
    it.
    """

    def __init__(self, edges: Tensor, ledger: Ledger | None = None, training: bool = False) -> None:
        self.src, self.dst = edges[0], edges[1]
        self._sources, self._receivers = edges.numpy(force=True)
        self.sender_slot = torch.from_numpy(slots(self._sources)).to(edges.device)
        self._ledger = ledger
        self._training = training

    def along(self, z: Tensor, gradient: bool = True) -> Tensor:
        """Messages [E, ...]: row e is what ``dst[e]`` receives of its source's row of ``z`` [C, ...]."""
        self._charge(z[0].numel(), gradient)
        return (z if gradient else z.detach())[self.src]

    def send(self, messages: Tensor, gradient: bool = True) -> Tensor:
        """``messages`` [E, ...] as they arrive: row e is what ``src[e]`` made for ``dst[e]`` alone."""
        self._charge(messages[0].numel(), gradient)
        return messages if gradient else messages.detach()

    def _charge(self, numbers: int, gradient: bool) -> None:
        if self._ledger is not None:
            self._ledger.along(self._sources, self._receivers, numbers)
            if gradient and self._training:
                self._ledger.along(self._receivers, self._sources, numbers)

    def side_by_side(self, messages: Tensor, clients: int) -> Tensor:
        """The messages [E, ...] at their receivers, [C, R, ...], in the order of the edges; zero beyond the last."""
        slot = slots(self._receivers)
        places = int(slot.max()) + 1
        at = torch.from_numpy(self._receivers * places + slot).to(messages.device)
        received = messages.new_zeros((clients * places, *messages.shape[1:])).index_copy(0, at, messages)
        return received.view(clients, places, *messages.shape[1:])

    def gather(self, messages: Tensor, clients: int) -> Tensor:
        """Sum at each receiver of the messages [E, ...] that reached it: [C, ...]. It moves nothing further."""
        received = messages.new_zeros((clients, *messages.shape[1:]))
        return received.index_add(0, self.dst, messages)

    def total(self, z: Tensor, gradient: bool = True) -> Tensor:
        """Sum of ``z`` [C, ...] over clients at the server, sent back to each: [C, ...], the same in every row."""
        self._charge_sum(z, z[0].numel(), gradient)
        sent = z if gradient else z.detach()
        return sent.sum(0, keepdim=True).expand_as(z)

    def products(self, own_CF: Tensor, z: Tensor, gradient: bool = True) -> Tensor:
        """Sum over clients of the products of each one's ``own_CF`` and ``z`` [C, ...]: [F, ...], sent back to each.

        Clients form the products and send them, as with ``total``; here they are never held side by side.
        """
        self._charge_sum(z, own_CF.shape[1] * z[0].numel(), gradient)
        if not gradient:
            own_CF, z = own_CF.detach(), z.detach()
        return (own_CF.mT @ z.flatten(1)).view(own_CF.shape[1], *z.shape[1:])

    def to_server(self, z: Tensor, gradient: bool = True, known: bool = False) -> Tensor:
        """Rows of ``z`` [C, ...] as they reach the server; where they are ``known`` to it, they were sent before."""
        if self._ledger is not None:
            everyone, numbers = torch.arange(len(z)), z[0].numel()
            if not known:
                self._ledger.uploaded(everyone, numbers)
            if gradient and self._training:
                self._ledger.downloaded(everyone, numbers)
        return z if gradient else z.detach()

    def from_server(self, z: Tensor, gradient: bool = True) -> Tensor:
        """Rows of the server's ``z`` [C, ...] as they reach each client."""
        if self._ledger is not None:
            everyone, numbers = torch.arange(len(z)), z[0].numel()
            self._ledger.downloaded(everyone, numbers)
            if gradient and self._training:
                self._ledger.uploaded(everyone, numbers)
        return z if gradient else z.detach()

    def _charge_sum(self, z: Tensor, numbers: int, gradient: bool) -> None:
        if self._ledger is not None:
            everyone = torch.arange(len(z))
            crossings = 2 if gradient and self._training else 1
            for _ in range(crossings):
                self._ledger.uploaded(everyone, numbers)
                self._ledger.downloaded(everyone, numbers)
