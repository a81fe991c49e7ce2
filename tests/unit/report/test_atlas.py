"""Artifacts of Atlas beyond its comparisons say what hand-made runs hold: transfer, traffic, parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from fedloom.errors import InputError
from fedloom.evaluation.forecast.conditions import MASKED
from fedloom.evaluation.schema import read_metrics, write_metrics
from fedloom.report.claims.evidence import Evidence
from fedloom.report.claims.settings import Quantity
from fedloom.report.figure import style
from fedloom.report.layout import Table

from .conftest import Workshop, drawn

REFERENCES = Path(__file__).parents[3] / "config" / "references" / "atlas.csv"
REST = {"share": 0.25, "part": "rest"}


def told(
    workshop: Workshop, clients: list[str] | None = None, spec: dict[str, Any] | None = None, **record: Any
) -> None:
    """Let the record of the run made last say more."""
    path = workshop.runs[-1] / "run.json"
    found = json.loads(path.read_text())
    found["spec"] |= spec or {}
    path.write_text(json.dumps(found | ({"clients": clients} if clients else {}) | record))


def with_errors(workshop: Workshop, by_client: dict[str, tuple[float, int]]) -> None:
    """Let the run made last have these errors on these counts of readings."""
    path = workshop.runs[-1] / "metrics.parquet"
    rows = read_metrics(path)
    for client, (value, n) in by_client.items():
        of = (rows["unit"] == client) & (rows["metric"].isin(["mae", "rmse"])) & (rows["condition"] == MASKED)
        rows.loc[of, ["value", "n"]] = value, n
    write_metrics(rows.astype({"n": "int64"}), path)


@pytest.fixture
def transferred(workshop: Workshop) -> Workshop:
    """A quarter of three clients is ``a``; ``b`` and ``c`` are held out."""
    start = {"run": "atlas/first_25", "take": ["codebook"], "freeze": ["codebook"]}
    for variant, spec in (("frozen_25", {"start": start}), ("rest_25", {})):
        workshop.run("atlas", 2.0, variant)
        told(workshop, ["b", "c"], {"clients": REST, **spec})
    with_errors(workshop, {"b": (5.0, 30), "c": (5.0, 10)})  # of rest_25
    workshop.run("atlas", 1.0)
    with_errors(workshop, {"a": (100.0, 50), "b": (3.0, 30), "c": (5.0, 10)})
    workshop.run("atlas", 4.0, "A.1")
    workshop.run("atlas", 4.0, "FR", diverged="loss of client a is not finite in round 1, batch 2")
    return workshop


def table3(workshop: Workshop) -> tuple[Table, pd.DataFrame]:
    table = drawn(workshop.show("table3", REFERENCES))
    return table, table.tidy.set_index(["variant", "metric"])


def test_transfer_is_judged_on_the_held_out_clients_alone(transferred: Workshop) -> None:
    table, tidy = table3(transferred)
    assert tidy.loc[("all_clients", "rmse"), "ours_mean"] == pytest.approx(((30 * 9 + 10 * 25) / 40) ** 0.5)
    assert tidy.loc[("all_clients", "mae"), "ours_mean"] == pytest.approx((30 * 3 + 10 * 5) / 40)
    assert tidy.loc[("federated", "rmse"), "ours_mean"] == pytest.approx(5.0)
    assert tidy.loc[("frozen", "rmse"), "ours_mean"] == pytest.approx(2.0, rel=1e-2)
    assert set(tidy["held_out"]) == {2}
    assert "2 at 25 % on METR-LA" in table.notes


def test_transfer_stands_beside_what_the_paper_prints(transferred: Workshop) -> None:
    table, tidy = table3(transferred)
    assert table.header == [("25 %", "RMSE"), ("25 %", "RMSE, paper")]
    rows = {label: [cell.text for cell in cells] for _, label, cells in table.rows}
    assert rows["FT, federated among themselves"] == ["5.000", "7.15"]
    assert rows["Bar, federated with all clients"][1] == "6.56"
    assert rows["Frozen random Q"] == ["diverged", "–"]
    assert tidy.loc[("frozen_random", "rmse"), "note"].startswith("loss of client a")
    assert pd.isna(tidy.loc[("federated", "mae"), "published"])


def test_transfer_takes_each_seed_with_its_own_held_out_clients(workshop: Workshop) -> None:
    for seed, clients in ((0, ["a", "b"]), (1, ["b", "c"])):
        workshop.run("atlas", 2.0, "rest_25", seed)
        told(workshop, clients, {"clients": REST})
        workshop.run("atlas", 1.0, seed=seed)
        with_errors(workshop, {"a": (1.0, 10), "b": (1.0, 10), "c": (3.0, 10)})
    tidy = table3(workshop)[1]
    expected = pd.Series([1.0, ((1 + 9) / 2) ** 0.5])
    assert tidy.loc[("all_clients", "rmse"), "ours_mean"] == pytest.approx(expected.mean())
    assert tidy.loc[("all_clients", "rmse"), "ours_sd"] == pytest.approx(expected.std())


def test_transfer_without_runs_on_held_out_clients_is_one_line(workshop: Workshop) -> None:
    workshop.run("atlas", 1.0)
    with pytest.raises(InputError, match="expected runs on the rest of the clients, found none"):
        table3(workshop)


def test_what_clients_train_meets_what_the_ledger_says_they_send(workshop: Workshop) -> None:
    sizes = {"atlas": (4000, 640 * 4), "fedavg": (3000, 3000 * 4), "local": (3000, 0), "dcrnn": (500, 800)}
    sizes |= {"cnfgnn": (2000, 5000 * 4)}
    elsewhere = {"dcrnn": 500, "cnfgnn": 900}  # a centre's, and a server's beside what clients hold
    for method, (parameters, sent) in sizes.items():
        workshop.run(method, 1.0, sent=sent)
        held, central = [0 if method == "dcrnn" else parameters] * 2, elsewhere.get(method, 0)
        told(workshop, parameters=parameters, client_parameters=held, central_parameters=central)
    with style():
        figure = drawn(workshop.show("figure5"))
        (ax,) = (ax for ax in figure.drawn.axes if ax.lines)
        points = [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines if len(line.get_xdata()) == 1]
        lines = {line.get_xdata()[0] / line.get_ydata()[0] for line in ax.lines if len(line.get_xdata()) == 2}
        plt.close(figure.drawn)
    assert sorted(points) == [(2000, 5000), (3000, 3000), (4000, 640)]
    assert 1.0 in lines
    assert "Local (they send nothing)" in figure.notes
    assert "DCRNN (a centre trains" in figure.notes


def test_a_parameters_panel_shows_the_runs_that_differ_in_it_alone(workshop: Workshop) -> None:
    base = {"prototypes": 10, "width": 64, "temperature": 0.1, "depth": 3}
    found = {"base": ({}, 2.0), "prototypes_5": ({"prototypes": 5}, 3.0), "depth_1": ({"depth": 1}, 4.0)}
    for variant, (differs, error) in found.items():
        workshop.run("atlas", error, variant)
        told(workshop, spec={"params": base | differs})
    workshop.run("local", 5.0)
    with style():
        figure = drawn(workshop.show("figure8"))
        axes = figure.drawn.axes
        curves = [ax.lines[0].get_ydata() for ax in axes]
        ticks = [[label.get_text() for label in ax.get_xticklabels()] for ax in axes]
        level = axes[0].lines[2].get_ydata()
        plt.close(figure.drawn)
    assert ticks[:4] == [["5", "10"], ["64"], ["0.1"], ["1", "3"]]
    assert curves[0] == pytest.approx([3.0, 2.0], rel=1e-2)
    assert curves[3] == pytest.approx([4.0, 2.0], rel=1e-2)
    assert level == pytest.approx([5.0, 5.0], rel=1e-2)


def test_claims_about_shares_of_clients_look_at_clients_that_every_seed_held_out(workshop: Workshop) -> None:
    for seed, clients in ((0, ["a", "b"]), (1, ["b", "c"])):
        workshop.run("atlas", 2.0, "rest_25", seed)
        told(workshop, clients, {"clients": REST})
        with_errors(workshop, dict.fromkeys(clients, (2.0, 10)) | {"b": (4.0 + seed, 10)})
        path = workshop.runs[-1] / "metrics.parquet"
        rows = read_metrics(path)
        write_metrics(rows[rows["unit"].isin([*clients, "pooled", "mean"])], path)
    metrics = pd.concat([read_metrics(run / "metrics.parquet") for run in workshop.runs])
    mae = Quantity("mae", where={"mask": "masked"})
    found = Evidence(metrics, workshop.runs).sample("metr-la", ("atlas", "rest_25"), mae)
    assert found.units == ("b",)
    assert found.value == pytest.approx(4.5)
