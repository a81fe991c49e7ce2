"""Write the page that lists every claim of all studies with its verdict.

python scripts/claims_page.py --scale quick --studies NAME=TITLE... --folders DIR... --labels JSON
    --out results/claims.md
"""

import argparse
import json
from pathlib import Path

from fedloom.artifacts import write_text
from fedloom.errors import main
from fedloom.report.claims.page import claims_page


def run() -> None:
    """Read the arguments, put the page together, write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", required=True)
    parser.add_argument("--studies", required=True, nargs="+", metavar="NAME=TITLE")
    parser.add_argument("--folders", required=True, nargs="+", type=Path, help="of the studies' tables, in this order")
    parser.add_argument("--labels", default={}, type=json.loads, help="dataset -> its name in print (JSON)")
    parser.add_argument("--out", required=True, type=Path)
    a = parser.parse_args()
    titles = dict(each.split("=", 1) for each in a.studies)
    write_text(a.out, claims_page(a.scale, titles, dict(zip(titles, a.folders, strict=True)), a.labels))


if __name__ == "__main__":
    main(run)
