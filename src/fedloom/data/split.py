"""Three parts of what lies in time: shares of training, validation and test, in this order."""

from __future__ import annotations

from fedloom.errors import InputError

PARTS = ("train", "validation", "test")

Split = tuple[float, float, float]


def require_split(split: Split, section: str) -> None:
    """Raise InputError, naming ``section``, unless the shares are positive and sum to 1."""
    if min(split) <= 0 or abs(sum(split) - 1) > 1e-9:
        raise InputError(f"{section}: split: expected three positive shares that sum to 1, found {split}")


def first_steps(length: int, split: Split) -> tuple[int, int]:
    """First step of validation and of test; both parts are rounded down, training gets the rest."""
    validation, test = int(split[1] * length), int(split[2] * length)
    return length - validation - test, length - test
