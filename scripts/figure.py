"""Draw a figure (pdf, png) of the runs that it shows.

python scripts/figure.py --study atlas --name figure_curves --draw curves --options JSON --names config/names.yaml
    --labels JSON --scale quick --caption TEXT --runs DIR... --panels DIR... --out results/atlas/figure_curves
"""

from fedloom.config.checks import check
from fedloom.config.names import read_names
from fedloom.errors import main
from fedloom.report.command import parse
from fedloom.report.figure import style, write_figure


def run() -> None:
    """Read the arguments, draw the figure, write it."""
    asked = parse(__doc__, read_names, check)
    with style():
        write_figure(asked.drawn(), asked.out)


if __name__ == "__main__":
    main(run)
