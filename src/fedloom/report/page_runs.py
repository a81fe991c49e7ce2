"""The page's last section: the runs, what each cost, by which protocol and on what they were trained."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from fedloom.report.figure import MEGABYTE
from fedloom.report.layout import EMPTY
from fedloom.report.markup import html_table
from fedloom.report.names import Names

PROTOCOL = ("rounds", "batch", "epochs", "batches", "participation", "train_stride", "validation_stride", "precision")
NOTE = (
    "Rounds count from 0; selected is the round that was best in validation. Seconds are of training and validation, "
    "beside what else the machine had to do; traffic is that of all clients and rounds; peak is the memory of the "
    "process that trained, where it was measured."
)
ENVIRONMENT = ("device", "device_name", "python", "torch", "numpy")


def runs_section(records: Iterable[dict[str, Any]], labels: Mapping[str, str], names: Names) -> str:
    """Return the section (HTML) of the runs in ``records`` (see ``read_record``); ``labels`` name datasets in print."""
    known = sorted(records, key=lambda r: (r["dataset"], names.order((r["method"], r["variant"])), r["seed"]))
    specs = [json.loads((r["folder"] / "run.json").read_text(encoding="utf-8"))["spec"] for r in known]
    header = ["Dataset", "Method", "Variant", "Seed", "Rounds", "Selected", "Seconds", "MB up", "MB down", "Peak MB"]
    rows = [[*_who(r, labels, names), *_costs(r), _verdict(r)] for r in known]
    runs = html_table([*header, "Verdict"], rows, numbers=range(3, 10))
    protocols = html_table(["Dataset", "Runs", *map(_printed, PROTOCOL)], _protocols(specs, labels), range(1, 9))
    environments = html_table([*map(_printed, ENVIRONMENT), "Runs"], _environments(known), numbers=[5])
    parts = [
        f"<p>{NOTE}</p>\n{runs}",
        "<h3>Protocols as run</h3>",
        "<p>What a protocol says beyond these columns stands in <code>run.json</code>, with every parameter.</p>",
        protocols,
        f"<h3>Where they were trained</h3>\n{environments}",
    ]
    return "\n".join(['<section id="runs">\n<h2>Runs</h2>', *parts, "</section>"])


def _printed(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _who(record: dict[str, Any], labels: Mapping[str, str], names: Names) -> list[str]:
    finished = record["rounds"] and record["verdict"] == "finished"
    who = [labels[record["dataset"]], names.method(record["method"]), record["variant"], str(record["seed"])]
    return [*who, str(record["rounds"]), str(record["selected_round"]) if finished else EMPTY]


def _costs(record: dict[str, Any]) -> list[str]:
    timing = pd.read_parquet(record["folder"] / "timing.parquet").iloc[0]
    log = pd.read_parquet(record["folder"] / "rounds.parquet").groupby("quantity")["value"].sum()
    traffic = [f"{log.get(way, 0.0) / MEGABYTE:,.3g}" for way in ("bytes_up", "bytes_down")]
    peak = timing.get("peak_megabytes")
    return [f"{timing['seconds']:,.1f}", *traffic, EMPTY if peak is None else f"{peak:,.0f}"]


def _verdict(record: dict[str, Any]) -> str:
    return record["verdict"] if record["verdict"] != "diverged" else f"diverged: {record['reason']}"


def _protocols(specs: Sequence[dict[str, Any]], labels: Mapping[str, str]) -> list[list[str]]:
    found = Counter((s["dataset"], *(str(s["protocol"].get(p, EMPTY)) for p in PROTOCOL)) for s in specs)
    return [[labels[dataset], str(count), *values] for (dataset, *values), count in found.items()]


def _environments(records: Sequence[dict[str, Any]]) -> list[list[str]]:
    said = [json.loads((r["folder"] / "environment.json").read_text(encoding="utf-8")) for r in records]
    found = Counter(tuple(str(each.get(key, EMPTY)) for key in ENVIRONMENT) for each in said)
    return [[*values, str(count)] for values, count in found.items()]
