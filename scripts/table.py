"""Make a table (csv, md, tex) from the runs that it shows.

python scripts/table.py --study atlas --name table1 --draw comparison --options JSON --names config/names.yaml
    --labels JSON --scale quick --caption TEXT --runs DIR... --panels DIR... --out results/atlas/table1
"""

from fedloom.config.checks import check
from fedloom.config.names import read_names
from fedloom.errors import main
from fedloom.report.command import parse
from fedloom.report.layout import write_table


def run() -> None:
    """Read the arguments, make the table, write it."""
    asked = parse(__doc__, read_names, check)
    write_table(asked.drawn(), asked.out)


if __name__ == "__main__":
    main(run)
