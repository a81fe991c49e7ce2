"""Table 4 of Atlas and its like: what noise on the shared tensors costs, after training and before every upload."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from fedloom.errors import InputError
from fedloom.report.captions import told
from fedloom.report.cells import Columns, first
from fedloom.report.forecast.privacy import PROMISE, promise
from fedloom.report.layout import EMPTY, Cell, Table
from fedloom.report.numbers import HEADLINE, ROW, headline, pick, published, summarise, with_parts
from fedloom.report.shown import Shown, of_run, runs_in

DECIMALS = 3
METRICS = ("mae", "rmse")
DISTURBED = ["dataset", "method", "variant", "metric", "of_noise", "of_scale", "of_per"]
CLEAN, ROUNDS = "Without noise", "Before every upload"
ONCE = {"entry": "Once, on what was learned", "norm": "Once, in units of a row's norm"}


@dataclass(frozen=True)
class NoiseOptions:
    """``delta`` is the probability that the promise of private uploads fails; ``printed`` the scale of the paper."""

    delta: float
    printed: float


def noise_table(shown: Shown, options: NoiseOptions) -> Table:
    """Set errors under noise beside those without: once after training over many draws, and while learning."""
    clean = summarise(shown)
    clean = clean[headline(clean) & clean["metric"].isin(METRICS)]
    once = disturbed(shown)
    if once.empty:
        raise InputError(f"{shown.where}: expected a run that was disturbed after training, found none")
    promises = _promises(shown, options.delta)
    norms = pick(summarise(shown), metric="row_norm", selection="selected", unit="pooled")
    columns = Columns()
    for dataset in shown.datasets:
        label = shown.label(dataset)
        for metric in METRICS:
            title = shown.names.word(metric)
            columns.add(label, title, _errors(pick(clean, dataset=dataset, metric=metric), once, dataset, metric))
            printed = published(shown, dataset=dataset, metric=metric)
            if len(printed):
                columns.add(label, f"{title}, paper", _printed(printed, once, options.printed))
        worst = pick(once, dataset=dataset, metric=METRICS[0])
        title = f"{shown.names.word(METRICS[0])}, worst draw"
        columns.add(label, title, {_key(each): Cell(f"{each['worst']:.{DECIMALS}f}") for each in _rows(worst)})
        found = pick(norms, dataset=dataset)
        columns.add(label, "Norm", {_run(each): first(of_run(found, _run(each)), 2) for each in _rows(found)})
        own = promises[promises["dataset"] == dataset]
        columns.add(label, "ε, server", {_run(each): _epsilon(each["epsilon_uploads"]) for each in _rows(own)})
        columns.add(label, "ε, means", {_run(each): _epsilon(each["epsilon_means"]) for each in _rows(own)})
    rows = [(CLEAN, shown.names.run(shown.ours), columns.row(shown.ours))]
    kinds = once.drop_duplicates(["of_noise", "of_scale", "of_per"])
    for per, group in ONCE.items():
        for each in _rows(pick(kinds, per=per)):
            name = f"{shown.names.word(each['of_noise'])}, {each['of_scale']}"
            rows.append((group, name, columns.row(_key(each))))
    learned = [run for run in runs_in(shown.runs) if run != shown.ours]
    rows += [(ROUNDS, shown.names.run(run), columns.row(run)) for run in learned]
    draws = " or ".join(map(str, sorted(set(once["draws"]))))
    notes = told(
        shown,
        f"Once: noise on all shared numbers after training; mean ± standard deviation over {draws} draws and seeds, "
        "and the largest error among them. The number is the standard deviation of Gaussian noise, the b of Laplace's "
        "(deviation 1.41 b), the step of Rademacher's. A row of D numbers is moved by about √D times as much; norm: "
        "mean length of the rows that it falls on. In units of a row's norm: the same noise times the norm of its row, "
        "as if rows had length 1. Before every upload: on every client's upload in every round. Errors on the test "
        "part, pooled; weights of the round that was best in validation; mean ± standard deviation over seeds.",
        PROMISE.format(delta=options.delta),
        "Without clipping, or with another kind of noise, there is no such promise (∞).",
    )
    tidy = pd.concat([clean, once, norms], ignore_index=True).merge(promises, on=ROW, how="left")
    return Table(columns.header, rows, shown.caption, notes, tidy, ("Noise", "Kind and scale"))


def disturbed(shown: Shown) -> pd.DataFrame:
    """Return errors of the foremost method under noise after training, by kind, scale and units.

    ``ours_mean`` and ``ours_sd`` over all draws and seeds, ``worst`` of them, ``draws`` a seed, ``seeds``, ``note``.
    """
    asked = {name: value for name, value in HEADLINE.items() if name != "condition"}
    found = with_parts(shown.metrics.reset_index(drop=True))
    found = pick(found, method=shown.foremost, variant=shown.ours[1], **asked)
    if "of_noise" not in found:
        return pd.DataFrame(columns=[*DISTURBED, "ours_mean", "ours_sd", "worst", "draws", "seeds"])
    found = found[(found["of_noise"] != "") & found["metric"].isin(METRICS)]
    groups = found.groupby(DISTURBED, sort=False)
    frame = groups["value"].agg(ours_mean="mean", ours_sd="std", worst="max").reset_index()
    frame["draws"] = groups["of_draw"].nunique().to_numpy()
    frame["seeds"] = groups["seed"].nunique().to_numpy()
    return frame.assign(diverged=0, note="")


def _rows(frame: pd.DataFrame) -> list[pd.Series]:
    return [row for _, row in frame.iterrows()]


def _key(row: pd.Series) -> str:
    """The row of the table that an error under noise after training stands in."""
    return f"{row['of_noise']} {row['of_scale']} {row['of_per']}"


def _run(row: pd.Series) -> tuple[str, str]:
    return row["method"], row["variant"]


def _errors(clean: pd.DataFrame, once: pd.DataFrame, dataset: str, metric: str) -> dict[object, Cell]:
    cells: dict[object, Cell] = {_run(row): first(of_run(clean, _run(row)), DECIMALS) for row in _rows(clean)}
    for row in _rows(pick(once, dataset=dataset, metric=metric)):
        cells[_key(row)] = Cell(f"{row['ours_mean']:.{DECIMALS}f} ± {row['ours_sd']:.{DECIMALS}f}")
    return cells


def _printed(printed: pd.DataFrame, once: pd.DataFrame, scale: float) -> dict[object, Cell]:
    """The paper's numbers: without noise, and once, in the units of the numbers, at the scale that it prints."""
    kinds = printed["of_noise"] if "of_noise" in printed else pd.Series("", index=printed.index)
    cells: dict[object, Cell] = {}
    for (_, row), kind in zip(printed.iterrows(), kinds, strict=True):
        rows = pick(once[once["of_scale"].astype(float) == scale], noise=kind, per="entry")
        for key in {_key(each) for each in _rows(rows)} if kind else {_run(row)}:
            cells[key] = Cell(f"{row['value']:.2f}")
    return cells


def _promises(shown: Shown, delta: float) -> pd.DataFrame:
    """Epsilon of every run with noisy uploads, the largest over its seeds."""
    rows = []
    for run in shown.runs.itertuples():
        found = promise(shown, run.folder, delta)
        if found.noise is not None:
            identity = {name: getattr(run, name) for name in ROW}
            rows.append(identity | {"epsilon_uploads": found.uploads, "epsilon_means": found.means})
    frame = pd.DataFrame(rows, columns=[*ROW, "epsilon_uploads", "epsilon_means"])
    return frame.groupby(ROW, sort=False).max().reset_index()


def _epsilon(value: float) -> Cell:
    return Cell(EMPTY if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.3g}")
