"""Whatever a series looks like, no window straddles its parts and no batch holds a NaN."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedloom.data.series.table import SCHEMA, SeriesSet, describe
from fedloom.errors import InputError
from fedloom.federation.protocol import Protocol
from fedloom.federation.tasks.series import series_task
from fedloom.partition.series import SeriesPartitionSettings, make_series_partition

ASKED = SeriesPartitionSettings(length=16, patch=4)
NUMBER = st.one_of(st.just(float("nan")), st.floats(-(2.0**126), 2.0**126, width=32), st.sampled_from([0.0, 1.0]))
# Runs make constants and long gaps likely.
SERIES = st.lists(st.tuples(NUMBER, st.integers(1, 12)), min_size=1, max_size=25)


@given(st.lists(SERIES, min_size=1, max_size=3))
@settings(max_examples=60)
def test_no_window_straddles_and_no_batch_holds_a_nan(drawn: list[list[tuple[float, int]]]) -> None:
    values = [np.repeat(*zip(*runs, strict=True)).astype(np.float32) for runs in drawn]
    table = pd.DataFrame({"client": [str(i) for i in range(len(values))], "values": values})
    table = table.assign(id="0", channel="v", domain="d", seconds=1.0, start=pd.NaT, season=0)
    table = table.assign(validation=-1, test=-1, label=None, tasks=[[]] * len(table))[SCHEMA.names]
    data = SeriesSet(table, {"dataset": "x", "seen": []} | describe(table))
    try:
        made = make_series_partition(data, ASKED)
    except InputError:
        assume(False)
    row = made.windows["series"].to_numpy()
    bounds = made.scaling.iloc[row].assign(end=[len(values[i]) for i in row])
    lows = {"train": 0, "validation": bounds["validation"].to_numpy(), "test": bounds["test"].to_numpy()}
    ends = {"train": lows["validation"], "validation": lows["test"], "test": bounds["end"].to_numpy()}
    for part in lows:
        chosen = (made.windows["part"] == part).to_numpy()
        start, low, end = made.windows["start"].to_numpy(), np.broadcast_to(lows[part], len(row)), ends[part]
        assert (start[chosen] + 16 <= end[chosen]).all()
        # A window that begins before its part is the only one there, and sees nothing of what lies before.
        early = chosen & (start < low)
        assert (end[early] - low[early] < 16).all()
    tables = made.clients, made.scaling, made.windows
    task = series_task(data, made.about, *tables, Protocol(precision="float64"), torch.device("cpu"))
    for part in lows:
        for rows, numbers in task.chunks(part, 100):
            batch = task.batch(part, rows, numbers)
            assert torch.isfinite(batch.x).all()
            assert (batch.seen.sum(-1) > 0).all()
            assert (batch.hidden.sum(-1) > 0).all()
