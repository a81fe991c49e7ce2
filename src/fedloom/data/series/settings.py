"""What a dataset's file says of its series. Plain data: readers, cleaning and generator get these and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fedloom.data.named import Option
from fedloom.data.series.table import TASKS
from fedloom.data.series.tsgen import TsGen
from fedloom.data.split import Split, require_split
from fedloom.errors import InputError


@dataclass(frozen=True)
class Source:
    """One client: raw files of one layout, what they are, and which part of them is used for what.

    ``files``: recording -> key of a raw file, or key!path of a file inside an archive. ``joined``: the files are the
    training, validation and test part of one recording, in this order. ``labels``: recording -> pairs of stamps
    between which points are anomalous.
    """

    reader: str  # a name of fedloom.data.series.readers
    domain: str
    files: dict[str, str]
    seconds: float | None = None  # between points; None: irregular or unknown, the file's order decides
    season: int = 0  # points of the main season, 0: none
    options: dict[str, Option] = field(default_factory=dict)
    missing: tuple[float, ...] = ()  # numbers that stand for a missing value
    share: float | None = None  # of each recording that is used, from its first point
    without_last: int = 0  # points left out at the end of each recording
    seen: bool = False  # a downstream task uses the same source: pretraining gets its training part at most
    tasks: tuple[str, ...] = ()  # what a held-out target is for; none: pretraining
    bounds: tuple[int, int] | None = None  # first points of validation and test
    split: Split | None = None  # the same as shares of training, validation, test
    horizon: int = 0  # m4: points at the end of each series that are forecast
    joined: bool = False
    labels: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise InputError for settings that contradict each other."""
        unknown = [task for task in self.tasks if task not in TASKS]
        if unknown:
            raise InputError(f"series: tasks: expected some of {', '.join(TASKS)}, found {unknown[0]!r}")
        if self.bounds and self.split:
            raise InputError("series: expected bounds or split, found both")
        if self.split:
            require_split(self.split, "series")
        if ("m4" in self.tasks) != (self.horizon > 0):
            raise InputError(f"series: horizon: expected one with the task m4 and no other, found {self.horizon}")
        if self.joined and len(self.files) != 3:
            raise InputError(f"series: files: expected three to join, found {len(self.files)}")
        if self.share is not None and not 0 < self.share <= 1:
            raise InputError(f"series: share: expected a number in (0, 1], found {self.share}")


@dataclass(frozen=True)
class Collection:
    """A folder of one's own in the layout in which Hugging Face keeps a dataset on disk: arrow files.

    ``lotsa``: one subfolder a dataset, each a client. ``utsd``: rows of all datasets together, named by ``item_id`` as
    {domain}_{dataset}_{number}.
    """

    folder: str
    layout: Literal["lotsa", "utsd"]
    without: tuple[str, ...] = ()  # datasets left out, such as those that evaluation holds out
    domains: dict[str, str] = field(default_factory=dict)  # dataset -> domain, where the folder does not say


@dataclass(frozen=True)
class SeriesSettings:
    """How raw files, a folder of one's own, a generator or another dataset become series."""

    dataset: str
    part: str | None = None  # how a part of official data is named wherever its numbers appear
    sources: dict[str, Source] = field(default_factory=dict)  # client -> what it holds
    collection: Collection | None = None
    generate: TsGen | None = None
    series_of: str | None = None  # another dataset whose series these are, dealt to clients in another way

    def __post_init__(self) -> None:
        """Raise InputError unless exactly one origin of the series is named."""
        origins = {
            "sources": bool(self.sources),
            "collection": self.collection is not None,
            "generate": self.generate is not None,
            "series_of": self.series_of is not None,
        }
        named = [origin for origin, given in origins.items() if given]
        if len(named) != 1:
            raise InputError(f"series: expected one of {', '.join(origins)}, found {' and '.join(named) or 'none'}")
