"""Artifacts of the study of FeDaL from hand-made runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file
from scipy.stats import linregress
from scipy.stats import t as student

from fedloom.evaluation.rows import as_metrics, condition, row
from fedloom.evaluation.schema import write_metrics
from fedloom.report.figure import style, write_figure
from fedloom.report.series.bias import gaps, per_deviation
from fedloom.report.series.regression import regress
from fedloom.report.series.scaling import series_along
from fedloom.report.shown import Shown

from .conftest import artifacts, drawn, shown_by

REFERENCE = Path(__file__).resolve().parents[3] / "config" / "references" / "fedal.csv"
CLIENTS = ("a", "b", "c", "d")
RATES = ("0.5", "mean")
BASE: dict[str, Any] = {"align_weight": 0.1, "fusion": 0.7, "core_rows": 16, "beta": 0.1, "correction": "mean"}
Rows = list[dict[str, Any]]


def clients_rows(error: float) -> Rows:
    rows: Rows = []
    for who, factor in ((None, 1.0), ("linear_interpolation", 1.5), ("last_value", 2.0), ("window_mean", 1.2)):
        for rate in RATES:
            for metric in ("mse", "mae"):
                under = condition(task="reconstruction", space="z", rate=rate, prediction=who)
                level = error if who is None else 1.0
                values = [level * factor * (1 + i / 10) for i in range(len(CLIENTS))]
                rows += [row(metric, v, 9, under, unit=c) for c, v in zip(CLIENTS, values, strict=True)]
                rows.append(row(metric, float(np.mean(values)), 4, under, unit="mean"))
    return rows


def target_rows(error: float) -> Rows:
    rows: Rows = []
    for target, scale in (("etth1", 1.0), ("ili", 3.0)):
        for who, factor in ((None, error), ("seasonal_naive", 0.5), ("window_mean", 2.0)):
            for horizon in ("96", "192", "all"):
                for metric in ("mse", "mae"):
                    under = condition(task="forecast", target=target, prediction=who)
                    rows.append(row(metric, factor * scale, 9, under, unit="mean", horizon=horizon))
        for who in (None, "linear_interpolation"):
            for task in ("imputation", "reconstruction"):
                under = condition(task=task, target=target, rate="mean", prediction=who)
                rows.append(row("mse", error * scale, 9, under, unit="mean"))
    return rows


def adapted_rows(error: float) -> Rows:
    rows: Rows = []
    for target in ("etth1", "ili"):
        for horizon in ("96", "192", "all"):
            for metric in ("mse", "mae"):
                under = condition(task="full_shot", target=target)
                rows.append(row(metric, error / 2, 9, under, unit="mean", horizon=horizon))
        rows.append(row("mse", error / 3, 9, condition(task="imputed", target=target, rate="mean"), unit="mean"))
    for metric in ("smape", "mase", "owa"):
        rows.append(row(metric, np.nan, 0, "task=m4", unit="mean", reason="needs a mirror"))
    for epochs in (1, 10):
        under = condition(task="classification", target="basic-motions", epochs=epochs)
        rows.append(row("accuracy", 0.5, 9, under, unit="mean"))
    under = condition(task="classification", target="basic-motions", prediction="commonest")
    rows.append(row("accuracy", 0.25, 9, under, unit="mean"))
    for who in (None, "random"):
        for how in (None, "point"):
            under = condition(task="anomaly", target="daphnet", prediction=who, adjusted=how)
            rows.append(row("f1", 0.2 if how is None else 0.9, 1, under, unit="mean"))
    return rows


def audit_rows() -> Rows:
    rows: Rows = []
    for kind, value in (("real", 0.3), ("initial", 0.0), ("learned", 0.5), ("sent", 0.6)):
        for metric in ("distance", "membership_auc"):
            under = condition(task="audit", coreset=kind)
            rows += [row(metric, value, 1, under, unit=unit) for unit in (*CLIENTS, "mean")]
    return rows


class Studio:
    """Makes runs on a federation ``wheels`` and on generated clients with logged bias."""

    def __init__(self, root: Path) -> None:
        self.root, self.runs, self.panels = root, [], []
        self.bias = {
            c: {"resolution": 2.0**i, "constraint": "none" if i % 2 else "step"} for i, c in enumerate(CLIENTS)
        }

    def federation(self, dataset: str, clients: tuple[str, ...] = CLIENTS) -> None:
        folder = self.root / "data" / dataset / "series"
        folder.mkdir(parents=True)
        counts = {c: {"series": 1, "points": 1000, "missing": 3} for c in clients}
        about = {
            "dataset": dataset,
            "part": None,
            "clients": list(clients),
            "domains": dict.fromkeys(clients, "energy"),
        }
        about |= {"counts": counts, "exclusions": {}, "cleaned": {}, "seen": []}
        about["bias"] = self.bias if dataset == "tsgen" else {}
        (folder / "about.json").write_text(json.dumps(about))
        self.panels.append(folder)

    def run(self, dataset: str, method: str, variant: str, error: float, clients: int = 4, **params: Any) -> None:
        spec = {"dataset": dataset, "method": method, "variant": variant, "seed": 0, "params": BASE | params}
        spec["protocol"] = {"rounds": 4, "batches": 5, "epochs": 1, "participation": 1.0}
        folder = self.root / "runs" / dataset / method / variant / "seed0"
        folder.mkdir(parents=True)
        record = {"spec": spec, "verdict": "finished", "reason": None, "rounds": 4, "selected_round": 3}
        record |= {"clients": list(CLIENTS[:clients]), "parameters": 1000, "train_samples": [100] * clients}
        (folder / "run.json").write_text(json.dumps(record))
        rows = clients_rows(error) + target_rows(error) + (audit_rows() if method == "fedal" else [])
        frames = [as_metrics(rows, spec, "selected"), as_metrics(clients_rows(error), spec, "last")]
        write_metrics(pd.concat(frames, ignore_index=True), folder / "metrics.parquet")
        write_metrics(as_metrics(adapted_rows(error), spec, "selected"), folder / "adapted.parquet")
        log = [(r, c, q, 2.0**20) for r in range(4) for c in CLIENTS for q in ("bytes_up", "bytes_down")]
        log += [(r, "all", "validation_score", error + 1 / (r + 1)) for r in range(4)]
        pd.DataFrame(log, columns=["round", "client", "quantity", "value"]).to_parquet(folder / "rounds.parquet")
        save_file(self.arrays(error), folder / "diagnostics.safetensors")
        self.runs.append(folder)

    @staticmethod
    def arrays(error: float) -> dict[str, np.ndarray]:
        x = np.sin(np.arange(64) / 5).astype(np.float32)
        hidden = (np.arange(64) // 8 % 2).astype(np.float32)
        found = {"fill/energy/x": x, "fill/energy/seen": np.ones_like(x), "fill/energy/hidden": hidden}
        found |= {"fill/energy/found": x + error, "fill/energy/line": x * 0}
        found |= {"forecast/etth1/past": x, "forecast/etth1/truth": x, "forecast/etth1/found": x + error}
        return found | {f"distance/{kind}": np.linspace(0, 1, 9) for kind in ("real", "initial", "learned", "sent")}

    def show(self, name: str) -> Shown:
        return shown_by("fedal", name, self.runs, self.panels, REFERENCE)


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    made = Studio(tmp_path)
    made.federation("wheels")
    made.run("wheels", "fedal", "base", 0.4)
    made.run("wheels", "fedal", "no_dbe", 0.5)
    made.run("wheels", "fedal", "lambda_1", 0.45, align_weight=1.0)
    made.run("wheels", "fedavg", "base", 0.6)
    made.run("wheels", "fedavg", "dbe", 0.55)
    return made


@pytest.fixture
def biased(tmp_path: Path) -> Studio:
    made = Studio(tmp_path)
    made.federation("tsgen")
    made.run("tsgen", "fedal", "base", 0.4)
    made.run("tsgen", "fedavg", "base", 0.6)
    return made


@pytest.mark.parametrize("name", artifacts("fedal", "table"))
def test_every_table_is_written_with_its_numbers_behind_it(name: str, studio: Studio) -> None:
    table = drawn(studio.show(name))
    assert len(table.tidy)
    assert all(len(cells) == len(table.header) for _, _, cells in table.rows)
    assert "4 rounds of at most 5 steps by all clients" in table.notes


@pytest.mark.parametrize("name", artifacts("fedal", "figure"))
def test_every_figure_is_drawn(name: str, studio: Studio, tmp_path: Path) -> None:
    with style():
        write_figure(drawn(studio.show(name)), tmp_path / name)
    assert (tmp_path / f"{name}.png").stat().st_size > 5000


def cells(studio: Studio, name: str) -> dict[tuple[str, str], dict[tuple[str, str], str]]:
    table = drawn(studio.show(name))
    return {(g, r): dict(zip(table.header, (c.text for c in of), strict=True)) for g, r, of in table.rows}


def test_table_1_has_interpolation_traffic_and_the_papers_values(studio: Studio) -> None:
    found = cells(studio, "table1")
    fedal = found["Federated foundation models", "FeDaL"]
    assert fedal["Wheels", "MSE"] == "0.460"
    assert fedal["UTSD-H1, paper", "MSE"] == "0.551"
    assert fedal["sent up", "MB a client, round"] == "1.049"
    assert found["Interpolation", "Window mean"]["Wheels", "MSE"] == f"{1.15 * 1.2:.3f}"


def test_traffic_is_not_a_mean_over_models_of_different_sizes(studio: Studio) -> None:
    studio.federation("tsgen")
    studio.run("tsgen", "fedal", "base", 0.4)
    log = pd.read_parquet(studio.runs[-1] / "rounds.parquet")
    log.assign(value=9 * log["value"]).to_parquet(studio.runs[-1] / "rounds.parquet")
    fedal = cells(studio, "table1")["Federated foundation models", "FeDaL"]
    assert fedal["sent up", "MB a client, round"] == "1.049"


def test_a_federated_method_that_is_beaten_from_outside_has_its_mark_explained(studio: Studio) -> None:
    studio.run("wheels", "centralised", "base", 0.1)
    notes = drawn(studio.show("table1")).notes
    assert "†: does not compete" in notes


def test_table_4_says_where_the_naive_rows_are_beaten(studio: Studio) -> None:
    found = cells(studio, "table4")
    assert found["ETTh1", "96"]["FeDaL", "against the two"] == "beats both"
    assert found["ETTh1", "96"]["paper", "MSE"] == "0.347*"
    notes = drawn(studio.show("table4")).notes
    assert "Published means of ETT and Weather (MSE, MAE): FeDaL 0.335" in notes
    assert "Moirai-base (centralised) 0.357, " in notes


@pytest.mark.parametrize("name", ["table1", "table3", "table4", "table_ablation", "table_tasks"])
def test_every_published_value_of_a_table_stands_in_its_csv(studio: Studio, name: str) -> None:
    table = drawn(studio.show(name))
    in_csv = {f"{value:.3f}" for value in table.tidy["published"].dropna()}
    paper = [i for i, level in enumerate(table.header) if any("paper" in part for part in level)]
    exact = [i for i in paper if table.header[i][1] in ("MSE", "MAE")]
    shown = {cells[i].text.rstrip("*") for _, _, cells in table.rows for i in exact} - {"–"}
    assert shown <= in_csv
    assert in_csv


def test_ablations_are_compared_with_their_own_base(studio: Studio) -> None:
    found = cells(studio, "table_ablation")
    assert found["FeDaL and what it loses", "FeDaL, w/o DBE"]["Wheels", "change"] == "+25.0%"
    assert found["DBE on other methods", "FedAvg with DBE"]["Wheels", "change"] == "-8.3%"


def test_a_task_without_data_says_why(studio: Studio) -> None:
    found = cells(studio, "table_tasks")
    assert found["4 Short-term forecast", "OWA"]["", "FeDaL"] == "needs a mirror"
    assert found["8 Anomaly detection", "F1 of points"]["", "FeDaL"] == "0.200"
    assert found["7 Classification", "accuracy, ten epochs"]["", "reference"] == "0.250"


def test_gaps_are_regressed_on_what_was_planted(biased: Studio) -> None:
    gap = gaps(biased.show("figure_bias"), "tsgen", ("fedavg", "base"))
    np.testing.assert_allclose(gap, np.log(0.6 / 0.4))
    figure = drawn(biased.show("figure_bias"))
    assert "resolution" in figure.notes


def test_a_regression_finds_its_slope() -> None:
    x = np.arange(50.0)
    noise = np.random.default_rng(0).normal(0, 0.01, 50)
    found = per_deviation(x, 3 * x + noise)
    assert found is not None
    assert found.lo < found.slope < found.hi
    assert found.slope == pytest.approx(3 * x.std(), rel=1e-3)
    assert found.hi - found.lo == pytest.approx(2 * 2.01 * 0.01 / 50**0.5, rel=0.3)
    assert per_deviation(np.ones(5), np.arange(5.0)) is None


def test_a_slope_and_its_interval_are_those_of_scipy() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 9))
    found, wanted = regress(x, y), linregress(x, y)
    assert found is not None
    margin = student.ppf(0.975, 7) * wanted.stderr
    assert (found.slope, found.intercept) == pytest.approx((wanted.slope, wanted.intercept))
    assert (found.lo, found.hi) == pytest.approx((wanted.slope - margin, wanted.slope + margin))


def test_a_power_law_is_a_line_of_logarithms() -> None:
    x = np.array([1.0, 2.0, 4.0, 8.0])
    found = regress(np.log(x), np.log(5 * x**-0.3))
    assert found is not None
    assert found.slope == pytest.approx(-0.3)
    assert found.lo <= -0.3 + 1e-9
    assert regress(np.ones(3), np.ones(3)) is None


def test_runs_are_compared_along_one_size_alone() -> None:
    rows = [("fedal", c, 100.0, 1.0, 1000) for c in (4, 8, 16)] + [("fedal", 16, 100.0, 0.25, 1000)]
    frame = pd.DataFrame(rows, columns=["method", "clients", "windows_each", "joining", "parameters"])
    assert series_along(frame, "clients")["clients"].tolist() == [4, 8, 16]
    assert series_along(frame, "joining")["joining"].tolist() == [0.25, 1.0]
    assert series_along(frame, "parameters").empty


@pytest.mark.parametrize(("error", "wanted"), [(0.4, "beats both"), (0.9, "beats mean"), (3.0, "loses")])
def test_what_is_beaten_is_named(studio: Studio, error: float, wanted: str) -> None:
    """Seasonal naive errs by 0.5, the mean of the past by 2."""
    studio.runs.clear()
    studio.federation("tsgen")
    studio.run("tsgen", "fedal", "base", error)
    found = cells(studio, "table4")
    assert found["ETTh1", "96"]["FeDaL", "against the two"] == wanted
