"""Make a table (csv, md, tex) from the runs that it shows.

python scripts/table.py --study atlas --name table1 --scale quick --caption TEXT --runs DIR... --panels DIR...
    --reference config/references/atlas.csv --out results/atlas/table1
"""

from fedloom.errors import main
from fedloom.report.command import parse
from fedloom.report.layout import write_table
from fedloom.report.registry import table


def run() -> None:
    """Read the arguments, make the table, write it."""
    shown, out = parse(__doc__)
    write_table(table(shown.study, shown.name)(shown), out)


if __name__ == "__main__":
    main(run)
