"""Prototypes as figures show them: periods are chosen by rule, places by seed, and numbers are those of evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from fedloom.data.panels.panel import read_panel, write_panel
from fedloom.data.panels.regimes import Regimes, generate
from fedloom.errors import InputError
from fedloom.report.figure import style
from fedloom.report.forecast.interpretation import embedded, interpreted, prototypes, series_of
from fedloom.report.forecast.interpretation_periods import PeriodOptions, periods
from fedloom.report.shown import Shown

from .conftest import Workshop, shown_by

HISTORY, FIRST, WINDOWS = 12, 200, 150
RNG = np.random.default_rng(0)


def described(clients: int) -> dict[str, Any]:
    """What evaluation may say of a run with three prototypes whose second client is watched alone."""
    weights = RNG.dirichlet(np.ones(3), (1, WINDOWS)).astype(np.float32)
    starts = np.tile(np.arange(FIRST, FIRST + WINDOWS, dtype=np.int32), (clients, 1))
    usage = RNG.dirichlet(np.ones(3), clients).astype(np.float32)
    shown = np.arange(0, WINDOWS, 5, dtype=np.int32)
    latents = RNG.normal(size=(1, len(shown), 4)).astype(np.float32)
    found = {"starts": starts, "usage": usage, "watched": np.array([1], dtype=np.int32), "weights": weights}
    found |= {"latents": latents, "latent_windows": shown}
    return found | {"prototypes": RNG.normal(size=(1, 3, 4)).astype(np.float32)}


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    """One run of Atlas on a small generated panel."""
    panel = generate(Regimes(clients=4, steps=400))
    data, dealt = tmp_path / "panel", tmp_path / "partition"
    write_panel(
        type(panel)(panel.values, panel.nodes, panel.edges, panel.features, panel.truth, about(panel.values)), data
    )
    dealt.mkdir()
    (dealt / "partition.json").write_text(json.dumps({"dataset": "regimes", "history": HISTORY}))
    workshop = Workshop(tmp_path)
    workshop.run("atlas", 3.0, dataset="regimes")
    path = workshop.runs[0] / "run.json"
    record = json.loads(path.read_text())
    record["clients"] = list(panel.values.columns)
    record["spec"]["protocol"]["train_stride"], record["spec"]["params"] = 1, {}
    path.write_text(json.dumps(record))
    save_file(described(4), workshop.runs[0] / "diagnostics.safetensors")
    return shown_by("atlas", "figure6", workshop.runs, [data], dealt=[dealt])


def about(values: pd.DataFrame) -> dict[str, Any]:
    """What the small panel says of itself."""
    known = {"dataset": "regimes", "part": None, "unit": "units", "interval_minutes": 15, "missing_literal": None}
    return known | {"rows": len(values), "nodes": len(values.columns), "missing_share": 0.02, "repairs": {}}


def test_the_same_directions_lie_in_the_same_places() -> None:
    rows = RNG.normal(size=(40, 8)).astype(np.float32)
    assert np.array_equal(embedded(rows), embedded(rows * 4.0))


def test_a_client_sees_its_own_covariates_and_those_of_everyone(shown: Shown) -> None:
    panel = read_panel(shown.places["regimes"])
    features = panel.features.assign(**{"wind/c001": 1.0, "wind/c002": 2.0})
    seen = series_of(type(panel)(panel.values, panel.nodes, panel.edges, features), "c001")
    assert set(seen) == {"covariate", "wind"}
    assert (seen["wind"] == 1.0).all()


def test_windows_are_placed_at_their_last_input_step(shown: Shown) -> None:
    found = interpreted(shown, "regimes")
    assert found.watched == ["c001"]
    assert found.ends[0, 0] == FIRST + HISTORY - 1
    assert found.true_regimes is not None


def test_both_figures_are_drawn_with_their_numbers(shown: Shown) -> None:
    found = interpreted(shown, "regimes")
    with style():
        whole, two = prototypes(shown), periods(shown, PeriodOptions(steps=20))
    assert f"prototypes is {found.usage.max(1).mean():.2f} on average over 4 clients" in whole.notes
    assert "contrast of the reading" in two.notes
    titles = [ax.get_title(loc="left") for ax in two.drawn.axes]
    assert "regimes (generated)\nc001: least mean reading" in titles


def test_periods_may_be_told_apart_by_a_covariate(shown: Shown) -> None:
    with style():
        drawn = periods(shown, PeriodOptions(steps=20, by={"regimes": "covariate"}))
    assert "contrast of the covariate" in drawn.notes
    with pytest.raises(InputError, match=r"by.regimes: expected one of \['covariate'\], found 'rain'"), style():
        periods(shown, PeriodOptions(by={"regimes": "rain"}))


def test_a_period_longer_than_the_test_part_is_refused(shown: Shown) -> None:
    with pytest.raises(InputError, match="expected 1000 steps known in the test part, found fewer"), style():
        periods(shown, PeriodOptions(steps=1000))


def test_a_method_without_prototypes_is_refused(shown: Shown) -> None:
    save_file({"starts": np.zeros(3)}, shown.folders[0] / "diagnostics.safetensors")
    with pytest.raises(InputError, match="expected the prototypes of Atlas, found none"):
        prototypes(shown)
