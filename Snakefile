"""fedloom: from raw data to the tables and figures of the studies that config/config.yaml names.

snakemake --cores all                                   everything, at the scale of config/config.yaml
snakemake --cores 2 --config scale=desk -- atlas_core   one target
snakemake --cores 2 results/atlas/table1.md             one artifact, with only the runs it shows
"""

import functools
import os
import shlex
import sys
from pathlib import Path

from fedloom.config.claimed import read_claims_plan
from fedloom.config.digest import code_digest
from fedloom.config.files import (
    NAMES,
    PANEL,
    PANEL_PARTITION,
    RUN,
    SERIES,
    SERIES_PARTITION,
    STATE,
    TRAJECTORIES,
    TRAJECTORY_PARTITION,
    TRUTH,
    YARDSTICKS,
)
from fedloom.config.resolve import as_text, evaluated_by, plugged, read_plan
from fedloom.config.settings import read_settings
from fedloom.errors import InputError


configfile: "config/config.yaml"


try:
    SETTINGS = read_settings(config, os.environ)
    PLAN = read_plan(Path("config"), SETTINGS)
    CLAIMS = read_claims_plan(Path("config"), PLAN)
except InputError as error:
    sys.exit(f"fedloom: error: {error}")

digest = functools.cache(lambda step, *plugged: code_digest(Path(f"scripts/{step}.py"), plugged))

# Steps run in the environment that runs Snakemake, whether or not it is the active one.
shell.prefix(f"set -euo pipefail; export PATH={shlex.quote(os.path.dirname(sys.executable))}:$PATH; ")


wildcard_constraints:
    **PLAN.constraints(),


include: "workflow/rules/data.smk"
include: "workflow/rules/partition.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/adapt.smk"
include: "workflow/rules/disturb.smk"
include: "workflow/rules/confound.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        "results/report.html",
        ["results/claims.md"] if CLAIMS.studies else [],
        expand("results/{study}/metrics.parquet", study=PLAN.titles),


for target, files in PLAN.targets.items():

    rule:
        name:
            target
        input:
            files,
            CLAIMS.made(target),
