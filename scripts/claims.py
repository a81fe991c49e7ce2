"""Put what a paper claims to the test on a study's runs, and its printed numbers against each other.

python scripts/claims.py --study atlas --scale quick --config config --labels JSON --metrics FILE... --runs DIR...
    --out results/atlas
"""

import argparse
import json
from pathlib import Path

from fedloom.config.claims import read_claims
from fedloom.config.names import read_names
from fedloom.errors import main
from fedloom.report.claims.build import Asked, write_claims


def run() -> None:
    """Read the arguments and the claims, decide, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", required=True, help="whose paper, e.g. atlas")
    parser.add_argument("--scale", required=True, help="named in the caption")
    parser.add_argument("--config", required=True, type=Path, help="folder of claims, references and names")
    parser.add_argument("--labels", default="{}", help="dataset -> its name in print (JSON)")
    parser.add_argument("--metrics", required=True, nargs="+", type=Path, help="metrics of the study's runs")
    parser.add_argument("--runs", required=True, nargs="+", type=Path, help="folders of these runs")
    parser.add_argument("--out", required=True, type=Path, help="folder of the tables claims and contradictions")
    a = parser.parse_args()
    read = read_claims(a.config, a.study)
    asked = Asked(read.numbers, read.claims, read.contradictions, a.config / "references" / f"{a.study}.csv")
    names = read_names(a.config / "names.yaml")
    write_claims(asked, a.scale, a.metrics, a.runs, names, json.loads(a.labels), a.out)


if __name__ == "__main__":
    main(run)
