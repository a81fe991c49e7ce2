"""The page's last section: the runs, what each cost, by which protocol and on what they were trained."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from fedloom.report.captions import PROTOCOL, printed_setting
from fedloom.report.costs import megabytes
from fedloom.report.layout import EMPTY
from fedloom.report.markup import PageTable
from fedloom.report.names import Names

NOTE = (
    "Rounds count from 0; selected is the round that was best in validation, and a dash where nothing was trained or "
    "training broke off. Seconds are of training and validation, beside what else the machine had to do; traffic is "
    "that of all clients and rounds (MB: 10⁶ bytes); peak is the memory of the process that trained, where it was "
    "measured. Runs that others start from are listed, too."
)
ENVIRONMENT = ("device", "device_name", "python", "torch", "numpy")


def runs_tables(records: Iterable[dict[str, Any]], labels: Mapping[str, str], names: Names) -> dict[str, PageTable]:
    """Return the tables of the runs in ``records`` (see ``read_record``), of their protocols and where they ran.

    ``labels`` name datasets in print.
    """
    known = sorted(records, key=lambda r: (r["dataset"], names.order((r["method"], r["variant"])), r["seed"]))
    specs = [json.loads((r["folder"] / "run.json").read_text(encoding="utf-8"))["spec"] for r in known]
    header = ["Dataset", "Method", "Seed", "Rounds", "Selected", "Seconds", "MB up", "MB down", "Peak MB", "Verdict"]
    rows = [[*_who(r, labels, names), *_costs(r), _verdict(r)] for r in known]
    asked = ["Dataset", "Methods", "Runs", *map(_printed, PROTOCOL)]
    return {
        "runs": PageTable("runs", header, rows, range(2, 9), index=2),
        "protocols": PageTable("protocols", asked, _protocols(specs, labels, names), range(2, len(asked)), index=2),
        "environments": PageTable("environments", [*map(_printed, ENVIRONMENT), "Runs"], _environments(known), [5]),
    }


def runs_section(tables: Mapping[str, PageTable]) -> str:
    """Return the section (HTML) of the runs from ``runs_tables``."""
    parts = [
        f"<p>{NOTE}</p>\n{tables['runs'].html}",
        "<h3>Protocols as run</h3>",
        "<p>What a protocol says beyond these columns stands in <code>run.json</code>, with every parameter.</p>",
        tables["protocols"].html,
        f"<h3>Where they were trained</h3>\n{tables['environments'].html}",
    ]
    return "\n".join(['<section id="runs">\n<h2>Runs</h2>', *parts, "</section>"])


def _printed(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _who(record: dict[str, Any], labels: Mapping[str, str], names: Names) -> list[str]:
    finished = record["rounds"] and record["verdict"] == "finished"
    who = [labels[record["dataset"]], _run(names, record["method"], record["variant"]), str(record["seed"])]
    return [*who, str(record["rounds"]), str(record["selected_round"]) if finished else EMPTY]


def _run(names: Names, method: str, variant: str) -> str:
    """A run in print, with its method where the variant's name does not begin with it."""
    label, base = names.run((method, variant)), names.method(method)
    return label if label.startswith(base) else f"{base}: {label}"


def _costs(record: dict[str, Any]) -> list[str]:
    timing = pd.read_parquet(record["folder"] / "timing.parquet").iloc[0]
    log = pd.read_parquet(record["folder"] / "rounds.parquet").groupby("quantity")["value"].sum()
    traffic = [megabytes(log.get(way, 0.0)) for way in ("bytes_up", "bytes_down")]
    peak = timing.get("peak_megabytes")
    return [f"{timing['seconds']:,.1f}", *traffic, EMPTY if peak is None else f"{peak:,.0f}"]


def _verdict(record: dict[str, Any]) -> str:
    return record["verdict"] if record["verdict"] != "diverged" else f"diverged: {record['reason']}"


def _protocols(specs: Sequence[dict[str, Any]], labels: Mapping[str, str], names: Names) -> list[list[str]]:
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for spec in specs:
        settings = (printed_setting(name, spec["protocol"].get(name)) for name in PROTOCOL)
        found.setdefault((spec["dataset"], *settings), []).append(spec)
    return [
        [labels[dataset], _methods(of, names), str(len(of)), *settings] for (dataset, *settings), of in found.items()
    ]


def _methods(specs: Sequence[dict[str, Any]], names: Names) -> str:
    """Methods in print, with how many of their variants there are."""
    variants: dict[str, set[str]] = {}
    for spec in specs:
        variants.setdefault(spec["method"], set()).add(spec["variant"])
    said = []
    for method, of in variants.items():
        others = len(of - {"base"})
        counted = f"{others} {'variants' if others > 1 else 'variant'}"
        said.append(
            names.method(method) + ("" if not others else f" and {counted}" if "base" in of else f": {counted}")
        )
    return ", ".join(said)


def _environments(records: Sequence[dict[str, Any]]) -> list[list[str]]:
    said = [json.loads((r["folder"] / "environment.json").read_text(encoding="utf-8")) for r in records]
    found = Counter(tuple(str(each.get(key, EMPTY)) for key in ENVIRONMENT) for each in said)
    return [[*values, str(count)] for values, count in found.items()]
