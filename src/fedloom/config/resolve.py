"""From settings, scale and studies to the runs that exist and the artifacts that show them.

Everything about a run that may change its numbers ends up in its *spec*, a plain sorted mapping:
``{"dataset", "family", "method", "variant", "seed", "params", "model", "protocol"}`` with every default written out,
and where its variant says so ``"start"``, the run that it starts from, and ``"clients"``, those that it is run on. A
run that several groups, artifacts or studies show exists once, as does one that others start from.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from fedloom.config.artifact import ArtifactPlan, RunKey
from fedloom.config.checks import check, choose, one_of
from fedloom.config.dataset import AnyDataset, read_dataset
from fedloom.config.further import FURTHER
from fedloom.config.plan import Plan, Spec, source_of
from fedloom.config.scale import Group, Scale, StudyRuns, read_scale
from fedloom.config.settings import Settings, seed_list
from fedloom.config.study import Study, read_study
from fedloom.errors import InputError
from fedloom.evaluation.families import registry as evaluations
from fedloom.federation.protocol import Protocol
from fedloom.federation.starting import Start
from fedloom.federation.subset import Subset
from fedloom.federation.tasks import registry as families
from fedloom.methods import registry as methods
from fedloom.models import registry as models
from fedloom.report import registry as drawings
from fedloom.report.registry import Drawing

BEGUN = {"start": Start, "clients": Subset}  # what a variant may say of a run beyond its method's parameters
OF_A_VARIANT = ("model", "protocol", *BEGUN)  # what a variant says of these goes to them, not to the method

_method, _model, _family = cache(methods.get), cache(models.get), cache(families.get)
_judge = cache(evaluations.module)


def read_plan(folder: Path, settings: Settings) -> Plan:
    """The plan that ``settings`` ask for, from the scales, studies and datasets below ``folder`` (``config``).

    Raises:
        InputError: a name that does not exist, a parameter that its owner does not have, or two groups that ask for
            different runs under one name.
    """
    scale_path = folder / "scales" / f"{settings.scale}.yaml"
    scale = read_scale(folder / "scales", settings.scale)
    datasets = _Datasets(folder / "datasets")
    titles: dict[str, str] = {}
    runs: dict[RunKey, Spec] = {}
    artifacts: list[ArtifactPlan] = []
    targets: dict[str, tuple[str, ...]] = {}
    further: dict[str, dict[RunKey, Spec]] = {}
    for name in scale.studies if settings.studies is None else settings.studies:
        study = read_study(folder / "studies", name)
        choose(name, scale.studies, f"{scale_path}: studies")
        resolver = _Resolver(name, study, scale, f"{scale_path}: studies.{name}", datasets, settings)
        groups = resolver.groups(runs)
        for artifact_name, artifact in study.artifacts.items():
            keys = tuple(dict.fromkeys(key for group in artifact.shows for key in groups.get(group, ())))
            drawing = resolver.drawing(artifact_name)
            if keys:
                how = artifact, drawing, study.foremost
                artifacts.append(ArtifactPlan(name, artifact_name, settings.scale, *how, keys, datasets))
                for each in artifact.also:
                    further.setdefault(each, {}).update(dict.fromkeys(keys, resolver.further(each)))
        titles[name] = study.title
        for target, wanted in {name: tuple(study.artifacts), **study.targets}.items():
            if target in targets:
                raise InputError(f"config/studies/{name}.yaml: targets.{target}: the name is taken by another target")
            made = [each for each in artifacts if each.study == name and each.name in wanted]
            files = (file for each in made for file in each.files)
            targets[target] = (*files, *([f"results/{name}/metrics.parquet"] if target == name and made else []))
    named = {key.dataset for key in runs}
    used = {name: datasets[name] for name in sorted(named.union(*(datasets[name].others for name in named)))}
    return Plan(settings.scale, scale.threads, titles, used, runs, tuple(artifacts), targets, further, scale.about)


def plugged(spec: Spec) -> tuple[type, ...]:
    """The classes that a run plugs into the steps: its task, its method and, where it takes one, its client model."""
    model = spec["model"]
    return (_family(spec["family"]), _method(spec["method"]), *([_model(model["name"])] if model else []))


def evaluated_by(spec: Spec) -> ModuleType:
    """The module that judges the run."""
    return _judge(spec["family"])


def as_text(spec: Spec) -> str:
    """``spec`` as one line of JSON, the same for the same spec."""
    return json.dumps(spec, sort_keys=True)


class _Datasets(Mapping[str, AnyDataset]):
    """The datasets of a folder; a file is read when it is asked for, and once."""

    def __init__(self, folder: Path) -> None:
        self._paths = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
        self._read = cache(read_dataset)

    def __getitem__(self, name: str) -> AnyDataset:
        return self._read(self._paths[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


@dataclass(frozen=True)
class _Resolver:
    name: str
    study: Study
    scale: Scale
    where: str
    datasets: _Datasets
    settings: Settings

    @cached_property
    def methods(self) -> list[str]:
        return methods.names()

    @property
    def asked(self) -> StudyRuns:
        return self.scale.studies[self.name]

    def groups(self, runs: dict[RunKey, Spec]) -> dict[str, list[RunKey]]:
        """Runs of every group of the study; new ones are added to ``runs``."""
        self._check_names()
        found: dict[str, list[RunKey]] = {}
        for group_name, parts in self.asked.groups.items():
            for position, group in enumerate(parts):
                where = f"{self.where}.groups.{group_name}.{position}"
                for key, spec in self._runs(group, where):
                    found.setdefault(group_name, []).append(key)
                    for each, of_each in ((key, spec), *self._sources(spec, group, where)):
                        if runs.setdefault(each, of_each) != of_each:
                            raise InputError(f"{where}: {_difference(each, runs[each], of_each)}")
        return found

    def further(self, name: str) -> Spec:
        """The settings of what is computed of runs beside their metrics."""
        return _resolved(FURTHER[name], [(f"{self.where}.also.{name}", self.asked.also.get(name, {}))])

    def drawing(self, artifact: str) -> Drawing:
        """What draws the artifact; its options are checked."""
        asked = self.study.artifacts[artifact]
        where = f"config/studies/{self.name}.yaml: artifacts.{artifact}"
        drawing = drawings.drawing(choose(asked.draw, drawings.drawings(), f"{where}.draw"))
        _resolved(drawing.options, [(f"{where}.options", asked.options)])
        return drawing

    def _check_names(self) -> None:
        shown = {group for artifact in self.study.artifacts.values() for group in artifact.shows}
        for group in self.asked.groups:
            choose(group, shown, f"{self.where}.groups: no artifact shows the group")
        for name in self.asked.also:
            choose(name, FURTHER, f"{self.where}.also")
        if self.study.foremost:
            choose(self.study.foremost, self.methods, f"config/studies/{self.name}.yaml: foremost")
        for method in self.study.variants:
            choose(method, self.methods, f"config/studies/{self.name}.yaml: variants")
        for place, params in [("params", self.asked.params)] + [
            (f"groups.{name}.{i}.params", group.params)
            for name, parts in self.asked.groups.items()
            for i, group in enumerate(parts)
        ]:
            for method in params:
                choose(method, self.methods, f"{self.where}.{place}")

    def _runs(self, group: Group, where: str) -> Iterator[tuple[RunKey, Spec]]:
        choose(group.dataset, self.datasets, f"{where}.dataset")
        others = self.datasets.keys() - {group.dataset}
        for role, other in self.datasets[group.dataset].beside.items():
            choose(other, others, f"config/datasets/{group.dataset}.yaml: beside.{role}")
        for other in self.datasets[group.dataset].others:
            choose(other, others, f"config/datasets/{group.dataset}.yaml: another dataset")
        family = self.datasets[group.dataset].family
        if family != self.study.family:
            raise InputError(
                f"{where}.dataset: expected data of family {self.study.family}, found {group.dataset} ({family})"
            )
        seeds = seed_list(self.settings.seeds if self.settings.seeds is not None else group.seeds)
        for named in group.methods:
            method, _, variant = named.partition("/")
            choose(method, self.methods, f"{where}.methods")
            learns = _method(method).family
            if learns not in (None, family):
                raise InputError(f"{where}.methods: expected methods of family {family}, found {method} ({learns})")
            for each in self._variants(method, variant or "base", group, where):
                told = self._told(method, each, group, where)
                for seed in seeds:
                    key = RunKey(group.dataset, method, each, seed)
                    yield key, key._asdict() | told

    def _told(self, method: str, variant: str, group: Group, where: str) -> Spec:
        """The spec of a method's variant in a group, whatever its dataset and seed."""
        told = {
            "family": self.study.family,
            "params": self._params(method, variant, group, where),
            "model": self._model(method, variant, group, where),
            "protocol": self._protocol(method, variant, group, where),
            **self._begun(method, variant),
        }
        place = where if variant == "base" else self._place(method, variant)
        methods.make({"method": method} | told).refuse(Protocol(**told["protocol"]), f"{place}.protocol")
        return told

    def _sources(self, spec: Spec, group: Group, where: str) -> Iterator[tuple[RunKey, Spec]]:
        """The run that ``spec`` starts from, the one that this starts from, and so on, as the group would run them."""
        behind: set[RunKey] = set()
        while (key := source_of(spec)) is not None:
            named = f"{self._place(spec['method'], spec['variant'])}.start.run"
            choose(key.method, self.methods, named)
            choose(key.variant, ["base", *self.study.variants.get(key.method, {})], f"{named}: variant of {key.method}")
            if key in behind:
                raise InputError(f"{named}: expected a run that starts anew sooner or later, found a circle")
            behind.add(key)
            spec = key._asdict() | self._told(key.method, key.variant, group, where)
            yield key, spec

    def _variants(self, method: str, variant: str, group: Group, where: str) -> list[str]:
        known = ["base", *self.study.variants.get(method, {})]
        if variant != "*":
            return [choose(variant, known, f"{where}.methods: variant of {method}")]
        # A variant that only names what this scale has as its base would be the same run twice.
        base = self._told(method, "base", group, where)
        return ["base", *(each for each in known[1:] if self._told(method, each, group, where) != base)]

    def _params(self, method: str, variant: str, group: Group, where: str) -> dict[str, Any]:
        layers = [
            (f"{self.where}.params.{method}", self.asked.params.get(method, {})),
            (f"{where}.params.{method}", group.params.get(method, {})),
        ]
        differs = self._variant(method, variant)
        own = {name: value for name, value in differs.items() if name not in OF_A_VARIANT}
        return _resolved(_method(method).Params, [*layers, (self._place(method, variant), own)])

    def _variant(self, method: str, variant: str) -> dict[str, Any]:
        return {} if variant == "base" else self.study.variants[method][variant]

    def _place(self, method: str, variant: str) -> str:
        return f"config/studies/{self.name}.yaml: variants.{method}.{variant}"

    def _begun(self, method: str, variant: str) -> dict[str, Any]:
        """Where a variant's runs start from and on which clients they are run, as far as it says so."""
        differs, place = self._variant(method, variant), self._place(method, variant)
        said = {name: kind for name, kind in BEGUN.items() if name in differs}
        if "clients" in said and not hasattr(_family(self.study.family), "only"):
            raise InputError(f"{place}.clients: expected no choice, since family {self.study.family} takes all clients")
        return {name: _resolved(kind, [(f"{place}.{name}", differs[name])]) for name, kind in said.items()}

    def _protocol(self, method: str, variant: str, group: Group, where: str) -> dict[str, Any]:
        differs = self._variant(method, variant).get("protocol", {})
        asked = (f"{where}.protocol", self.scale.protocol | group.protocol)
        return _resolved(Protocol, [asked, (f"{self._place(method, variant)}.protocol", differs)])

    def _model(self, method: str, variant: str, group: Group, where: str) -> dict[str, Any] | None:
        differs = self._variant(method, variant).get("model", {})
        if not _method(method).takes_model:
            if differs:
                raise InputError(f"{self._place(method, variant)}.model: {method} takes no client model")
            return None
        if self.study.model is None:
            raise InputError(f"config/studies/{self.name}.yaml: model: missing, but {method} takes a client model")
        choose(self.study.model, models.names(), f"config/studies/{self.name}.yaml: model")
        layers = [(f"{self.where}.model", self.asked.model), (f"{where}.model", group.model)]
        layers.append((f"{self._place(method, variant)}.model", differs))
        return {"name": self.study.model, "params": _resolved(_model(self.study.model).Params, layers)}


def _resolved(kind: type, layers: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """All fields of the dataclass ``kind``: its defaults under ``layers``, the last layer on top."""
    known = sorted(field.name for field in dataclasses.fields(kind))
    values: dict[str, Any] = {}
    for where, layer in layers:
        for name, value in layer.items():
            if name not in known:
                raise InputError(f"{where}: unknown key {name!r}, expected {one_of(name, known)}")
            values[name] = value
        check(kind, values, where)
    return dict(sorted(dataclasses.asdict(check(kind, values, layers[-1][0])).items()))


def _difference(key: RunKey, one: Spec, other: Spec) -> str:
    for part in ("params", *OF_A_VARIANT):
        if one.get(part) != other.get(part):
            a, b = (spec.get(part) or {} for spec in (one, other))
            names = [name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)]
            return (
                f"{'/'.join(map(str, key))} is asked for twice with different {part}.{names[0]}: "
                f"{a.get(names[0])!r} and {b.get(names[0])!r}"
            )
    raise AssertionError("equal specs")
