"""What a dataset's file says of its panel. Plain data: the readers and the cleaning get these and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fedloom.data.named import Option
from fedloom.data.panels.areas import Areas
from fedloom.data.panels.regimes import Regimes
from fedloom.data.points.settings import Hexagons
from fedloom.data.points.trips import Trips
from fedloom.data.stamps import is_zone
from fedloom.errors import InputError


@dataclass(frozen=True)
class Select:
    """Which part of the official table is kept; a file that already is that part passes through unchanged."""

    nodes: tuple[str, ...] | None = None
    last_steps: int | None = None
    min_observed: float | None = None  # nodes observed in a smaller share of all steps are left out


@dataclass(frozen=True)
class Graph:
    """Edges from distances, directed.

    Distances are those a raw file lists (``table``) or great-circle distances in km between all nodes (``positions``).
    Weights are ``exp(-(d / sd)^2)`` with sd the deviation of the finite distances (``gaussian``, DCRNN, Sec. 4), or 1
    for every listed pair (``binary``, as for PEMS03-08, whose tables list neighbours only).
    """

    distances: Literal["table", "positions"]
    kernel: Literal["gaussian", "binary"] = "gaussian"
    threshold: float = 0.1  # smaller weights are no edges
    max_distance: float | None = None  # longer distances are infinite


ORIGINS = ("reader", "regimes", "trips", "areas")


@dataclass(frozen=True)
class PanelSettings:
    """How raw files, or a generator, become a panel.

    ``hexagons`` makes a panel of points: those that a reader of ``fedloom.data.points.readers`` finds in raw files, or
    those of generated ``trips``.
    """

    dataset: str
    unit: str
    interval_minutes: int
    missing: float | None = None  # what raw files write for a missing reading, beside leaving it empty
    part: str | None = None  # how a part of an official dataset is named wherever its numbers appear
    reader: str | None = None  # a name of fedloom.data.panels.readers
    options: dict[str, Option] = field(default_factory=dict)
    regimes: Regimes | None = None
    trips: Trips | None = None
    areas: Areas | None = None
    hexagons: Hexagons | None = None
    timezone: str | None = None  # whose clock, with its changes, the stamps follow
    select: Select = field(default_factory=Select)
    graph: Graph | None = None
    combine: dict[str, tuple[str, ...]] = field(default_factory=dict)  # node -> nodes whose sum it is, in their place
    passive: dict[str, tuple[str, ...]] = field(default_factory=dict)  # node -> covariates that it keeps to itself
    horizons: dict[str, int] = field(default_factory=dict)  # nodes that forecast fewer steps than the partition says

    def __post_init__(self) -> None:
        """Raise InputError unless exactly one origin of the panel is named, and its parts are named as parts."""
        named = [name for name in ORIGINS if getattr(self, name) is not None]
        if len(named) != 1:
            raise InputError(f"panel: expected one of {', '.join(ORIGINS)}, found {' and '.join(named) or 'none'}")
        if self.trips is not None and self.hexagons is None:
            raise InputError("panel: hexagons: expected where trips are generated, found none")
        if self.hexagons is not None and (self.regimes is not None or self.areas is not None):
            raise InputError(f"panel: hexagons: expected points of a reader or of trips, found {named[0]}")
        if self.timezone is not None and not is_zone(self.timezone):
            raise InputError(f"panel: timezone: expected a name such as Europe/Vienna, found {self.timezone!r}")
        empty = [name for name, covariates in self.passive.items() if not covariates]
        if empty:
            raise InputError(f"panel: passive.{empty[0]}: expected at least one covariate, found none")
        if self.select != Select() and self.part is None:
            raise InputError("panel: part: expected a name for the selected part, found none")
