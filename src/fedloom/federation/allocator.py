"""What the C library does with the memory that tensors give back."""

from __future__ import annotations

import ctypes

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # mallopt's names for its parameters (malloc.h)


def keep_freed_memory() -> None:
    """From now on glibc keeps freed memory for the next tensor; elsewhere nothing changes.

    As it comes, it asks the kernel for every large tensor anew, which clears all its pages: up to a third of a step's
    time where tensors have many megabytes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(MMAP_MAX, 0)
        mallopt(TRIM_THRESHOLD, 2**31 - 1)
