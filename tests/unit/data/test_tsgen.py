"""Generated series: biases are as logged, and with a bias off the clients do not differ in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedloom.data.series.build import build_series
from fedloom.data.series.settings import SeriesSettings
from fedloom.data.series.tsgen import TsGen, generate, planted
from fedloom.errors import InputError


def test_a_seed_gives_the_same_series_and_clients_do_not_depend_on_their_number(tmp_path: Path) -> None:
    few, bias = generate(TsGen(clients=2, points=300))
    many, _ = generate(TsGen(clients=5, points=300))
    for mine, theirs in zip(few["values"], many["values"], strict=False):
        np.testing.assert_array_equal(mine, theirs)
    other, _ = generate(TsGen(clients=2, points=300, seed=1))
    assert not np.array_equal(few["values"].iloc[0], other["values"].iloc[0])
    data = build_series(SeriesSettings("toy", generate=TsGen(clients=2, points=300)), tmp_path)
    assert data.about["bias"] == bias


def test_without_bias_all_clients_have_one_resolution_no_constraint_and_no_change() -> None:
    _, bias = generate(TsGen(clients=8, points=100, biases=()))
    for known in bias.values():
        expected = {"resolution": 8.0, "constraint": "none", "change_rate": 0.0, "drift": 0.0, "constrained": 0.0}
        assert known == expected


@pytest.mark.parametrize(("bias", "name"), [("resolution", "resolution"), ("pattern_shift", "change_rate")])
def test_a_bias_that_is_on_alone_differs_between_clients_and_no_other_does(bias: str, name: str) -> None:
    settings = TsGen(clients=12, biases=(bias,))  # type: ignore[arg-type]
    known = [planted(settings, client) for client in range(12)]
    differing = {field for field in vars(known[0]) if len({getattr(each, field) for each in known}) > 1}
    assert name in differing
    assert differing <= {name, "drift"}


def test_constraints_hold_and_their_size_is_logged() -> None:
    rows, bias = generate(TsGen(clients=40, points=400, biases=("constraint",)))
    free, _ = generate(TsGen(clients=40, points=400, biases=()))
    met = set()
    for (_, row), (_, bare) in zip(rows.iterrows(), free.iterrows(), strict=True):
        known = bias[row["client"]]
        met.add(known["constraint"])
        if known["constraint"] == "none":
            np.testing.assert_array_equal(row["values"], bare["values"])
        elif known["constraint"] == "non-negative":
            assert row["values"].min() >= 0
        elif known["constraint"] == "saturating":
            assert np.abs(row["values"]).max() <= 1
        else:
            np.testing.assert_allclose(2 * row["values"], np.round(2 * row["values"]), atol=1e-5)
        assert (known["constrained"] > 0) == (known["constraint"] != "none")
    assert met == {"none", "non-negative", "saturating", "step-quantised"}


def test_resolution_is_the_length_of_a_base_cycle() -> None:
    rows, bias = generate(TsGen(clients=6, series=3, points=4096, biases=("resolution",), noise_sd=0.0))
    for _, row in rows.iterrows():
        values = row["values"] - np.poly1d(np.polyfit(np.arange(4096), row["values"], 1))(np.arange(4096))
        power = np.abs(np.fft.rfft(values * np.hanning(4096)))
        strongest = 4096 / int(power[1:].argmax() + 1)
        periods = np.array([0.5, 1.0, 2.0, 3.5, 7.0]) * bias[row["client"]]["resolution"]
        # Below two points a period the sampled series shows an alias.
        aliased = 1 / np.abs(1 / periods - np.round(1 / periods)).clip(1e-9)
        assert np.isclose(aliased, strongest, rtol=0.1).any()


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="tsgen: clients: expected a number from 1"):
        TsGen(clients=0)
