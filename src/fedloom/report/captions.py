"""What stands below every table and figure: how to read it, and by which scale, rounds and seeds it came about."""

from __future__ import annotations

from collections.abc import Collection

from fedloom.report.shown import Shown


def told(shown: Shown, *sentences: str) -> str:
    """Join what a drawing function says, what the study adds, and the facts of the runs; empty sentences fall out."""
    return " ".join(sentence for sentence in (*sentences, shown.notes, facts(shown)) if sentence)


def facts(shown: Shown) -> str:
    """Scale, seeds, and rounds by dataset (or by the part of it that it is)."""
    runs = shown.runs
    seeds = sorted(set(runs["seed"]))
    by_dataset = {shown.label(d): sorted(set(of["asked"])) for d, of in runs.groupby("dataset", sort=False)}
    rounds = [f"{numbered(asked, 'round', '/')} on {label}" for label, asked in by_dataset.items()]
    return "; ".join([f"Scale {shown.scale}", f"seeds {', '.join(map(str, seeds))}", *rounds]) + "."


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
