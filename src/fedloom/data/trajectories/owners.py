"""Which part an owner belongs to: a function of names alone, so that it is known before any statistic is made.

Steps that learn from training rows (difficulties, vocabularies, scales) call it and agree, wherever they stand in the
pipeline. It sees no value of any row and no order of rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedloom.data.split import PARTS

SHARES = dict(zip(PARTS, (0.7, 0.1, 0.2), strict=True))


def owner_parts(owners: Iterable[str]) -> NDArray[np.str_]:
    """The part ("train", "validation" or "test") of every row, given the owner of every row; whole owners each.

    The distinct owners stand in the order of a keyed hash of their names; the first tenth of them validates, the next
    fifth tests (both rounded down), the rest trains.
    """
    names, row = np.unique(np.asarray(list(owners), dtype=np.str_), return_inverse=True)
    order = np.argsort(name_hash(names, "part"), kind="stable")
    validation, test = (int(SHARES[part] * len(names) + 1e-9) for part in ("validation", "test"))
    parts = np.full(len(names), "train", dtype="<U10")
    parts[order[:validation]] = "validation"
    parts[order[validation : validation + test]] = "test"
    return parts[row]


def name_hash(names: Iterable[str], key: str) -> NDArray[np.uint64]:
    """One 64-bit hash a name, another for every ``key``."""
    salt = key.encode()
    digests = (hashlib.blake2b(str(name).encode(), digest_size=8, key=salt).digest() for name in names)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
