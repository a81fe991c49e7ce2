"""A dataset, ``config/datasets/{name}.yaml``: where its files come from, what they become, how that is split."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field, ValidationInfo, create_model, field_validator

from fedloom.config.checks import Strict, check, choose, read_yaml
from fedloom.config.files import (
    PANEL,
    PANEL_PARTITION,
    SERIES,
    SERIES_PARTITION,
    TRAJECTORIES,
    TRAJECTORY_PARTITION,
    TRUTH,
    YARDSTICKS,
    Files,
)
from fedloom.data.panels.settings import PanelSettings
from fedloom.data.series.settings import SeriesSettings
from fedloom.data.sources import RawFile
from fedloom.data.trajectories.settings import TrajectorySettings
from fedloom.data.trajectories.truth import TruthSettings
from fedloom.errors import InputError
from fedloom.partition.panels import PanelPartitionSettings
from fedloom.partition.series import SeriesPartitionSettings
from fedloom.partition.trajectories import TrajectoryPartitionSettings

T = TypeVar("T")

Role = Annotated[str, Field(pattern="^[a-z][a-z_]*$")]  # part of the name of a rule's input


class Dataset(Strict):
    """What all datasets have. Each section goes to one step of the pipeline, which sees its own and no other."""

    family: ClassVar[str]
    section: ClassVar[str]  # that which says how data are built; it names their folder too
    data_files: ClassVar[Files]
    partition_files: ClassVar[Files]
    shown_files: ClassVar[tuple[str, ...]]  # those files of data that tables and figures read
    yardstick_files: ClassVar[Files | None] = None  # what runs are measured by, where that is computed once for all

    title: str
    label: str | None = Field(None, description="name in print; without it the part that it is, or the file's name")
    licence: str
    files: dict[str, RawFile] = Field({}, description="key -> raw file; generated data have none")
    beside: dict[Role, str] = Field({}, description="role -> dataset that evaluation reads beside this one")

    def settings(self, section: str) -> str:
        """One section, as sorted JSON."""
        return _json(getattr(self, section))

    def fetch_section(self, key: str) -> str:
        """The settings of fetching one raw file, as sorted JSON."""
        return _json(self.files[key])

    def own_files(self, key: str) -> list[str]:
        """Paths of one's own files behind the raw file ``key``: when they change it is fetched again."""
        return [form.path for form in self.files[key].forms if form.path]

    @property
    def own_folders(self) -> list[str]:
        """Folders of one's own that data are built from: when they change the data are built anew."""
        return []

    @property
    def built_from(self) -> list[str]:
        """Other datasets from whose data these are built."""
        return []

    @property
    def others(self) -> list[str]:
        """Other datasets without which this one cannot be built or judged."""
        return [*self.beside.values(), *self.built_from]

    @property
    def truth_files(self) -> Files | None:
        """What is known of generated data beyond themselves, where that is an artifact."""
        return None


class PanelDataset(Dataset):
    """Readings of many places on one time axis."""

    family: ClassVar[str] = "forecast"
    section: ClassVar[str] = "panel"
    data_files: ClassVar[Files] = PANEL
    partition_files: ClassVar[Files] = PANEL_PARTITION
    shown_files: ClassVar[tuple[str, ...]] = ("about", "nodes", "edges", "features", "truth")

    panel: PanelSettings
    partition: PanelPartitionSettings = PanelPartitionSettings()


class TrajectoryDataset(Dataset):
    """Sequences of decisions and their outcomes."""

    family: ClassVar[str] = "trajectory"
    section: ClassVar[str] = "trajectories"
    data_files: ClassVar[Files] = TRAJECTORIES
    partition_files: ClassVar[Files] = TRAJECTORY_PARTITION
    shown_files: ClassVar[tuple[str, ...]] = ("about", "trajectories")
    yardstick_files: ClassVar[Files | None] = YARDSTICKS

    trajectories: TrajectorySettings
    truth: TruthSettings | None = Field(
        None, validate_default=True, description="generated data only, and always: what is computed of the known truth"
    )
    partition: TrajectoryPartitionSettings = TrajectoryPartitionSettings()

    @field_validator("truth")
    @classmethod
    def _truth_of_generated(cls, truth: TruthSettings | None, others: ValidationInfo) -> TruthSettings | None:
        settings = others.data.get("trajectories")
        if settings is not None and (truth is None) != (settings.generate is None):
            raise ValueError("a section where trajectories are generated, none where they are read")
        return truth

    @property
    def truth_files(self) -> Files | None:
        """What is known of generated data beyond themselves, where that is an artifact."""
        return TRUTH if self.truth is not None else None


class SeriesDataset(Dataset):
    """Recordings of many kinds, to pretrain on, or held out as targets."""

    family: ClassVar[str] = "series"
    section: ClassVar[str] = "series"
    data_files: ClassVar[Files] = SERIES
    partition_files: ClassVar[Files] = SERIES_PARTITION
    shown_files: ClassVar[tuple[str, ...]] = ("about",)

    series: SeriesSettings
    partition: SeriesPartitionSettings = SeriesPartitionSettings()

    @property
    def own_folders(self) -> list[str]:
        """Folders of one's own that data are built from: when they change the data are built anew."""
        return [self.series.collection.folder] if self.series.collection else []

    @property
    def built_from(self) -> list[str]:
        """Other datasets from whose data these are built."""
        return [self.series.series_of] if self.series.series_of else []


AnyDataset = PanelDataset | TrajectoryDataset | SeriesDataset

SECTIONS: dict[str, type[PanelDataset] | type[TrajectoryDataset] | type[SeriesDataset]] = {
    kind.section: kind for kind in (PanelDataset, TrajectoryDataset, SeriesDataset)
}


def read_dataset(path: Path) -> AnyDataset:
    """The dataset that the file at ``path`` describes; it bears the file's name. ``InputError`` if it is not one."""
    if not path.is_file():
        choose(path.stem, (other.stem for other in path.parent.glob("*.yaml")), f"{path.parent}: dataset")
    data = read_yaml(path)
    found = [name for name in SECTIONS if isinstance(data, dict) and isinstance(data.get(name), dict)]
    if len(found) != 1:
        expected, there = " or ".join(SECTIONS), " and ".join(found) or "none"
        raise InputError(f"{path}: {expected}: expected one such section, found {there}")
    (name,) = found
    return check(SECTIONS[name], data | {name: {"dataset": path.stem} | data[name]}, str(path))


def read_section(kind: type[T], text: str, where: str = "--config") -> T:
    """One section as a ``kind``, from the JSON that ``Dataset`` gave for it; ``InputError`` if it is not one."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: expected JSON, found {error.msg} at column {error.colno}") from error
    # Only inside a strict model does pydantic refuse keys that a dataclass does not have.
    section: Any = create_model("Section", __base__=Strict, section=(kind, ...))
    checked: T = check(section, {"section": data}, where).section
    return checked


def _json(section: Any) -> str:
    return json.dumps(dataclasses.asdict(section), sort_keys=True)
