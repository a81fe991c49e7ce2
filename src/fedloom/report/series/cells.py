"""What the artifacts of studies of series share: names, tidy numbers by condition, cells, published values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fedloom.evaluation.causal.rows import condition
from fedloom.report.causal.cells import first, pick, tidy, with_parts
from fedloom.report.labels import method_label
from fedloom.report.layout import EMPTY, Cell
from fedloom.report.shown import Shown

Method = tuple[str, str]
DECIMALS = 3

TARGETS = {
    "etth1": "ETTh1",
    "etth2": "ETTh2",
    "ettm1": "ETTm1",
    "ettm2": "ETTm2",
    "weather": "Weather",
    "ili": "ILI",
    "exchange": "Exchange",
    "bike-sharing": "Bike sharing",
    "appliances": "Appliances",
    "m4-hourly": "M4 hourly",
    "basic-motions": "BasicMotions",
    "atrial-fibrillation": "AtrialFibrillation",
    "pig-art-pressure": "PigArtPressure",
    "worms": "Worms",
    "ecg": "ECG",
    "internal-bleeding": "Internal bleeding",
    "nab": "NAB",
    "nab-taxi": "NAB taxi",
    "nab-ambient": "NAB ambient",
    "gecco-water": "GECCO water",
}
VARIANT_LABELS = {
    "no_alignment": "w/o alignment (λ = 0)",
    "no_dbe": "w/o DBE",
    "no_core_set": "w/o core-set tuning (α = 1)",
    "no_correction": "w/o gradient correction",
    "no_gbe": "w/o GBE",
    "rms": "rms seasonal part",
    "damped": "damped correction",
    "feddyn": "FedDyn correction",
    "literal": "correction as printed",
    "dbe": "with DBE",
}
REFERENCES = {
    "linear_interpolation": "Linear interpolation",
    "last_value": "Last value",
    "window_mean": "Window mean",
    "seasonal_naive": "Seasonal naive",
    "naive2": "Naive 2",
    "commonest": "Commonest class",
    "random": "Random scores",
}
PUBLISHED_MODELS = {"moirai_base": "Moirai-base", "chronos_large": "Chronos-large", "time_moe_ultra": "Time-MoE-ultra"}
UNVERIFIED = "verified=no"
MASKED = {"task": "reconstruction", "rate": "mean", "space": "z"}
"""Condition of the headline: masked reconstruction of the clients' test windows, mean over rates."""

HEADLINE = MASKED | {"target": ""}


def numbers(shown: Shown, *tasks: str) -> pd.DataFrame:
    """Return ``tidy`` numbers of the runs in ``tasks``: means over clients, or over windows of a held-out set."""
    frame = tidy(shown)
    return frame[(frame["unit"] == "mean") & frame["of_task"].isin(tasks)].reset_index(drop=True)


def masked_errors(shown: Shown) -> pd.DataFrame:
    """Return the metrics that are the headline's MSE by the selected weights, of every client and their mean."""
    frame = shown.metrics
    wanted = (frame["condition"] == condition(**MASKED)) & (frame["metric"] == "mse")
    return frame[wanted & (frame["selection"] == "selected")]


def of_methods(frame: pd.DataFrame, **series: Any) -> pd.DataFrame:
    """Return the rows of ``pick`` that are methods' own, without reference rows."""
    return pick(frame, prediction="", **series)


def target_label(target: str) -> str:
    """Return a held-out set's name in print."""
    return TARGETS.get(target, target)


def label(method: str, variant: str) -> str:
    """Return the name of a method's variant in print, with the method's; FeDaL's variants go by what they change."""
    name = method_label(method) if method not in PUBLISHED_MODELS else PUBLISHED_MODELS[method]
    if variant == "base":
        return name
    changed = VARIANT_LABELS.get(variant, variant.replace("_", " "))
    return f"{name} {changed}" if changed.startswith("with") else f"{name}, {changed}"


def names(shown: Shown) -> list[Method]:
    """Return the methods' variants that are shown, in order, FeDaL's first."""
    found = dict.fromkeys(zip(shown.runs["method"], shown.runs["variant"], strict=True))
    return sorted(found, key=lambda name: name[0] != "fedal")


def cell(frame: pd.DataFrame, decimals: int = DECIMALS) -> Cell:
    """Return the cell of the one row of ``frame``: mean ± deviation, or why there is none; a dash without a row."""
    return first(frame, decimals)


def mean_over(frame: pd.DataFrame, decimals: int = DECIMALS) -> Cell:
    """Return the cell of the mean over the rows of ``frame`` (such as held-out sets), without a deviation.

    Where any of them is null its reason stands there: a mean over fewer sets would be another quantity.
    """
    if frame.empty:
        return Cell(EMPTY)
    null = frame[frame["ours_mean"].isna()]
    if len(null):
        return Cell("diverged" if null["diverged"].any() else str(null["note"].iloc[0]))
    return Cell(f"{frame['ours_mean'].mean():.{decimals}f}")


def published(shown: Shown, table: str, **wanted: Any) -> pd.DataFrame:
    """Return published values whose columns, or parts of the condition, are as wanted."""
    frame = shown.references[shown.references["table"] == table].reset_index(drop=True)
    return pick(with_parts(frame), **wanted)


def published_cell(found: pd.DataFrame, decimals: int = DECIMALS) -> Cell:
    """Return the cell of a published value; an asterisk marks one that was transcribed and not verified."""
    if found.empty:
        return Cell(EMPTY)
    row = found.iloc[0]
    mark = "*" if UNVERIFIED in row["condition"] else ""
    return Cell(f"{row['value']:.{decimals}f}{mark}")


def transcribed(cells: Sequence[Cell]) -> str:
    """Say what an asterisk means, where there is one among ``cells``."""
    there = any(cell.text.endswith("*") for cell in cells)
    return "*: from another project's transcription, not verified." if there else ""


def protocol_facts(shown: Shown) -> str:
    """Say how many rounds, minibatches a round and clients a round the runs took, and at which sizes."""
    said = []
    for dataset in shown.datasets:
        runs = shown.runs[shown.runs["dataset"] == dataset]
        found: dict[str, list[str]] = {}
        for folder in runs["folder"]:
            spec = shown.record(folder)["spec"]
            asked = spec["protocol"]
            joining = "all" if asked["participation"] == 1 else f"{asked['participation']:.0%} of the"
            steps = f"at most {asked['batches']} steps" if asked["batches"] else f"{asked['epochs']} epochs"
            text = f"{asked['rounds']} rounds of {steps} by {joining} clients"
            found.setdefault(text, []).append(spec["method"])
        most = max(found, key=lambda text: len(found[text]))
        rest = "; others: " + ", ".join(t for t in found if t != most) if len(found) > 1 else ""
        part = shown.panels[dataset].get("part")
        said.append(f"{shown.label(dataset)}{f' ({part})' if part else ''}: {most}{rest}")
    return ". ".join(said) + "."
