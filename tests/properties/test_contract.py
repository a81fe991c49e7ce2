"""Every registered method, and every variant of Atlas, has the properties that ``check_method`` states."""

from __future__ import annotations

from functools import lru_cache

import pytest

from fedloom.check import CHECKS, Subject
from fedloom.federation.method import Method
from fedloom.methods import registry
from fedloom.models import registry as models

ATLAS_VARIANTS = {
    "atlas/A.1": {"codebook": "local"},
    "atlas/A.1s": {"codebook": "local_shared_start"},
    "atlas/A.2": {"share": "encoder"},
    "atlas/A.3": {"share": "all"},
    "atlas/A.4prime": {"align": False, "independent_start": True},
    "atlas/A.5": {"assignment": "hard"},
    "atlas/A.6": {"upload": "dominant"},
    "atlas/FR": {"codebook": "frozen"},
    "atlas/residual": {"residual": True},
}


def small(name: str) -> Method:
    """A method of the registry, small enough to check: ``method`` or ``method/variant``."""
    kind = registry.get(name.partition("/")[0])
    sizes = {"encoder": "compact", "width": 8, "depth": 1, "prototypes": 4} if kind.name == "atlas" else {}
    forecaster = models.get("forecaster")
    model = forecaster(forecaster.Params(encoder="compact", width=8, depth=1)) if kind.takes_model else None
    return kind(kind.Params(**sizes, **ATLAS_VARIANTS.get(name, {})), model)


@lru_cache(maxsize=1)
def subject(name: str) -> Subject:
    return Subject(lambda: small(name))


@pytest.mark.parametrize(
    ("name", "check"), [(name, check) for name in [*registry.names(), *ATLAS_VARIANTS] for check in CHECKS]
)
def test_method_has_property(name: str, check: str) -> None:
    CHECKS[check](subject(name))
