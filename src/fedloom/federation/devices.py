"""Which device a job computes on: jobs side by side on a machine take different GPUs, and small ones share.

Every job on a GPU holds a claim: a file that says how much memory it needs, locked for as long as the job lives. The
system lets go of the lock however the job ends, so that no claim outlives its job. Jobs of one user see each other's.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from fedloom.errors import InputError
from fedloom.federation.allocator import keep_freed_memory


@dataclass(frozen=True)
class Card:
    """A GPU that this process may use: its number in this process, its name on the machine, its memory in MB."""

    index: int
    name: str
    memory_mb: int


def cards() -> list[Card]:
    """The GPUs that CUDA shows this process; CUDA_VISIBLE_DEVICES and a scheduler's allotment are kept."""
    found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return [Card(i, str(each.uuid), each.total_memory // 2**20) for i, each in enumerate(found)]


def choose_device(name: str) -> torch.device:
    """``auto`` is CUDA where there is one. Raises InputError where a device is asked for that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device: expected a CUDA device for 'cuda', found none; use auto or cpu")
    return torch.device(name)


@contextmanager
def device(name: str, need_mb: int = 0) -> Iterator[torch.device]:
    """The device ``name`` (``auto``, ``cpu``, ``cuda``) to compute on; a GPU is claimed while the context lasts.

    ``need_mb`` of GPU memory are claimed, and no more can be used; 0 claims the whole card. Waits for a card that has
    them. Raises InputError where none can ever have. The process keeps the memory that its tensors give back.
    """
    keep_freed_memory()
    chosen = choose_device(name)
    if chosen.type != "cuda":
        yield chosen
        return
    folder = Path(tempfile.gettempdir()) / f"fedloom-gpus-{os.getuid()}"
    with claimed(cards(), need_mb, folder) as card:
        torch.cuda.set_device(card.index)
        if need_mb:
            torch.cuda.set_per_process_memory_fraction(need_mb / card.memory_mb, card.index)
        yield torch.device("cuda", card.index)


@contextmanager
def claimed(cards: Sequence[Card], need_mb: int, folder: Path) -> Iterator[Card]:
    """Hold ``need_mb`` MB (0: all) of the card that has most left; wait while no card has as much.

    Claims lie in ``folder``. Raises InputError where no card is large enough.
    """
    largest = max(card.memory_mb for card in cards)
    if need_mb > largest:
        raise InputError(f"gpu_memory_mb: expected at most the {largest} of the largest GPU here, found {need_mb}")
    folder.mkdir(parents=True, exist_ok=True)
    told = False
    while (claim := _try(cards, need_mb, folder)) is None:
        if not told:
            wanted = f"{need_mb} MB of GPU memory" if need_mb else "a whole GPU"
            print(f"fedloom: waits for {wanted} to become free", file=sys.stderr, flush=True)
        told = True
        time.sleep(0.5)
    card, handle, path = claim
    try:
        yield card
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _try(cards: Sequence[Card], need_mb: int, folder: Path) -> tuple[Card, int, Path] | None:
    """Claim now, or None: the card, the open and locked claim, its path."""
    with open(folder / "mutex", "w") as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)
        left = {card: card.memory_mb - _taken(card, folder) for card in cards}
        card = max(left, key=lambda each: left[each])
        need = need_mb or card.memory_mb
        if left[card] < need:
            return None
        handle, path = tempfile.mkstemp(prefix=f"{card.name}.", dir=folder)
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.write(handle, str(need).encode())
        return card, handle, Path(path)


def _taken(card: Card, folder: Path) -> int:
    """Memory of the card under claims, in MB; the claims of jobs that are gone are removed."""
    taken = 0
    for path in folder.glob(f"{card.name}.*"):
        try:
            with open(path) as claim:
                try:
                    fcntl.flock(claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    path.unlink(missing_ok=True)
                except BlockingIOError:
                    taken += int(claim.read())
        except FileNotFoundError:
            continue  # its job ended meanwhile
    return taken
