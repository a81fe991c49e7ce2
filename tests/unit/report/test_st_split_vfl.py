"""Tables and figures of split learning say what hand-made runs hold: sizes, traffic, errors, and where they are."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h3
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.collections import PolyCollection
from safetensors.numpy import save_file

from fedloom.data.panels.panel import Panel, edge_table, write_panel
from fedloom.errors import InputError
from fedloom.evaluation.forecast.blocks import BlockSums
from fedloom.evaluation.forecast.errors import Scores, held_out_rows, metric_rows
from fedloom.evaluation.forecast.stream import Forecasts
from fedloom.evaluation.rows import as_metrics
from fedloom.evaluation.schema import SELECTIONS, write_metrics
from fedloom.report.costs import costs
from fedloom.report.figure import Figure, style, write_figure
from fedloom.report.forecast.growth import fit
from fedloom.report.forecast.maps import outlines
from fedloom.report.shown import Shown

from .conftest import drawn, shown_by

WINDOWS, HORIZON, STEPS = 40, 4, 120
CENTRE = h3.latlng_to_cell(41.15, -8.62, 8)
CELLS = sorted(h3.grid_disk(CENTRE, 1))
REFERENCES = Path(__file__).parents[3] / "config" / "references" / "st_split_vfl.csv"


@dataclass
class City:
    """Makes panels of hexagons and runs on them below ``root``."""

    root: Path
    runs: list[Path] = field(default_factory=list)
    panels: list[Path] = field(default_factory=list)
    nodes: dict[str, list[str]] = field(default_factory=dict)

    def panel(self, dataset: str, cells: list[str], passive: bool = False) -> None:
        """A panel of ``cells``, with a passive weather client where asked for."""
        ids = [*cells, *(["weather"] if passive else [])]
        index = pd.date_range("2024-01-01", periods=STEPS, freq="h", name="timestamp")
        values = pd.DataFrame(np.ones((STEPS, len(ids)), np.float32), index=index, columns=ids)
        places = [h3.cell_to_latlng(cell) for cell in cells] + [(np.nan, np.nan)] * passive
        nodes = pd.DataFrame(places, index=pd.Index(ids, name="id"), columns=["lat", "lon"])
        features = pd.DataFrame(index=index)
        if passive:
            nodes["role"] = ["active"] * len(cells) + ["passive"]
            features = pd.DataFrame({"rain/weather": np.zeros(STEPS), "wind/weather": np.zeros(STEPS)}, index=index)
        report: dict[str, Any] = {"dataset": dataset, "part": None, "unit": "taxis / h", "interval_minutes": 60}
        report |= {"missing_literal": None, "rows": STEPS, "nodes": len(ids), "missing_share": 0.0}
        report |= {"repairs": {"points_out_of_the_box": 3}}
        folder = self.root / dataset / "panel"
        write_panel(Panel(values, nodes, edge_table([], [], []), features, about=report), folder)
        (self.root / dataset / "partition").mkdir()
        split = {"train": [0, 96], "validation": [96, 108], "test": [108, 120]}
        about = {"dataset": dataset, "history": 24, "horizon": HORIZON, "split": split}
        (self.root / dataset / "partition" / "partition.json").write_text(json.dumps(about))
        self.panels.append(folder)
        self.nodes[dataset] = ids

    def run(
        self,
        dataset: str,
        method: str,
        errors: list[float],
        variant: str = "base",
        seed: int = 0,
        held: int = 100,
        central: int = 0,
        sent: float = 8.0,
        params: dict[str, Any] | None = None,
    ) -> None:
        """A run whose forecasts for each client err by exactly ``errors`` (NaN: it forecasts nothing)."""
        ids = self.nodes[dataset]
        folder = self.root / "runs" / dataset / method / variant / f"seed{seed}"
        folder.mkdir(parents=True)
        spec = {"dataset": dataset, "method": method, "variant": variant, "seed": seed, "params": params or {}}
        spec["protocol"] = {"rounds": 2, "train_stride": 8}
        record: dict[str, Any] = {"spec": spec, "verdict": "finished", "reason": None, "rounds": 2, "selected_round": 1}
        record |= {"clients": ids, "client_parameters": [held] * len(ids), "central_parameters": central}
        (folder / "run.json").write_text(json.dumps(record))
        truth = torch.full((len(ids), WINDOWS, HORIZON), 10.0)
        error = torch.tensor(errors).nan_to_num()[:, None, None]
        mask = ~torch.tensor(errors).isnan()[:, None, None].expand_as(truth)
        windows = torch.arange(WINDOWS).expand(len(ids), -1)
        batch = Forecasts(truth + error, truth, mask, windows)
        scores, blocks = Scores(len(ids), HORIZON, None), BlockSums(windows, 6)
        scores.add(batch)
        blocks.add(batch)
        rows = pd.concat([metric_rows(scores, ids), held_out_rows(scores, ids)], ignore_index=True)
        both = pd.concat([as_metrics(rows, spec, selection) for selection in SELECTIONS], ignore_index=True)
        write_metrics(both, folder / "metrics.parquet")
        sums = {"abs_error": blocks.abs, "sq_error": blocks.sq, "count": blocks.n}
        pairs = [
            (i, j) for i in range(len(ids)) for j in range(len(ids)) if not np.isnan(errors[j]) and abs(i - j) <= 2
        ]
        found = {name: values.numpy() for name, values in sums.items()} | {"edges": np.array(pairs, np.int32).T.copy()}
        save_file(found, folder / "diagnostics.safetensors")
        log = [(r, name, "bytes_up", sent) for r in range(2) for name in ids]
        pd.DataFrame(log, columns=["round", "client", "quantity", "value"]).to_parquet(folder / "rounds.parquet")
        pd.DataFrame({"rounds": [2], "seconds": [3.0], "threads": [1]}).to_parquet(folder / "timing.parquet")
        self.runs.append(folder)

    def show(self, name: str, references: Path | None = None) -> Shown:
        """All runs made so far, as an artifact shows them."""
        cuts = [folder.parent / "partition" for folder in self.panels]
        return shown_by("st_split_vfl", name, self.runs, self.panels, references, cuts)


@pytest.fixture
def city(tmp_path: Path) -> City:
    """A city of seven cells and the weather, with runs of two methods."""
    made = City(tmp_path)
    made.panel("areas", CELLS, passive=True)
    made.run(
        "areas", "st_split_vfl", [*([1.0] * 6), 3.0, np.nan], params={"pretrain_epochs": 2, "graph": "knn", "k": 6}
    )
    made.run("areas", "local_lstm", [2.0] * 7 + [np.nan])
    return made


def draw(made: Figure, folder: Path, name: str) -> None:
    write_figure(made, folder / name)
    assert (folder / f"{name}.png").stat().st_size > 1000


def test_sizes_of_ours_stand_beside_those_of_the_paper(city: City) -> None:
    made = drawn(city.show("table_datasets", REFERENCES))
    cells = {(group, label): [cell.text for cell in row] for group, label, row in made.rows}
    name = "crowd areas (generated)"
    assert cells[name, "forecasting"] == ["7", "120", "24 × 3", "4", "3 points out of the box"]
    assert cells[name, "passive"][:4] == ["1", "120", "24 × 5", "–"]
    published = {
        (r.dataset, r.metric): r.value for r in pd.read_csv(REFERENCES).itertuples() if "active" in r.condition
    }
    for dataset, label in (("porto", "Porto, paper"), ("scheveningen", "Scheveningen, paper")):
        of = {metric: f"{published[dataset, metric]:,}" for metric in ("clients", "records", "horizon")}
        assert [cells[label, "forecasting"][i] for i in (0, 1, 3)] == list(of.values())


def test_errors_are_printed_pooled_and_by_client_and_the_passive_one_has_none(city: City) -> None:
    made = drawn(city.show("table_accuracy"))
    groups = list(dict.fromkeys(group for group, _, _ in made.rows))
    assert groups[0].endswith("all clients")
    assert len(groups) == 1 + len(CELLS)
    first = {label: row for group, label, row in made.rows if group == groups[0]}
    mse, mae, rmse = first["ST-SplitVFL"][:3]
    assert [mse.text, mae.text, rmse.text] == [f"{value:.2f}" for value in (15 / 7, 9 / 7, (15 / 7) ** 0.5)]
    assert mae.mark == ""  # there is no other federated method to be better than
    assert [cell.text for cell in first["ST-SplitVFL"][3:]] == [mse.text, mae.text, rmse.text]
    last = {label: row for group, label, row in made.rows if CELLS[-1] in group}
    assert last["Local LSTM"][1].mark == "ahead"
    assert last["ST-SplitVFL"][1].text == "3.00"
    assert "one training window in 8 an epoch, 2 epochs of autoencoding before" in made.notes


def test_costs_are_those_of_the_record_the_log_and_the_clock(city: City) -> None:
    city.run("areas", "central_lstm", [1.0] * 7 + [np.nan], held=0, central=5000, sent=7.0)
    frame = costs(city.show("table_cost")).set_index("method")
    assert frame.loc["st_split_vfl", ["held", "total", "epoch_bytes", "all_bytes"]].tolist() == [100, 800, 64, 128]
    assert frame.loc["central_lstm", ["held", "total", "once_bytes", "epoch_bytes"]].tolist() == [0, 5000, 112, 0]
    assert (frame["seconds"] == 1.5).all()
    made = drawn(city.show("table_cost"))
    assert {group for group, _, _ in made.rows} == {"crowd areas (generated), 8 clients"}


def test_a_law_fits_what_is_linear_and_its_residual_tells_what_is_not() -> None:
    clients = np.array([8.0, 16.0, 24.0])
    line = fit(clients, 5 * clients + 3)
    assert (line.slope, line.level) == pytest.approx((5, 3))
    assert line.residual < 1e-12
    assert fit(clients, clients**2).residual == pytest.approx(64 / 3 * 2 / 576, rel=0.01)
    with pytest.raises(InputError, match="at least 3 numbers of clients"):
        fit(clients[:2], clients[:2])


def test_growth_draws_every_method_and_says_how_far_its_law_is_off(tmp_path: Path) -> None:
    made = City(tmp_path)
    for count in (3, 5, 7):
        made.panel(f"city{count}", CELLS[:count])
        made.run(f"city{count}", "st_split_vfl", [1.0] * count, held=50, params={"graph": "knn", "k": 2})
        made.run(f"city{count}", "split_vfl", [1.0] * count, held=10 * count)
        made.run(f"city{count}", "local_lstm", [1.0] * count, held=40, sent=0.0)
    with style():
        figure = drawn(made.show("figure_growth"))
        squares = fit(np.array([3.0, 5.0, 7.0]), np.array([90.0, 250.0, 490.0])).residual
        assert f"numbers of all models: ST-SplitVFL 0.0%, SplitVFL {squares:.1%}, Local LSTM 0.0%" in figure.notes
        draw(figure, tmp_path, "figure_growth")


def test_the_map_shows_each_cell_at_its_place_with_its_error_and_gain(city: City, tmp_path: Path) -> None:
    with style():
        figure = drawn(city.show("figure_map"))
        maps = [ax for ax in figure.drawn.axes if any(isinstance(c, PolyCollection) for c in ax.collections)]
        error, gain = (next(c for c in ax.collections if isinstance(c, PolyCollection)) for ax in maps[1:3])
        np.testing.assert_allclose(error.get_array(), [1.0] * 6 + [3.0])
        np.testing.assert_allclose(gain.get_array(), [50.0] * 6 + [-50.0])
        corners = np.array(h3.cell_to_boundary(CELLS[0]))[:, ::-1]
        np.testing.assert_allclose(error.get_paths()[0].vertices[: len(corners)], corners)
        draw(figure, tmp_path, "figure_map")


def test_the_map_leaves_out_a_dataset_on_which_no_run_finished(city: City) -> None:
    record = next(folder for folder in city.runs if "st_split_vfl" in folder.parts) / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"diverged"'))
    with pytest.raises(InputError, match="expected a finished run of ST-SplitVFL, found none"):
        drawn(city.show("figure_map"))


def test_clients_that_are_no_cells_are_discs_and_the_antimeridian_tears_nothing() -> None:
    places = pd.DataFrame({"lat": [52.0, 52.1], "lon": [4.2, 4.4]}, index=["north", "south"])
    discs = outlines(places)
    assert discs[1].mean(axis=0) == pytest.approx([4.4, 52.1], abs=1e-2)
    ring = sorted(h3.grid_disk(h3.latlng_to_cell(-17.0, 180.0, 5), 1))
    cells = pd.DataFrame([h3.cell_to_latlng(cell) for cell in ring], index=ring, columns=["lat", "lon"])
    assert np.ptp(np.concatenate(outlines(cells))[:, 0]) < 1


def test_the_error_by_neighbours_leaves_out_variants_with_another_graph(city: City, tmp_path: Path) -> None:
    errors = [*([1.5] * 7), np.nan]
    city.run("areas", "st_split_vfl", errors, "k2", params={"graph": "knn", "k": 2})
    city.run("areas", "st_split_vfl", errors, "ring", params={"graph": "panel", "k": 6})
    with style():
        figure = drawn(city.show("figure_neighbours"))
        (line,) = (line for line in figure.drawn.axes[0].lines if line.get_marker() == "o")
        assert np.asarray(line.get_xdata()).tolist() == [2, 6]
        np.testing.assert_allclose(line.get_ydata(), [1.5, 9 / 7])
        draw(figure, tmp_path, "figure_neighbours")
        plt.close("all")
