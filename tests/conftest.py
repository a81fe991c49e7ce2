"""What tests need of the machine: those that need more than it has are left out, and the report says so."""

from __future__ import annotations

import os
from pathlib import Path

# Test problems are tiny: a second thread costs more in waiting than it brings, twentyfold where cores are shared.
# Numeric libraries read this when they are first imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import pytest
import torch

torch.set_num_threads(1)
# Shared machines make any single example slow now and then.
hypothesis.settings.register_profile("shared", deadline=None)
hypothesis.settings.load_profile("shared")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out tests of real data without real data, and of CUDA without CUDA."""
    if item.get_closest_marker("mirror") and not os.environ.get("FEDLOOM_MIRROR"):
        pytest.skip("FEDLOOM_MIRROR names no folder of real data")
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("no CUDA device")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder of the Snakefile."""
    return Path(__file__).resolve().parents[1]
