"""What can be chosen of the generated world. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.data.ranges import require_ranges


@dataclass(frozen=True)
class DktSynth:
    """Settings of the logged world; the same settings and oracle give the same log to the last bit."""

    seed: int = 0
    sequences: int = 20_000
    length: int = 50
    sites: int = 10  # schools, each with a logging policy of its own
    confounding: float = 2.0  # how strongly the choice between the anchors follows past success; 0 is not confounded
    site_outcome: float = 0.0  # sd of a shift of logits that each site has for each item
    hidden: float = 0.0  # strength of a confounder that the log does not show: above 0 nothing is identified

    def __post_init__(self) -> None:
        """Raise InputError for a setting out of its range."""
        ranges = {
            "seed": (0, 2**63 - 1),
            "sequences": (1, 10_000_000),
            "length": (1, 10_000),
            "sites": (1, 100_000),
            "confounding": (0, 100),
            "site_outcome": (0, 10),
            "hidden": (0, 10),
        }
        require_ranges("generate", self, ranges)
