"""Learning from good sequences foretells real outcomes, learning from shuffled ones does not."""

from __future__ import annotations

import numpy as np
import torch

from fedloom.evaluation.causal.utility import (
    Sequences,
    predict,
    reference_rows,
    shuffled,
    train_predictor,
    utility_rows,
)
from fedloom.evaluation.rows import as_metrics
from fedloom.evaluation.schema import METRICS

CLIENTS = ["c00", "c01"]


def sequences(seed: int, n: int = 400, longest: int = 5) -> Sequences:
    """Return sequences whose outcome hangs on x and on the action."""
    g = torch.Generator().manual_seed(seed)
    x, a = torch.randn(n, 2, generator=g), torch.randn(n, longest, 1, generator=g)
    t = torch.randint(0, 4, (n, longest), generator=g)
    y = (torch.rand(n, longest, generator=g) < torch.sigmoid(2 * x[:, :1] + 2 * (t == 1) - 1)).float()
    valid = torch.arange(longest) < torch.randint(1, longest + 1, (n, 1), generator=g)
    return Sequences(x, a, torch.where(valid, t, 4), y * valid, valid, torch.arange(n) % 2)


def test_real_and_like_sequences_teach_and_shuffled_ones_do_not() -> None:
    rows = utility_rows("synthetic", sequences(1), sequences(3), 4, CLIENTS, seed=0)
    rows += reference_rows(sequences(2), sequences(3), 4, CLIENTS, seed=0)
    spec = {"dataset": "made", "method": "m", "variant": "base", "seed": 0}
    frame = METRICS.validate(as_metrics(rows, spec, "selected"))
    auc = frame[(frame["metric"] == "tstr_auc") & (frame["unit"] == "pooled")].set_index("condition")["value"]
    assert auc["source=synthetic"] > 0.75
    assert auc["source=real"] > 0.75
    assert auc["source=shuffled"] < 0.65
    rmse = frame[(frame["metric"] == "tstr_rmse") & (frame["unit"] == "pooled")].set_index("condition")["value"]
    assert rmse["source=real"] < rmse["prediction=base_rate"] < rmse["source=shuffled"] + 0.01
    assert auc["prediction=half"] == auc["prediction=base_rate"] == 0.5


def test_the_predictor_sees_neither_the_outcome_it_foretells_nor_what_follows() -> None:
    learned = train_predictor(sequences(4, 50), 4, seed=0)
    asked = sequences(5, 30)
    changed = Sequences(**vars(asked) | {"y_NL": asked.y_NL.clone(), "t_NL": asked.t_NL.clone()})
    changed.y_NL[:, 2:] = 1 - changed.y_NL[:, 2:]
    changed.t_NL[:, 3:] = 0
    with torch.no_grad():
        assert torch.equal(learned(asked)[:, :3], learned(changed)[:, :3])
        assert not torch.equal(learned(asked)[:, 3:], learned(changed)[:, 3:])


def test_the_same_seed_gives_the_same_predictor_and_leaves_the_generator_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one, two = (predict(train_predictor(sequences(6, 60), 4, seed=3), sequences(7, 20)) for _ in range(2))
    assert np.array_equal(one, two)
    assert torch.equal(before, torch.get_rng_state())


def test_shuffling_keeps_the_outcomes_but_not_their_places() -> None:
    made = sequences(8)
    found = shuffled(made, 0)
    assert found.y_NL[made.valid_NL].sum() == made.y_NL[made.valid_NL].sum()
    assert not torch.equal(found.y_NL, made.y_NL)
    assert torch.equal(found.y_NL[~made.valid_NL], made.y_NL[~made.valid_NL])


def test_a_few_sequences_teach_at_least_how_common_the_outcome_is() -> None:
    rare = sequences(9)
    rare = Sequences(**vars(rare) | {"y_NL": (torch.arange(400)[:, None] % 20 == 0) * rare.valid_NL.float()})
    found = predict(train_predictor(rare, 4, seed=0), rare)
    assert abs(found.mean() - float(rare.y_NL[rare.valid_NL].mean())) < 0.03
