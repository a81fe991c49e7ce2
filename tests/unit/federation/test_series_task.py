"""The task of series: what a batch holds, which tokens are hidden, what validation measures, what pooling keeps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fedloom.data.series.table import SCHEMA, SeriesSet, describe, write_series
from fedloom.errors import InputError
from fedloom.federation.masking import LEAST_SD, hide, points, visible_scale
from fedloom.federation.protocol import Protocol
from fedloom.federation.tasks.series import SeriesTask, series_task
from fedloom.partition.folder import write_partition
from fedloom.partition.series import SeriesPartitionSettings, make_series_partition

LENGTHS = {"long": 400, "middle": 150, "short": 40}
ASKED = SeriesPartitionSettings(length=32, patch=4)


def data(order: tuple[str, ...] = tuple(LENGTHS), gap: slice = slice(20, 45)) -> SeriesSet:
    rows = []
    for name in order:
        values = np.random.default_rng(len(name)).normal(5, 2, LENGTHS[name]).astype(np.float32)
        if name == "long":
            values[gap] = np.nan
        rows.append({"client": name, "id": "0", "channel": "v", "domain": "d", "values": values})
    table = pd.DataFrame(rows).assign(seconds=1.0, start=pd.NaT, season=0, validation=-1, test=-1, label=None)
    table["tasks"] = [[]] * len(table)
    table = table[SCHEMA.names]
    about = {"dataset": "x", "part": None, "exclusions": {}, "cleaned": {}, "seen": [], "bias": {}}
    return SeriesSet(table, about | describe(table))


def task(source: SeriesSet | None = None, **protocol: object) -> SeriesTask:
    source = data() if source is None else source
    made = make_series_partition(source, ASKED)
    tables = made.clients, made.scaling, made.windows
    return series_task(source, made.about, *tables, Protocol(**protocol), torch.device("cpu"))  # type: ignore[arg-type]


def everything(made: SeriesTask, part: str = "train") -> tuple[torch.Tensor, torch.Tensor]:
    longest = int(made.sizes(part).max())
    rows = torch.arange(len(made.ids))
    return rows, torch.arange(longest).expand(len(rows), -1)


def test_a_batch_holds_scaled_values_where_seen_and_zero_elsewhere() -> None:
    made, source = task(), data()
    rows, numbers = everything(made)
    batch = made.batch("train", rows, numbers)
    assert not batch.x.isnan().any()
    assert (batch.x[batch.seen == 0] == 0).all()
    assert batch.valid.sum(1).tolist() == made.sizes("train").tolist()
    assert (batch.seen.sum(-1) > 0).equal(batch.valid > 0)
    values = source.table["values"].iloc[1][:105].astype(float)
    last = torch.from_numpy((values - values.mean()) / values.std())[-32:].float()
    torch.testing.assert_close(batch.x[1, int(made.sizes("train")[1]) - 1], last)


def test_a_short_series_is_padded_on_the_left() -> None:
    made = task()
    batch = made.batch("train", torch.tensor([2]), torch.tensor([[0]]))
    assert batch.seen[0, 0].tolist() == [0.0] * 4 + [1.0] * 28
    held = made.batch("test", torch.tensor([2]), torch.tensor([[0]]))
    assert held.seen[0, 0].tolist() == [0.0] * 24 + [1.0] * 8


def test_three_quarters_of_the_observed_tokens_are_hidden_and_always_the_same() -> None:
    made = task()
    rows, numbers = everything(made)
    batch = made.batch("train", rows, numbers)
    there = (batch.seen.unflatten(-1, (8, 4)).amax(-1) > 0).sum(-1)
    assert batch.hidden.sum(-1).equal((there * 0.75).floor().long())
    assert (there[0] == 8).any()
    assert ((there[0] > 0) & (there[0] < 8)).any()
    again = made.batch("train", rows[1:2], numbers[:1, 3:5])
    assert again.hidden[0].equal(batch.hidden[1, 3:5])
    assert not batch.hidden[0, -1].equal(batch.hidden[0, -2])


def test_windows_and_masks_do_not_depend_on_the_order_of_the_clients() -> None:
    order = ("short", "long", "middle")
    first, second = task(), task(data(order))
    for mine, name in enumerate(LENGTHS):
        numbers = torch.arange(int(first.sizes("train")[mine]))[None]
        one = first.batch("train", torch.tensor([mine]), numbers)
        other = second.batch("train", torch.tensor([order.index(name)]), numbers)
        assert all(a.equal(b) for a, b in zip(one, other, strict=True))
        assert first.keys[mine] == second.keys[order.index(name)]


def test_chunks_cover_every_window_once() -> None:
    made = task()
    for chunk in (1, 40, 10_000):
        met = [set() for _ in made.ids]
        for rows, numbers in made.chunks("train", chunk):
            for row, each in zip(rows.tolist(), numbers.tolist(), strict=True):
                assert not met[row] & set(each)
                met[row] |= set(each)
        assert [len(each) for each in met] == made.sizes("train").tolist()


def test_validation_is_the_error_of_hidden_points_in_units_of_the_visible_ones() -> None:
    made = task()
    looked = made.validate(lambda batch, rows: batch.x + 0.5, 100)
    errors = []
    for client in range(3):
        numbers = torch.arange(int(made.sizes("validation")[client]))[None]
        batch = made.batch("validation", torch.tensor([client]), numbers)
        hidden = batch.hidden.repeat_interleave(4, -1) & (batch.seen > 0)
        total = n = 0.0
        for x, h, s in zip(batch.x[0], hidden[0], batch.seen[0] > 0, strict=True):
            total += float(h.sum() * (0.5 / max(float(x[s & ~h].std(correction=0)), LEAST_SD)) ** 2)
            n += float(h.sum())
        errors.append(total / n if n else float("nan"))
    np.testing.assert_allclose(looked.log["validation_mse"].numpy(), errors, rtol=1e-5)
    assert looked.score == pytest.approx(np.nanmean(errors), rel=1e-5)


def test_validation_windows_are_thinned_by_the_protocol_but_every_client_keeps_one() -> None:
    whole, thin = task(), task(validation_stride=3)
    assert thin.sizes("validation").tolist() == [-(-n // 3) for n in whole.sizes("validation").tolist()]
    assert thin.sizes("train").equal(whole.sizes("train"))


def test_pooling_draws_clients_by_the_root_of_their_size_and_is_judged_as_before() -> None:
    made = task()
    pooled = made.pooled()
    sizes = made.sizes("train").double()
    total = int(pooled.sizes("train"))
    homes = torch.bincount(pooled.windows["train"].home[:-1], minlength=3).double()
    torch.testing.assert_close(homes / total, sizes.sqrt() / sizes.sqrt().sum(), atol=0.03, rtol=0)
    assert abs(total - int(sizes.sum())) <= 3
    assert pooled.validate(lambda batch, rows: batch.x * 0, 100).score == pytest.approx(
        made.validate(lambda batch, rows: batch.x * 0, 100).score
    )
    assert pooled.ids == ["all"]
    batch = pooled.batch("train", torch.tensor([0]), torch.arange(total + 2)[None])
    assert batch.valid[0].tolist() == [1.0] * total + [0.0] * 2
    assert not batch.x.isnan().any()


def test_a_client_without_windows_in_a_part_is_padding_there(tmp_path: Path) -> None:
    made = task()
    assert int(made.sizes("validation")[2]) == 0
    batch = made.batch("validation", torch.tensor([2]), torch.tensor([[0, 1]]))
    assert batch.valid.sum() == 0
    assert batch.seen.sum() == 0


def test_the_task_is_read_from_its_artifacts_and_refuses_others(tmp_path: Path) -> None:
    source = data()
    write_series(source, tmp_path / "series")
    write_partition(make_series_partition(source, ASKED), tmp_path / "partition")
    read = SeriesTask.read(tmp_path / "series", tmp_path / "partition", Protocol(), torch.device("cpu"))
    rows, numbers = everything(read)
    for mine, theirs in zip(task().batch("train", rows, numbers), read.batch("train", rows, numbers), strict=True):
        assert mine.equal(theirs)
    assert json.loads((tmp_path / "partition" / "partition.json").read_text())["stride"] == 8
    write_series(data(("long", "short")), tmp_path / "other")
    with pytest.raises(InputError, match="partition of x: expected the 3 series of the partition, found 2"):
        SeriesTask.read(tmp_path / "other", tmp_path / "partition", Protocol(), torch.device("cpu"))


def test_hiding_works_inside_vmap_and_at_any_rate() -> None:
    noise, seen = torch.rand(3, 5, 8), torch.ones(3, 5, 32)
    for share, count in ((0.125, 1), (0.375, 3), (0.75, 6)):
        together = hide(noise, seen, share)
        assert together.sum(-1).eq(count).all()
        assert torch.vmap(lambda n, s, share=share: hide(n, s, share))(noise, seen).equal(together)


def test_the_visible_scale_ignores_what_is_hidden_and_has_a_floor() -> None:
    x = torch.tensor([[1.0, 3.0, 100.0, 0.0]])
    mean, sd = visible_scale(x, torch.tensor([[1.0, 1.0, 0.0, 0.0]]))
    assert (mean.item(), sd.item()) == (2.0, 1.0)
    assert visible_scale(torch.ones(1, 4), torch.ones(1, 4))[1].item() == pytest.approx(LEAST_SD)
    assert [float(each) for each in visible_scale(x, torch.zeros(1, 4))] == [0.0, 1.0]
    assert points(torch.tensor([True, False]), 6).tolist() == [True] * 3 + [False] * 3
