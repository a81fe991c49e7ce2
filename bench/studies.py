"""Where whole studies spend their time: Snakemake's benchmark files, by stage and by method."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fedloom.errors import InputError


def studies(folder: Path) -> pd.DataFrame:
    """One row a stage and method ("" where a stage knows none): jobs, seconds in all, share, peak memory in MB.

    Raises InputError where ``folder`` holds no benchmark file.
    """
    rows = []
    for path in sorted(folder.rglob("*.tsv")):
        stage, *wildcards = path.relative_to(folder).parts
        method = wildcards[2] if len(wildcards) > 3 else ""  # scale, dataset, method, variant, seed
        taken = pd.read_csv(path, sep="\t")
        rows.append((stage, method, taken["s"].sum(), taken["max_rss"].max()))
    if not rows:
        raise InputError(f"{folder}: expected benchmark files of a study that was run, found none")
    table = pd.DataFrame(rows, columns=["stage", "method", "seconds", "peak_megabytes"])
    summed = table.groupby(["stage", "method"], as_index=False).agg(
        jobs=("seconds", "size"), seconds=("seconds", "sum"), peak_megabytes=("peak_megabytes", "max")
    )
    summed["share"] = summed["seconds"] / summed["seconds"].sum()
    return summed.sort_values("seconds", ascending=False, ignore_index=True)
