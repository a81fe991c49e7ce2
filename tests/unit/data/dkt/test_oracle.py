"""The frozen oracle is the trained network, whole and unchanged."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load
from sklearn.metrics import roc_auc_score
from torch.testing import assert_close

from fedloom.data.trajectories.dkt import oracle as oracle_module
from fedloom.data.trajectories.dkt.oracle import BLOCK, FILE, SHA256, Oracle, read_oracle, shipped
from fedloom.data.trajectories.dkt.simulator import draw_items, simulate
from fedloom.data.trajectories.dkt.training import Recipe, Tracer, auc, train, weights
from fedloom.errors import InputError


def shipped_bytes() -> bytes:
    return (resources.files("fedloom.data.trajectories.dkt") / FILE).read_bytes()


def logits(oracle: Oracle, x: np.ndarray, t: np.ndarray, y: np.ndarray) -> np.ndarray:
    state, found = oracle.start(x), []
    for step in range(t.shape[1]):
        found.append(oracle.logits(state))
        state = oracle.step(state, t[:, step], y[:, step] == 1)
    return np.stack(found, axis=1)


def test_the_frozen_forward_is_that_of_the_network_it_was_made_from() -> None:
    torch.manual_seed(1)
    model, items = Tracer(50, 4, 32, 64), draw_items(1)
    records = simulate(items, 1, np.arange(5), 9)
    frozen = Oracle(weights(model, items))
    with torch.no_grad():
        expected = model.double()(*(torch.from_numpy(array) for array in (records.x, records.t, records.y)))
    assert_close(torch.from_numpy(logits(frozen, records.x, records.t, records.y)), expected, rtol=0, atol=1e-12)


def test_a_row_does_not_depend_on_its_company() -> None:
    frozen, rng = shipped(), np.random.default_rng(0)
    n = 2 * BLOCK + 3
    x, t, y = rng.normal(size=(n, 4)), rng.integers(0, 50, (n, 5)), rng.integers(0, 2, (n, 5))
    together, order = logits(frozen, x, t, y), rng.permutation(n)
    np.testing.assert_array_equal(logits(frozen, x[order], t[order], y[order]), together[order])
    for rows in (slice(0, 1), slice(300, 301), slice(5, 100), slice(n - 1, n)):
        np.testing.assert_array_equal(logits(frozen, x[rows], t[rows], y[rows]), together[rows])


def test_the_future_does_not_reach_back() -> None:
    frozen, rng = shipped(), np.random.default_rng(0)
    x, t, y = rng.normal(size=(3, 4)), rng.integers(0, 50, (3, 6)), rng.integers(0, 2, (3, 6))
    before = logits(frozen, x, t, y)
    t[:, 4], y[:, 4] = 7, 1 - y[:, 4]
    after = logits(frozen, x, t, y)
    np.testing.assert_array_equal(after[:, :5], before[:, :5])
    assert (after[:, 5] != before[:, 5]).all()


def test_the_shipped_file_predicts_new_students() -> None:
    tensors = load(shipped_bytes())
    items = draw_items(Recipe.seed)
    np.testing.assert_allclose(tensors["difficulty"], items.difficulty, rtol=1e-6)
    new = simulate(items, Recipe.seed, np.arange(50_000, 50_500), 50)
    z = np.take_along_axis(logits(shipped(), new.x, new.t, new.y), new.t[..., None], axis=2)
    assert roc_auc_score(new.y.ravel(), z.ravel()) > 0.76


def test_the_anchors_are_an_easy_and_a_hard_item() -> None:
    off, on = shipped().anchors
    ranked = list(np.argsort(shipped().difficulty))
    assert (ranked.index(off), ranked.index(on)) == (10, 38)


def test_a_damaged_file_is_refused_with_both_hashes(tmp_path: Path) -> None:
    data = bytearray(shipped_bytes())
    data[-1] ^= 1
    path = tmp_path / "oracle.safetensors"
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=rf"oracle.safetensors: sha256: expected {SHA256}, found [0-9a-f]{{64}}"):
        read_oracle(path, SHA256)


def test_the_package_refuses_a_damaged_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle_module, "SHA256", "0" * 64)
    with pytest.raises(InputError, match="sha256: expected 0000"):
        shipped.__wrapped__()


def test_the_area_under_the_curve_agrees_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    score, label = rng.integers(0, 9, 400).astype(np.float32), rng.integers(0, 2, 400)
    assert auc(score, label) == pytest.approx(roc_auc_score(label, score), abs=1e-12)


def test_practice_helps_and_covariates_tell_of_ability() -> None:
    items = draw_items(0)
    records = simulate(items, 0, np.arange(3000), 50)
    assert records.y[:, 25:].mean() > records.y[:, :25].mean() + 0.02
    right = records.y.mean(axis=1)
    assert (
        np.linalg.lstsq(records.x, right - right.mean(), rcond=None)[1][0] < 0.8 * ((right - right.mean()) ** 2).sum()
    )


@pytest.mark.slow
def test_training_anew_comes_as_far() -> None:
    """Four epochs of the shipped oracle's own recipe reach its AUC but for a hundredth; the other eight add that."""
    reached = [epoch.auc for epoch, _ in train(Recipe(epochs=4))]
    assert reached == sorted(reached)
    assert 0.76 < reached[-1] < 0.78
