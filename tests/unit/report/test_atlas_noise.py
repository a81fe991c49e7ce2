"""Table 4, the price of privacy and Figure 3 of Atlas show what was computed of their runs, and say what is missing."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedloom.data.panels.regimes import Regimes, generate
from fedloom.errors import InputError
from fedloom.evaluation.forecast.conditions import MASKED
from fedloom.evaluation.forecast.leakage import leakage_rows
from fedloom.evaluation.forecast.proposition import Confounding
from fedloom.evaluation.privacy import epsilon_of_uploads
from fedloom.evaluation.rows import as_metrics, narrowed, row
from fedloom.evaluation.schema import write_metrics
from fedloom.federation.upload_noise import UploadNoise
from fedloom.partition.panels import PanelPartitionSettings, make_panel_partition
from fedloom.report.figure import Figure, read_caption, style, write_figure
from fedloom.report.layout import Table, markdown

from .conftest import NODES, Workshop, drawn

ROUNDS, DELTA = 5, 1e-5
LEVELS = {"private_0": 0.0, "private_005": 0.05, "private_02": 0.2, "private_1": 1.0, "private_5": 5.0}
DRAWS = {"gaussian": [3.4, 3.5], "laplace": [3.6, 4.2]}


def disturbed_after_training(folder: Path, clean: float | None) -> None:
    """Write what noise cost the run in ``folder``; nothing but the norm where ``clean`` is None."""
    spec = json.loads((folder / "run.json").read_text())["spec"]
    rows = [row("row_norm", 8.0, 10)]
    for kind, values in DRAWS.items() if clean is not None else ():
        for number, value in enumerate(values):
            for per, factor in (("entry", 1), ("norm", 2)):
                under = narrowed(MASKED, noise=kind, scale=0.05, per=per, draw=number)
                rows += [row(metric, factor * value, 99, under) for metric in ("mae", "rmse")]
    write_metrics(as_metrics(rows, spec, "selected"), folder / "noisy.parquet")


def noisy(workshop: Workshop, variant: str, error: float, noise: UploadNoise, seed: int = 0) -> None:
    """Make a run whose uploads were disturbed."""
    workshop.run("atlas", error, variant, seed)
    folder = workshop.runs[-1]
    record = json.loads((folder / "run.json").read_text())
    record["spec"]["protocol"]["noise"] = asdict(noise)
    (folder / "run.json").write_text(json.dumps(record | {"train_samples": [100] * len(NODES)}))
    log = pd.read_parquet(folder / "rounds.parquet")
    sent = [(round_, node, "upload_length", 0.1) for round_ in range(ROUNDS) for node in NODES]
    more = pd.DataFrame(sent, columns=log.columns).astype({"round": "int32"})
    pd.concat([log, more]).to_parquet(folder / "rounds.parquet")
    disturbed_after_training(folder, None)


@pytest.fixture
def made(workshop: Workshop) -> Workshop:
    """A clean run, one with noise that promises nothing, and clipped ones at several levels, two seeds each."""
    for seed in (0, 1):
        workshop.run("atlas", 3.3 + 0.02 * seed, seed=seed)
        disturbed_after_training(workshop.runs[-1], 3.3)
        noisy(workshop, "noise_laplace", 3.4, UploadNoise("laplace", 0.05), seed)
        for place, (variant, scale) in enumerate(LEVELS.items()):
            noisy(workshop, variant, 3.31 + 0.1 * place + 0.03 * seed, UploadNoise("gaussian", scale, 0.2), seed)
    return workshop


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """What the paper prints of MAE on METR-LA."""
    path = tmp_path / "references.csv"
    rows = ["table4,metr-la,atlas,base,,mae,3.30", "table4,metr-la,atlas,base,noise=gaussian,mae,3.39"]
    path.write_text("table,dataset,method,variant,condition,metric,value\n" + "\n".join(rows) + "\n")
    return path


def cells(table: Table, group: str, label: str) -> dict[str, str]:
    """Column -> text of a row."""
    found = [row for row in table.rows if (row[0], row[1]) == (group, label)]
    return {name: cell.text for (_, name), cell in zip(table.header, found[0][2], strict=True)}


def test_table4_has_the_mean_and_the_worst_of_all_draws_beside_the_paper(made: Workshop, published: Path) -> None:
    table: Table = drawn(made.show("table4", published))
    once = cells(table, "Once, on what was learned", "Laplace, 0.05")
    values = [*DRAWS["laplace"], *DRAWS["laplace"]]  # the same in both seeds
    assert once["MAE"] == f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"
    assert once["MAE, worst draw"] == "4.200"
    assert once["MAE, paper"] == "–"
    assert cells(table, "Once, on what was learned", "Gaussian, 0.05")["MAE, paper"] == "3.39"
    assert cells(table, "Once, in units of a row's norm", "Gaussian, 0.05")["MAE, paper"] == "–"
    assert cells(table, "Without noise", "Atlas")["MAE, paper"] == "3.30"
    assert cells(table, "Without noise", "Atlas")["Norm"].startswith("8.00")
    assert "| Laplace, 0.05 |" in markdown(table, "table4")


def test_table4_says_what_each_noise_on_uploads_promises(made: Workshop, published: Path) -> None:
    table: Table = drawn(made.show("table4", published))
    expected = epsilon_of_uploads(UploadNoise("gaussian", 0.2, 0.2), ROUNDS, DELTA)
    assert cells(table, "Before every upload", "Clipped, Gaussian 0.2")["ε, server"] == f"{expected:.3g}"
    assert cells(table, "Before every upload", "Laplace, 0.05")["ε, server"] == "∞"
    assert cells(table, "Without noise", "Atlas")["ε, server"] == "–"
    numbers = table.tidy[table.tidy["variant"] == "private_02"]
    assert numbers["epsilon_uploads"].to_numpy() == pytest.approx(expected)


def test_the_figure_of_privacy_has_a_point_a_promise_and_level_lines_for_the_rest(
    made: Workshop, tmp_path: Path
) -> None:
    with style():
        figure: Figure = drawn(made.show("figure_privacy"))
        server, means = figure.drawn.axes
        promised = [scale for scale in LEVELS.values() if scale]
        for ax in (server, means):
            points = ax.containers[0].lines[0]
            assert len(points.get_xdata()) == len(promised)
            assert [text.get_text() for text in ax.texts] == [f"σ {scale:g}" for scale in reversed(promised)]
            errors = [line.get_ydata()[0] for line in ax.lines if len(set(line.get_ydata())) == 1]
            assert min(errors) == pytest.approx(3.31, abs=0.02)
        assert (means.containers[0].lines[0].get_xdata() < server.containers[0].lines[0].get_xdata()).all()
        write_figure(figure, tmp_path / "figure_privacy")
    assert "clip" in read_caption(tmp_path / "figure_privacy.png")[1]


def test_figure3_has_a_row_a_panel_and_a_correlation_and_says_what_correlates(workshop: Workshop) -> None:
    workshop.run("atlas", 3.3)
    panel = generate(Regimes(clients=6, steps=700, regimes=3))
    partition = make_panel_partition(panel, PanelPartitionSettings(history=6, horizon=4))
    settings = Confounding(
        clients=6, samples=200, rounds=2, trials=2, means=(0.0, 1.0), spreads=(0.5, 1.5), correlations=(0.8, 0.9)
    )
    spec = json.loads((workshop.runs[0] / "run.json").read_text())["spec"]
    rows = as_metrics(leakage_rows(panel, partition, settings, 0), spec, "selected")
    write_metrics(rows, workshop.runs[0] / "leakage.parquet")
    with style():
        figure: Figure = drawn(workshop.show("figure3"))
    axes = figure.drawn.axes
    assert [ax.get_title("left") or ax.get_title() for ax in axes[::2]] == [
        "METR-LA",
        "Gaussian, correlation 0.8",
        "Gaussian, correlation 0.9",
    ]
    found = rows[rows["metric"] == "correlation"]
    assert (
        f"{found['value'].mean():.2f} ({found['lo'].min():.2f} to {found['hi'].max():.2f}) on METR-LA" in figure.notes
    )
    highest = rows.loc[rows["condition"].str.contains("data=panel") & (rows["metric"] == "leakage"), "value"].max()
    assert max(ax.get_ylim()[1] for ax in axes[:2]) > highest * 0.99


def test_artifacts_without_what_they_show_are_one_line_each(workshop: Workshop) -> None:
    workshop.run("atlas", 3.3)
    disturbed_after_training(workshop.runs[0], None)
    with pytest.raises(InputError, match=r"atlas/table4: expected a run that was disturbed after training, found none"):
        drawn(workshop.show("table4"))
    with pytest.raises(InputError, match=r"atlas/figure_privacy: expected a run whose noise promises something"):
        drawn(workshop.show("figure_privacy"))
