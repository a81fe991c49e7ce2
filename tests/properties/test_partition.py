"""Nothing of one part or one client reaches another before training does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.data.panels.build import build_panel
from fedloom.data.panels.regimes import Regimes, generate
from fedloom.data.panels.settings import Graph, PanelSettings
from fedloom.data.raw import Note, land, sha256
from fedloom.data.split import PARTS
from fedloom.partition.panels import PanelPartitionSettings, make_panel_partition, split_steps, window_starts

PANEL = generate(Regimes(clients=4, steps=400))
SPLITS = st.sampled_from([(0.7, 0.1, 0.2), (0.6, 0.2, 0.2), (0.34, 0.33, 0.33)])


@given(st.integers(50, 5000), SPLITS, st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_no_window_straddles_two_parts(
    steps: int, split: tuple[float, float, float], history: int, horizon: int, reach_back: bool
) -> None:
    limits = split_steps(steps, split)
    assert [limits["train"][0], limits["test"][1]] == [0, steps]
    for part in PARTS:
        low, high = limits[part]
        starts = window_starts(limits[part], history, horizon, reach_back)
        targets = starts[:, None] + history + np.arange(horizon)
        inputs = starts[:, None] + np.arange(history)
        assert ((targets >= low) & (targets < high)).all()
        assert (inputs >= (0 if reach_back else low)).all()
        if len(starts):
            assert targets.max() == high - 1


@given(st.sampled_from(["client", "global"]), SPLITS)
@settings(deadline=None)
def test_test_values_reach_no_scaler_and_no_window(scaler: str, split: tuple[float, float, float]) -> None:
    asked = PanelPartitionSettings(split=split, scaler=scaler)  # type: ignore[arg-type]
    first = make_panel_partition(PANEL, asked)
    changed = PANEL.values.copy()
    later = changed.index[first.about["split"]["test"][0] :]
    changed.loc[later] = changed.loc[later].where(changed.loc[later].isna(), np.float32(1e6))
    second = make_panel_partition(replace(PANEL, values=changed), asked)
    assert first.about == second.about
    pd.testing.assert_frame_equal(first.clients, second.clients)
    pd.testing.assert_frame_equal(first.windows, second.windows)


def test_test_values_reach_no_graph(tmp_path: Path) -> None:
    nodes = "id,lat,lon\na,48.0,11.0\nb,48.1,11.1\nc,48.3,11.0\n"
    stamps = pd.date_range("2024-01-01", periods=100, freq="5min")
    table = pd.DataFrame(np.arange(300.0).reshape(100, 3), index=stamps, columns=list("abc"))
    asked = PanelSettings("toy", "mph", 5, reader="csv", graph=Graph("positions", threshold=0))
    edges = []
    for number, frame in enumerate((table, pd.concat([table[:80], table[80:] * 0 + 1e6]))):
        folder = tmp_path / str(number)
        lay(folder, "values", frame.to_csv())
        lay(folder, "nodes", nodes)
        edges.append(build_panel(asked, folder).edges)
    assert not edges[0].empty
    pd.testing.assert_frame_equal(*edges)


@given(st.integers(0, 3), st.integers(0, 399), st.floats(-1e4, 1e4, width=32))
@settings(deadline=None)
def test_one_clients_readings_change_no_other_clients_scaler(client: int, step: int, value: float) -> None:
    changed = PANEL.values.copy()
    changed.iloc[step:, client] = value
    before, after = (make_panel_partition(p, PanelPartitionSettings()) for p in (PANEL, replace(PANEL, values=changed)))
    others = [i for i in range(4) if i != client]
    pd.testing.assert_frame_equal(before.clients.iloc[others], after.clients.iloc[others])


def lay(folder: Path, key: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    temporary = folder / f"{key}.part"
    temporary.write_text(text)
    land(temporary, folder / key, Note("csv", sha256(temporary), "path", key))
