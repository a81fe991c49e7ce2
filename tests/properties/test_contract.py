"""All registered methods, and their variants, have the properties that ``check_method`` states."""

from __future__ import annotations

from functools import lru_cache

import pytest

from fedloom.check.method import CHECKS, Subject
from fedloom.check.problems.registry import problem_for
from fedloom.federation.method import Method
from fedloom.methods import registry
from fedloom.models.bilstm import BiLstm
from fedloom.models.patch_transformer import PatchTransformerModel

VARIANTS = {
    "atlas/A.1": {"codebook": "local"},
    "atlas/A.1s": {"codebook": "local_shared_start"},
    "atlas/A.2": {"share": "encoder"},
    "atlas/A.3": {"share": "all"},
    "atlas/A.4prime": {"align": False, "independent_start": True},
    "atlas/A.5": {"assignment": "hard"},
    "atlas/A.6": {"upload": "dominant"},
    "atlas/FR": {"codebook": "frozen"},
    "atlas/residual": {"residual": True},
    "fed_causaldiff/full": {"sharing": "full"},
    "fed_causaldiff/literal": {"align": "literal"},
    "fed_causaldiff/clustered": {"clusters": 2},
    "fedavg/latent_world": {},
    "local/latent_world": {},
    "st_split_vfl/panel": {"graph": "panel", "pretrain_epochs": 0},
    "st_split_vfl/full": {"graph": "full"},
    "fedal/no_dbe": {"dbe": False, "correction": "none"},
    "fedal/no_core_set": {"core_rows": 0, "correction": "damped"},
    "fedal/feddyn": {"correction": "feddyn", "core_rows": 0, "seasonal": "rms"},
    "fedavg/patches": {},
    "fedprox/patches": {},
    "ffts/dbe": {},
    "fuels/no_gate": {"gate": "none"},
    "feddis/swapped": {"swapped": True},
    "dcrnn/no_graph": {"graph": "none"},
    "gwnet/no_graph": {"graph": "none"},
    "cnfgnn/passes": {"passes": 2, "decay": 2.0},
    "cast/no_graph": {"graph": "none"},
    "stdn/no_graph": {"graph": "none"},
    "fast/alone": {"agents": 0},
}
FAMILIES = {"latent_world": "trajectory", "patches": "series"}  # that a variant's client model learns
SIZES = {
    "fedgru": {"hidden": 5},
    "fedgtp": {"hidden": 5, "order": 1},  # narrow nets of order 2 amplify rounding: their sums have no scale
    "cnfgnn": {"hidden": 4, "width": 6, "message": 3},
    "atlas": {"encoder": "compact", "width": 8, "depth": 1, "prototypes": 4},
    "st_split_vfl": {"k": 1, "code": 3, "hidden": 5, "pretrain_epochs": 1},
    "split_vfl": {"partners": 2, "code": 3, "hidden": 5, "pretrain_epochs": 1},
    "central_lstm": {"hidden": 5},
    "fedal": {"core_rows": 3, "core_share": 0.06, "core_steps": 1},
    "dcrnn": {"hidden": 5},
    "gwnet": {"channels": 4, "skip": 8, "end": 8, "embedding": 3},
    "stid": {"width": 4, "depth": 1},
    "fuels": {"width": 6, "side": 16},
    "feddis": {"width": 6, "bank": 7, "memory": 4},
    "sc_fsgl": {"width": 6, "prototypes": 4, "code": 3},
    "cast": {"width": 4, "depth": 3, "environments": 3, "code": 2, "heads": 2, "hidden": (6, 8)},
    "stdn": {"width": 4, "heads": 2, "order": 2, "codes": 3, "layers": 1},
    "fast": {"width": 4, "layers": 1, "experts": 2, "agents": 2},
}


def small(name: str) -> Method:
    """A method of the registry, small enough to check: ``method`` or ``method/variant``."""
    kind = registry.get(name.partition("/")[0])
    params = kind.Params(**(SIZES.get(kind.name, {}) | VARIANTS.get(name, {})))
    if not kind.takes_model:
        return kind(params)
    if kind.name == "local_lstm":
        return kind(params, BiLstm(BiLstm.Params(hidden=5)))
    if name.endswith("/dbe"):
        return kind(params, PatchTransformerModel(PatchTransformerModel.Params(8, 2, 2, dbe=True)))
    family = FAMILIES.get(name.partition("/")[2], kind.family or "forecast")
    return kind(params, problem_for(family).model())


@lru_cache(maxsize=1)
def subject(name: str) -> Subject:
    return Subject(lambda: small(name))


@pytest.mark.parametrize(
    ("name", "check"), [(name, check) for name in [*registry.names(), *VARIANTS] for check in CHECKS]
)
def test_method_has_property(name: str, check: str) -> None:
    CHECKS[check](subject(name))
