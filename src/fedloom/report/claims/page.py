"""One page with every claim of every study and what became of it, and what print contradicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from fedloom.report.claims.contradictions import CONTRADICT, TIE
from fedloom.report.claims.tables import EVERYWHERE, interval, sized
from fedloom.report.claims.verdicts import FAILS, HOLDS, OPEN, SAME
from fedloom.report.claims.words import BETWEEN
from fedloom.report.layout import EMPTY, pipes, safe

COUNTED = (HOLDS, FAILS, SAME, OPEN)


def claims_page(scale: str, titles: Mapping[str, str], folders: Mapping[str, Path], labels: Mapping[str, str]) -> str:
    """Return the page (Markdown) from the csv files of claims and contradictions in the studies' ``folders``.

    ``labels`` are what datasets are called in print.
    """
    frames = {study: pd.read_csv(folder / "claims.csv", keep_default_na=False) for study, folder in folders.items()}
    lines = [f"# What the papers claim, at scale {scale}", "", *_counts(frames, titles), ""]
    for study, frame in frames.items():
        lines += [
            f"## {titles[study]}",
            "",
            *_claims(frame, labels),
            "",
            *_contradictions(folders[study] / "contradictions.csv"),
            "",
        ]
    lines.append(
        "Effect: of the comparison that speaks most against the claim, (left - right) / right in per cent where not "
        "said otherwise. How verdicts are reached, and every comparison: `{study}/claims.csv`, `.md`, `.tex` beside "
        "this page; every comparison of printed numbers: `{study}/contradictions.csv`."
    )
    return "\n".join([*lines, ""])


def _counts(frames: Mapping[str, pd.DataFrame], titles: Mapping[str, str]) -> list[str]:
    rows = [pipes(["Study", "claims", *COUNTED]), pipes(["---", *["---:"] * (1 + len(COUNTED))])]
    for study, frame in frames.items():
        verdicts = frame.loc[frame["dataset"] == EVERYWHERE, "verdict"]
        counts = [str(int((verdicts == verdict).sum())) for verdict in COUNTED]
        rows.append(pipes([safe(titles[study]), str(len(verdicts)), *counts]))
    return rows


def _claims(frame: pd.DataFrame, labels: Mapping[str, str]) -> list[str]:
    rows = [pipes(["Claim", "Place", "Verdict", "Worst effect", "95 % interval", "Data sets", "Seeds", "Why"])]
    rows.append(pipes(["---"] * 8))
    for _, of in frame.groupby("claim", sort=False):
        whole = of[of["dataset"] == EVERYWHERE].iloc[0]
        tested = of[of["dataset"] != EVERYWHERE]
        seeds = sorted({int(float(n)) for n in tested["seeds"] if n != ""})
        over = " to ".join(dict.fromkeys(str(n) for n in (seeds[0], seeds[-1]))) if seeds else EMPTY
        named = (each for name in tested["dataset"] for each in name.split(BETWEEN))
        datasets = ", ".join(dict.fromkeys(labels.get(each, each) for each in named)) or EMPTY
        known = [whole[column] != "" for column in ("effect", "lo")]
        effect = sized(whole["effect_measure"], float(whole["effect"])) if known[0] else EMPTY
        reach = interval(whole["effect_measure"], float(whole["lo"]), float(whole["hi"])) if known[1] else EMPTY
        reach = "exact" if known[1] and whole["lo"] == whole["hi"] else reach
        said = [whole["says"], whole["place"], whole["verdict"], effect, reach]
        cells = [*said, datasets, over, whole["why"] or EMPTY]
        rows.append(pipes([safe(cell) for cell in cells]))
    return rows


def _contradictions(path: Path) -> list[str]:
    frame = pd.read_csv(path, keep_default_na=False)
    if frame.empty:
        return ["Nothing that is printed contradicts itself, as far as its numbers are known here."]
    rows = [pipes(["What ought to hold in print", "Place", CONTRADICT, TIE]), pipes(["---", "---", "---:", "---:"])]
    for _, of in frame.groupby("contradiction", sort=False):
        wrong, ties = (int((of["verdict"] == verdict).sum()) for verdict in (CONTRADICT, TIE))
        said = [safe(of["says"].iloc[0]), safe(of["place"].iloc[0])]
        rows.append(pipes([*said, f"{wrong} of {len(of)}", str(ties) if ties else EMPTY]))
    return rows
