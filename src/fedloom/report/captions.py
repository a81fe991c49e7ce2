"""What stands below every table and figure: how to read it, and by which scale, rounds and seeds it came about."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fedloom.report.layout import EMPTY
from fedloom.report.names import Run
from fedloom.report.shown import Shown

PROTOCOL = ("rounds", "batch", "epochs", "batches", "participation", "train_stride", "validation_stride", "precision")
"""What is told of a protocol in print, rounds first."""

Where = tuple[str, Run]
"""A dataset and a run on it."""


def told(shown: Shown, *sentences: str) -> str:
    """Join what a drawing function says, what the study adds, and the facts of the runs; empty sentences fall out."""
    return " ".join(sentence for sentence in (*sentences, shown.notes, facts(shown)) if sentence)


def facts(shown: Shown) -> str:
    """Scale, seeds, rounds by dataset (or by the part of it that it is), and which runs differ in what from most."""
    runs = shown.runs
    by_run = runs.groupby(["dataset", "method", "variant"], sort=False)["seed"].agg(lambda of: tuple(sorted(of)))
    most, others = _most({(key[0], key[1:]): of for key, of in by_run.items()})
    rest = [f"{_named(shown, who)}: {', '.join(map(str, of))}" for of, who in others.items()]
    seeds = ", ".join(map(str, most)) + (f" ({'; '.join(rest)})" if rest else "")
    rounds, unlike = [], []
    for dataset in shown.datasets:
        asked = {}
        for run in runs[runs["dataset"] == dataset].itertuples():
            protocol = shown.record(run.folder)["spec"]["protocol"]
            asked[dataset, (run.method, run.variant)] = tuple(protocol.get(name) for name in PROTOCOL)
        most, others = _most(asked)
        rounds.append(f"{counted(most[0], 'round')} on {shown.label(dataset)}")
        for of, who in others.items():
            said = [
                _setting(name, value) for name, value, usual in zip(PROTOCOL, of, most, strict=True) if value != usual
            ]
            unlike.append(f"{_named(shown, who)}: {', '.join(said)}")
    told_of = "; ".join([f"Scale {shown.scale}", f"seeds {seeds}", *rounds]) + "."
    return f"{told_of} Not trained like most: {'; '.join(unlike)}." if unlike else told_of


def _most(found: dict[Where, tuple[Any, ...]]) -> tuple[tuple[Any, ...], dict[tuple[Any, ...], list[Where]]]:
    """What most have, the first of several, and who has something else."""
    by_value: dict[tuple[Any, ...], list[Where]] = {}
    for who, value in found.items():
        by_value.setdefault(value, []).append(who)
    most = max(by_value, key=lambda value: len(by_value[value]))
    return most, {value: who for value, who in by_value.items() if value != most}


def _named(shown: Shown, who: list[Where]) -> str:
    """Runs in print, with their datasets where there are several."""
    several = len(shown.datasets) > 1
    names = (shown.names.run(run) + (f" on {shown.label(dataset)}" if several else "") for dataset, run in who)
    return ", ".join(dict.fromkeys(names))


def _setting(name: str, value: Any) -> str:
    """A setting of a protocol in print: its number, or what it is where it has none."""
    if name == "rounds":
        return counted(value, "round")
    return f"{name.replace('_', ' ')} {printed_setting(name, value)}"


def printed_setting(name: str, value: Any) -> str:
    """The value of a protocol's setting in print: no limit of minibatches means all of an epoch."""
    return EMPTY if value is None else "all" if name == "batches" and value == 0 else str(value)


def budget(shown: Shown) -> str:
    """How much of each dataset was trained on and how long codes were trained before, as it was run."""
    said: dict[str, list[str]] = {}
    for dataset, runs in shown.runs.groupby("dataset", sort=False):
        specs = [shown.record(folder)["spec"] for folder in runs["folder"]]
        strides = sorted({spec["protocol"]["train_stride"] for spec in specs})
        before = sorted({spec["params"]["pretrain_epochs"] for spec in specs if "pretrain_epochs" in spec["params"]})
        either = " or ".join(map(str, strides))
        windows = "every training window" if strides == [1] else f"one training window in {either} an epoch"
        epochs = f", {numbered(before, 'epoch', ' or ')} of autoencoding before" if before else ""
        said.setdefault(windows + epochs, []).append(shown.label(str(dataset)))
    alike = [what if len(said) == 1 else f"{what} on {' and '.join(labels)}" for what, labels in said.items()]
    return f"Training: {'; '.join(alike)}. A round is an epoch."


def steps(shown: Shown) -> str:
    """How many rounds, minibatches a round and clients a round most runs took on each dataset, and how others did."""
    said = []
    for dataset in shown.datasets:
        found: dict[str, int] = {}
        for folder in shown.runs.loc[shown.runs["dataset"] == dataset, "folder"]:
            asked = shown.record(folder)["spec"]["protocol"]
            joining = "all" if asked["participation"] == 1 else f"{asked['participation']:.0%} of the"
            batches, epochs = asked["batches"], asked["epochs"]
            length = f"at most {counted(batches, 'step')}" if batches else counted(epochs, "epoch")
            way = f"{counted(asked['rounds'], 'round')} of {length} by {joining} clients"
            found[way] = found.get(way, 0) + 1
        most = max(found, key=lambda way: found[way])
        rest = "; others: " + ", ".join(way for way in found if way != most) if len(found) > 1 else ""
        part = shown.panels[dataset].get("part")
        said.append(f"{shown.label(dataset)}{f' ({part})' if part else ''}: {most}{rest}")
    return ". ".join(said) + "."


def units(shown: Shown) -> str:
    """In which unit each dataset is counted."""
    said = [f"{shown.label(dataset)}: {shown.panels[dataset]['unit']}" for dataset in shown.datasets]
    return f"Units: {'; '.join(said)}."


def counted(count: int, what: str) -> str:
    """A number of things: 1 round, 2 rounds."""
    return numbered([count], what, "")


def numbered(counts: Collection[int], what: str, between: str) -> str:
    """One of several numbers of things: 1/12 rounds, 2 or 5 epochs."""
    return f"{between.join(map(str, counts))} {what}{'' if list(counts) == [1] else 's'}"
