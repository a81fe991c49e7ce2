"""The numbers of runs on which claims are tested, with the units over which an interval resamples them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors import safe_open

from fedloom.evaluation.forecast.conditions import MASKED
from fedloom.evaluation.rows import condition, draws_key
from fedloom.report.claims.settings import Quantity
from fedloom.report.names import Run
from fedloom.report.numbers import UNITS, fitting
from fedloom.report.significance import SUMS

Floats = NDArray[np.float64]

SQUARED = ("rmse", "pehe_root")
MEANS = ("mae", "mse", "pehe_mse", *SQUARED)
"""Metrics that are means over readings, or roots of such means, so that clients' values make up the pooled one."""


@dataclass(frozen=True)
class Sample:
    """A number of a run: ``sums_SCK`` over S seeds, C units and K blocks of time, ``count_CK`` readings behind them.

    The number is the ratio of the sums, or its ``root``, averaged over seeds. ``counted``: nothing was sampled.
    ``keyed``: units are values of a key, such as draws of noise, not clients. ``drawn_SR`` are R draws that evaluation
    kept of it, draw r of the same clients in all runs.
    """

    seeds: tuple[int, ...]
    units: tuple[str, ...]
    sums_SCK: Floats
    count_CK: Floats
    root: bool = False
    counted: bool = False
    keyed: bool = False
    drawn_SR: Floats | None = None

    def of(self, seeds: Iterable[int], units: Iterable[str]) -> Sample:
        """The same number of these seeds and units."""
        s, c = ([own.index(each) for each in asked] for own, asked in ((self.seeds, seeds), (self.units, units)))
        names = tuple(self.seeds[i] for i in s), tuple(self.units[i] for i in c)
        drawn = None if self.drawn_SR is None else self.drawn_SR[s]
        sums, count = self.sums_SCK[np.ix_(s, c)], self.count_CK[c]
        return replace(self, seeds=names[0], units=names[1], sums_SCK=sums, count_CK=count, drawn_SR=drawn)

    def without_units(self) -> Sample:
        """The same number with nothing but seeds to resample."""
        whole_S = self.sums_SCK.sum((1, 2)) / self.count_CK.sum()
        value_S = np.sqrt(whole_S) if self.root else whole_S
        return Sample(self.seeds, ("all",), value_S[:, None, None], np.ones((1, 1)), counted=self.counted)

    def on_each(self, units: tuple[str, ...]) -> Sample:
        """The same number in every one of these units, for a comparison with what differs between them."""
        sums_SCK = np.repeat(self.without_units().sums_SCK, len(units), axis=1)
        return Sample(self.seeds, units, sums_SCK, np.ones((len(units), 1)), keyed=True)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Seeds, units and blocks."""
        s, c, k = self.sums_SCK.shape
        return s, c, k

    @property
    def value(self) -> float:
        """The number."""
        return float(self.without_units().sums_SCK.mean())


class Absent(Exception):
    """There is no such number, and why."""


class Evidence:
    """The runs of a study: their ``metrics``, and the folders with what they logged and recorded."""

    def __init__(self, metrics: pd.DataFrame, folders: Iterable[Path]) -> None:
        self._metrics = metrics
        self._found: dict[tuple[object, ...], Sample] = {}
        self._records = [
            json.loads((folder / "run.json").read_text(encoding="utf-8")) | {"folder": folder} for folder in folders
        ]

    @property
    def datasets(self) -> list[str]:
        """Datasets of the runs, in order."""
        return list(dict.fromkeys(record["spec"]["dataset"] for record in self._records))

    def has(self, dataset: str, run: Run) -> bool:
        """Whether there is a run of that method's variant."""
        return bool(self._of(dataset, run))

    def clients(self, dataset: str, run: Run) -> int:
        """How many clients the run has."""
        return len(self._of(dataset, run)[0]["clients"])

    def levels(self, dataset: str, run: Run, quantity: Quantity, by: str) -> list[str]:
        """The values of the key ``by`` for which the run has the number, by size."""
        rows, keys = self._rows(dataset, run, quantity, (by,))
        return sorted({keys[found][by] for found in rows["condition"]}, key=float)

    def predictions(self, dataset: str, run: Run, quantity: Quantity) -> list[str]:
        """The rows that no method makes which stand beside the number, such as constant forecasts."""
        rows, parts = self._rows(dataset, run, quantity, ("prediction",))
        return list(dict.fromkeys(parts[found]["prediction"] for found in rows["condition"]))

    def sample(self, dataset: str, run: Run, quantity: Quantity, at: Mapping[str, str] | None = None) -> Sample:
        """The number, ``at`` further parts of its condition. Raises Absent."""
        asked = dataset, run, repr(quantity), tuple((at or {}).items())
        if asked not in self._found:
            self._found[asked] = self._sample(dataset, run, quantity, at)
        return self._found[asked]

    def _sample(self, dataset: str, run: Run, quantity: Quantity, at: Mapping[str, str] | None) -> Sample:
        records = self._of(dataset, run)
        if not records:
            raise Absent("no run")
        if quantity.record or quantity.log:
            return _counted(records, quantity)
        if at:
            return self._rated(dataset, run, quantity, at)
        sums = self._blocks(records, quantity)
        return sums or self._with_draws(records, quantity, self._rated(dataset, run, quantity, {}))

    def _of(self, dataset: str, run: Run) -> list[dict[str, Any]]:
        asked = (dataset, *run)
        return [r for r in self._records if tuple(r["spec"][k] for k in ("dataset", "method", "variant")) == asked]

    @cached_property
    def _by_run(self) -> dict[tuple[str, str, str], pd.DataFrame]:
        return dict(list(self._metrics.groupby(["dataset", "method", "variant"], sort=False)))

    def _rows(
        self, dataset: str, run: Run, quantity: Quantity, further: Iterable[str] = (), fixed: Mapping[str, str] = {}
    ) -> tuple[pd.DataFrame, dict[str, dict[str, str]]]:
        """The metric's rows with the right keys in their condition, and the parts of each condition."""
        frame = self._by_run.get((dataset, *run), self._metrics.iloc[:0])
        frame = frame[(frame["metric"] == quantity.metric) & (frame["selection"] == quantity.selection)]
        frame = frame[frame["horizon"] == quantity.horizon]
        where = {**quantity.where, **fixed}
        free = {*quantity.over, *further, *([quantity.units] if quantity.units else [])}
        parts = fitting(frame, where, free)
        return frame[frame["condition"].isin(parts)], parts

    def _blocks(self, records: list[dict[str, Any]], quantity: Quantity) -> Sample | None:
        """Error sums by client and block of time, where evaluation kept them for this number."""
        kept = quantity.metric in SUMS and quantity.unit == "pooled" and quantity.selection == "selected"
        if not kept or quantity.horizon != "all" or condition(**quantity.where) != MASKED or quantity.over:
            return None
        finished = [record for record in records if record["verdict"] == "finished"]
        if any(record["clients"] != finished[0]["clients"] for record in finished):
            return None  # runs on a share of the clients, which each seed draws anew: rows are not the same clients
        read = [[_tensor(r["folder"], name) for name in (SUMS[quantity.metric], "count")] for r in finished]
        kept_CK = [array for of_run in read for array in of_run if array is not None]
        if not finished or len(kept_CK) < 2 * len(finished) or len({array.shape for array in kept_CK}) > 1:
            return None
        seeds = tuple(record["spec"]["seed"] for record in finished)
        judged = kept_CK[1].sum(1) > 0  # clients that forecast nothing are no units
        clients = tuple(np.array(finished[0]["clients"])[judged].tolist())
        sums_SCK = np.stack(kept_CK[::2])[:, judged]
        return Sample(seeds, clients, sums_SCK, kept_CK[1][judged], quantity.metric in SQUARED)

    def _with_draws(self, records: list[dict[str, Any]], quantity: Quantity, sample: Sample) -> Sample:
        """The sample with the draws that evaluation kept of this number, where it did for all its seeds."""
        if quantity.over or quantity.units or quantity.selection != "selected":
            return sample
        number = {name: getattr(quantity, name) for name in ("unit", "metric", "horizon")}
        key = draws_key(number | {"condition": condition(**quantity.where)})
        folders = {record["spec"]["seed"]: record["folder"] for record in records}
        kept = [draws for seed in sample.seeds if (draws := _tensor(folders[seed], key)) is not None]
        return replace(sample, drawn_SR=np.stack(kept)) if len(kept) == len(sample.seeds) else sample

    def _rated(self, dataset: str, run: Run, quantity: Quantity, at: Mapping[str, str]) -> Sample:
        """The number from the table of metrics, by whatever units stand there."""
        rows, parts = self._rows(dataset, run, quantity, fixed=at)
        if rows.empty:
            raise Absent("no such number")
        if rows["value"].isna().all():
            raise Absent(str(rows["reason"].iloc[0]))
        if quantity.units:
            rows = rows[rows["unit"] == quantity.unit]
            named = rows["condition"].map(lambda c: parts[c][quantity.units])
            return replace(_pivoted(rows.assign(unit=named, n=1), root=False), keyed=True)
        single = rows[~rows["unit"].isin(UNITS)]
        alike = quantity.unit == "mean" or (quantity.metric in MEANS and not quantity.over)
        if len(single) and alike:
            root = quantity.unit == "pooled" and quantity.metric in SQUARED
            return _pivoted(single if quantity.unit == "pooled" else single.assign(n=1), root)
        return _pivoted(rows[rows["unit"] == quantity.unit].assign(unit="all", n=1), root=False)


def _tensor(folder: Path, name: str) -> Floats | None:
    """An array of a run's diagnostics, or None where it has none of that name."""
    with safe_open(folder / "diagnostics.safetensors", "np") as kept:
        return kept.get_tensor(name).astype(np.float64) if name in kept.keys() else None  # noqa: SIM118


def _pivoted(rows: pd.DataFrame, root: bool) -> Sample:
    """Rows as a sample; a unit that any seed lacks is left out, and conditions are averaged."""
    value = rows.pivot_table("value", "seed", "unit", "mean", sort=False).dropna(axis=1)
    if value.empty:
        raise Absent("no value of it")
    n_C = rows.groupby("unit")["n"].first().loc[value.columns].to_numpy(dtype=np.float64)
    value_SC = value.to_numpy(dtype=np.float64)
    sums_SC = (value_SC**2 if root else value_SC) * n_C
    names = tuple(map(int, value.index)), tuple(map(str, value.columns))
    return Sample(*names, sums_SC[:, :, None], n_C[:, None], root)


def _counted(records: list[dict[str, Any]], quantity: Quantity) -> Sample:
    """What was counted of every run, one value a seed."""
    found = []
    for record in records:
        if quantity.record == "diverged":
            found.append(float(record["verdict"] == "diverged"))
        elif quantity.record == "parameters":
            found.append(float(np.mean(record["client_parameters"])))
        elif quantity.record == "all_parameters":
            found.append(float(np.sum(record["client_parameters"]) + record["central_parameters"]))
        else:
            log = pd.read_parquet(record["folder"] / "rounds.parquet")
            found.append(float(log.loc[log["quantity"] == quantity.log, "value"].mean()))
    if not np.isfinite(found).all():
        raise Absent(f"no {quantity.log} in its log")
    seeds = tuple(record["spec"]["seed"] for record in records)
    return Sample(seeds, ("all",), np.array(found)[:, None, None], np.ones((1, 1)), counted=True)
