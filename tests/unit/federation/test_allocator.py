"""Memory that tensors gave back serves the next ones."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

TAKE_OFTEN = """
import resource, sys, torch
from fedloom.federation.allocator import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    torch.ones(2**23).sum()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    """Pages that the kernel had to bring for a hundred tensors of one size, one after the other."""
    done = subprocess.run([sys.executable, "-c", TAKE_OFTEN, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_tensors_take_the_memory_of_those_before() -> None:
    assert faults("kept") < faults("given back") / 4
