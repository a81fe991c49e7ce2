"""Write the page that shows every artifact: one HTML file that needs nothing beside it, and csv files of its tables.

python scripts/page.py --scale quick --about TEXT --studies NAME=TITLE... --artifacts STEM... --runs DIR...
    --panels DIR... --claims STEM... --notes PAGE... --files FILE... --licences NAME=TITLE...
    --names config/names.yaml --labels JSON --out results/report.html
"""

import argparse
import json
from pathlib import Path

from fedloom.config.names import read_names
from fedloom.errors import main
from fedloom.report.page import page, write_page


def run() -> None:
    """Read the arguments, put the page together, write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", required=True)
    parser.add_argument("--about", default="", help="what the scale is good for, in a sentence")
    parser.add_argument("--studies", required=True, nargs="+", metavar="NAME=TITLE")
    parser.add_argument("--artifacts", required=True, nargs="+", type=Path, help="paths without endings")
    parser.add_argument("--claims", nargs="*", default=[], type=Path, help="paths of tables of claims, without endings")
    parser.add_argument("--notes", nargs="*", default=[], type=Path, help="pages of studies, each named as its study")
    parser.add_argument("--files", nargs="*", default=[], type=Path, help="notes of raw files and tables, to be hashed")
    parser.add_argument("--runs", required=True, nargs="+", type=Path, help="folders of all runs that are shown")
    parser.add_argument("--panels", required=True, nargs="+", type=Path, help="folders of their panels")
    named = "dataset, its title and licence"
    parser.add_argument("--licences", required=True, nargs="+", metavar="NAME=TITLE", help=named)
    parser.add_argument("--names", required=True, type=Path, help="yaml file of names in print")
    parser.add_argument("--labels", default={}, type=json.loads, help="dataset -> its name in print (JSON)")
    parser.add_argument("--out", required=True, type=Path)
    a = parser.parse_args()
    titles, licences = (dict(each.split("=", 1) for each in named) for named in (a.studies, a.licences))
    printed = read_names(a.names), a.labels
    beside = a.claims, a.notes, a.files
    made = page(a.scale, titles, a.artifacts, a.runs, a.panels, licences, *printed, *beside, about=a.about)
    write_page(made, a.out)


if __name__ == "__main__":
    main(run)
