"""Draw a figure (pdf, png) of the runs that it shows.

python scripts/figure.py --study atlas --name figure_curves --scale quick --caption TEXT --runs DIR... --panels DIR...
    --out results/atlas/figure_curves
"""

from fedloom.errors import main
from fedloom.report.command import parse
from fedloom.report.figure import style, write_figure
from fedloom.report.registry import figure


def run() -> None:
    """Read the arguments, draw the figure, write it."""
    shown, out = parse(__doc__)
    with style():
        write_figure(figure(shown.study, shown.name)(shown), out)


if __name__ == "__main__":
    main(run)
