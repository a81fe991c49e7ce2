"""A run that starts from a run is trained after it, and again when it changes. Every test runs real Snakemake."""

from __future__ import annotations

import json

from safetensors.numpy import load_file

GROUPS = "      ablation:\n"
STARTED = "      regimes:\n        - {dataset: tiny, methods: [atlas/frozen_50], seeds: 1}\n"
SOURCE, STARTS = (f"train atlas/{variant} on tiny, seed 0" for variant in ("first_50", "frozen_50"))


def test_a_run_brings_its_source_along_and_follows_it(built) -> None:
    built.edit("config/scales/tiny.yaml", GROUPS, STARTED + GROUPS)
    planned = built.planned()
    assert {job for job in planned if job.startswith("train")} == {SOURCE, STARTS}
    assert "evaluate atlas/first_50 on tiny, seed 0" not in planned
    built.run("results/atlas/table_regimes.md")
    first, frozen = (load_file(built.folder("atlas", v) / "weights.safetensors") for v in ("first_50", "frozen_50"))
    assert (first["selected/codebook"] == frozen["last/codebook"]).all()
    records = [json.loads((built.folder("atlas", v) / "run.json").read_text()) for v in ("first_50", "frozen_50")]
    assert [len(record["clients"]) for record in records] == [2, 2]
    assert not set(records[0]["clients"]) & set(records[1]["clients"])

    built.edit("config/studies/atlas.yaml", "first_50: {clients", "first_50: {lr: 0.002, clients")
    planned = built.planned()
    assert {job for job in planned if job.startswith("train")} == {SOURCE, STARTS}
    assert "evaluate atlas/frozen_50 on tiny, seed 0" in planned
