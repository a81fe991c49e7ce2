"""The simulation of Proposition 1: what theory says of Gaussian data, and what a panel's windows are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from fedloom.data.panels.panel import Panel
from fedloom.data.panels.regimes import Regimes, generate
from fedloom.errors import InputError
from fedloom.evaluation.forecast.leakage import leakage_rows, panel_clients
from fedloom.evaluation.forecast.proposition import Confounding, correlations, gaussian_clients, leakage_of, simulate
from fedloom.partition.panels import PanelPartitionSettings, make_panel_partition

SETTINGS = Confounding(clients=10, samples=4000, means=(0.0, 0.5, 1.0), spreads=(0.5, 1.5), trials=2)
CORRELATION = 0.9


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    """Leakage by line (columns) and (mean, spread) on Gaussian data, x and y of deviation 1."""
    leaked = simulate(gaussian_clients(SETTINGS, CORRELATION, (0,)), SETTINGS, 1.0, (0,))
    return pd.DataFrame(leaked._asdict(), index=pd.MultiIndex.from_tuples(SETTINGS.points))


def test_a_client_of_its_own_leaks_as_least_squares_of_gaussian_data_do(found: pd.DataFrame) -> None:
    mean, spread = 0.5, 0.5
    ratio = [abs(c) * (1 - CORRELATION**2) / (SETTINGS.noise**2 * CORRELATION) for c in (mean + spread, mean - spread)]
    expected = np.mean([r / np.hypot(1, r) for r in ratio])
    assert found.loc[(mean, spread), "alone"] == pytest.approx(expected, abs=0.01)


def test_federated_rounds_come_to_the_best_shared_prototype(found: pd.DataFrame) -> None:
    assert (found["federated"] - found["optimum"]).abs().max() < 0.003


def test_the_best_shared_prototype_is_that_of_a_general_minimiser() -> None:
    clients = gaussian_clients(SETTINGS, CORRELATION, (1,))
    random = np.random.default_rng((2,))
    signs = random.permutation(np.repeat([1.0, -1.0], len(clients) // 2))
    noises = [random.normal(size=len(client.x)) for client in clients]
    mean, spread, scale = 1.0, 0.5, 4.0

    def residual(angle: np.ndarray) -> float:
        total = 0.0
        for client, sign, noise in zip(clients, signs, noises, strict=True):
            s = (mean + spread * sign) * client.y + SETTINGS.noise / scale * noise
            seen = np.stack([np.cos(angle[0]) * client.x + np.sin(angle[0]) * s, np.ones_like(s)], 1)
            total += float(np.linalg.lstsq(seen, client.y, rcond=None)[1][0])
        return total

    best = minimize(residual, [0.5], method="Nelder-Mead").x[0]
    settings = replace(SETTINGS, means=(mean,), spreads=())
    leaked = simulate(clients, settings, scale, (2,))
    assert leaked.optimum[0] == pytest.approx(abs(np.sin(best)), abs=0.003)


def test_leakage_grows_with_mean_confounding_and_stays_away_without_it(found: pd.DataFrame) -> None:
    line = found.loc[[(0.0, 0.5), (0.5, 0.5), (1.0, 0.5)], "federated"].to_numpy()
    assert line[0] < 0.005 < line[1] < line[2]
    assert line[2] == pytest.approx(2 * line[1], rel=0.1)
    assert found.loc[(0.0, 1.5), "federated"] < 0.005
    assert found.loc[(0.0, 1.5), "alone"] > 2 * found.loc[(0.0, 0.5), "alone"]


def test_leakage_is_the_share_of_the_spurious_part_of_a_direction() -> None:
    assert leakage_of(np.array([[3.0, 0.0], [0.0, -2.0], [1.0, -1.0]])).tolist() == pytest.approx([0, 1, 0.5**0.5])


def test_a_trial_repeats_and_another_differs() -> None:
    clients = gaussian_clients(SETTINGS, CORRELATION, (0,))
    once, again, other = (simulate(clients, SETTINGS, 2.0, (seed,)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(once.federated, again.federated)
    assert not np.allclose(once.alone, other.alone)


def panel() -> Panel:
    """Generated readings with holes."""
    return generate(Regimes(clients=7, steps=900, regimes=3, missing_share=0.02))


def rows_from(made: Panel, first: int) -> np.ndarray:
    """Which readings come at step ``first`` or later."""
    return np.broadcast_to(np.arange(len(made.values))[:, None] >= first, made.values.shape)


def test_clients_of_a_panel_are_standardised_windows_without_a_hole() -> None:
    made = panel()
    partition = make_panel_partition(made, PanelPartitionSettings(history=6, horizon=4))
    clients = panel_clients(made, partition, SETTINGS, np.random.default_rng(0))
    assert len(clients) == 6  # an even number of seven
    for client in clients:
        assert np.isfinite([client.x, client.y]).all()
        assert [client.x.mean(), client.x.std(), client.y.mean(), client.y.std()] == pytest.approx(
            [0, 1, 0, 1], abs=1e-9
        )
    last = int(partition.about["split"]["train"][1])
    spoiled = replace(made, values=made.values.mask(rows_from(made, last), 1e6))
    same = panel_clients(spoiled, partition, SETTINGS, np.random.default_rng(0))
    assert all(np.array_equal(a.x, b.x) and np.array_equal(a.y, b.y) for a, b in zip(clients, same, strict=True))


def test_the_correlation_of_gaussian_clients_is_the_one_asked_for() -> None:
    assert correlations(gaussian_clients(SETTINGS, 0.8, (0,))) == pytest.approx(0.8, abs=0.03)


def test_rows_name_data_line_point_scale_and_trial() -> None:
    made = panel()
    partition = make_panel_partition(made, PanelPartitionSettings(history=6, horizon=4))
    settings = replace(SETTINGS, samples=300, scales=(1.0, 2.0), correlations=(0.9,), rounds=2)
    rows = pd.DataFrame(leakage_rows(made, partition, settings, 0))
    leaked = rows[rows["metric"] == "leakage"]
    assert len(leaked) == settings.trials * 2 * 2 * len(settings.points) * 3  # data, scales, points, lines
    assert "data=panel,line=federated,mean=0.5,scale=2.0,spread=0.5,trial=1" in set(leaked["condition"])
    assert leaked["value"].between(0, 1).all()
    assert not leaked["condition"].duplicated().any()


def test_a_panel_with_too_few_whole_windows_is_refused() -> None:
    made = panel()
    made = replace(made, values=made.values.mask(rows_from(made, 50)))
    partition = make_panel_partition(made, PanelPartitionSettings(history=6, horizon=4))
    with pytest.raises(InputError, match=r"values: expected two nodes with 100 training windows .* found 0"):
        panel_clients(made, partition, SETTINGS, np.random.default_rng(0))
