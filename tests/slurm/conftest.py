"""A cluster for the tests that need one, and the small project of the workflow's tests to run on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.slurm.cluster import cluster, unfit
from tests.workflow.conftest import fresh_project

__all__ = ["fresh_project"]


@pytest.fixture(scope="session")
def slurm() -> Iterator[None]:
    """A Slurm that takes jobs."""
    reason = unfit()
    if reason:
        pytest.skip(reason)
    with cluster() as config, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", config)
        yield
