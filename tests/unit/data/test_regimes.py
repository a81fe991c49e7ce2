"""The generated panel holds what it promises: regimes that matter, unequal exposure, planted influence, a floor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_squared_error

from fedloom.data.panels.panel import Panel
from fedloom.data.panels.regimes import Regimes, generate
from fedloom.errors import InputError

SMALL = Regimes(clients=6, steps=1200)


def truth(panel: Panel, quantity: str) -> pd.DataFrame:
    table = panel.truth.filter(like=f"{quantity}/")
    return table.set_axis([name.partition("/")[2] for name in table.columns], axis=1)


def shares(panel: Panel) -> np.ndarray:
    regime = truth(panel, "regime")
    return np.stack([(regime == r).mean() for r in range(int(regime.to_numpy().max()) + 1)])


def lagged_gain(panel: Panel, lag: int) -> float:
    """Mean coefficient on the parents' past, of the reading that calendar, covariate and own regime do not explain."""
    day = panel.values.index.hour * 60 + panel.values.index.minute
    values = panel.values.sub(SMALL.covariate * panel.features["covariate"], axis=0)
    pattern = values.groupby([day, panel.values.index.day_of_week >= 5]).transform("mean")
    rest = values - pattern
    regime = truth(panel, "regime")
    gains = []
    for node, parents in panel.edges.groupby("dst"):
        own = rest[node] - rest[node].groupby([regime[node], day // 180]).transform("mean")
        arrived = sum(rest[row.src].shift(lag, fill_value=0) * row.weight for row in parents.itertuples())
        gains.append(np.polyfit(np.asarray(arrived)[lag:], own[lag:], 1)[0])
    return float(np.mean(gains))


def test_one_seed_gives_one_panel_and_another_seed_another() -> None:
    first, again, other = generate(SMALL), generate(SMALL), generate(replace(SMALL, seed=1))
    for name in ("values", "nodes", "edges", "features", "truth"):
        pd.testing.assert_frame_equal(getattr(first, name), getattr(again, name))
    assert not first.values.equals(other.values)


def test_a_clients_own_series_does_not_depend_on_how_many_others_there_are() -> None:
    alone = replace(SMALL, strength=0)
    few, many = generate(alone), generate(replace(alone, clients=9))
    pd.testing.assert_frame_equal(few.values, many.values[few.values.columns])


@given(st.sampled_from([0.5, 1.0, 4.0]), st.integers(0, 3))
@settings(max_examples=8, deadline=None)
def test_the_known_best_error_is_the_error_of_the_signal(noise: float, seed: int) -> None:
    panel = generate(replace(SMALL, noise_sd=noise, seed=seed))
    seen = panel.values.notna().to_numpy()
    value, signal = panel.values.to_numpy()[seen], truth(panel, "signal").to_numpy()[seen]
    assert np.sqrt(mean_squared_error(value, signal)) == pytest.approx(panel.about["best_rmse"], rel=0.05)
    assert np.abs(value - signal).mean() == pytest.approx(panel.about["best_mae"], rel=0.05)


def test_regimes_explain_what_the_calendar_does_not() -> None:
    panel = generate(replace(SMALL, strength=0))
    day = panel.values.index.hour
    signal, regime = truth(panel, "signal"), truth(panel, "regime")
    for node in panel.values.columns:
        by_clock = signal[node] - signal[node].groupby(day).transform("mean")
        by_regime = signal[node] - signal[node].groupby([day, regime[node]]).transform("mean")
        assert by_regime.var() < 0.6 * by_clock.var()


def test_regimes_hold_for_at_least_half_their_mean_stay() -> None:
    regime = truth(generate(SMALL), "regime")
    for node in regime:
        starts = np.flatnonzero(np.diff(regime[node]))
        assert np.diff(starts).min() >= SMALL.dwell // 2


def test_a_smaller_concentration_makes_clients_more_unequal() -> None:
    spread = [shares(generate(replace(SMALL, clients=12, exposure=e))).std(axis=1).mean() for e in (100.0, 1.0, 0.1)]
    assert spread == sorted(spread)


def test_the_planted_influence_arrives_after_its_lag_along_the_edges() -> None:
    panel = generate(replace(SMALL, strength=0.6, steps=4000, missing_share=0))
    assert 0.45 < lagged_gain(panel, SMALL.lag) < 0.75
    without = generate(replace(SMALL, strength=0, steps=4000, missing_share=0))
    assert abs(lagged_gain(without, SMALL.lag)) < 0.1


@given(st.sampled_from([0.0, 0.02, 0.1, 0.5]), st.integers(1, 12))
@settings(max_examples=10, deadline=None)
def test_the_missing_share_is_the_one_asked_for(share: float, run: int) -> None:
    panel = generate(replace(SMALL, missing_share=share, missing_run=run))
    assert panel.values.isna().mean().to_numpy() == pytest.approx(share, abs=run / SMALL.steps)


def test_the_covariate_is_standard_and_the_graph_directed() -> None:
    panel = generate(Regimes())
    assert panel.values.shape == (3000, 24)
    assert panel.features["covariate"].std(ddof=0) == pytest.approx(1, rel=1e-3)
    assert panel.edges.groupby("dst")["weight"].sum().to_numpy() == pytest.approx(1)
    pairs = set(zip(panel.edges["src"], panel.edges["dst"], strict=True))
    assert any((b, a) not in pairs for a, b in pairs)
    assert all(a != b for a, b in pairs)


@pytest.mark.parametrize(("name", "value"), [("clients", 0), ("strength", 1.5), ("missing_share", -0.1), ("dwell", 1)])
def test_a_setting_out_of_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"regimes: {name}: expected a number from .*found {value}"):
        replace(SMALL, **{name: value})  # type: ignore[arg-type]
