"""A generator that draws the same whatever its noise is found out; one that draws like the log is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedloom.evaluation.causal.collapse import collapse_rows
from fedloom.evaluation.causal.utility import Sequences

N, LONGEST = 400, 6


def sequences(seed: int) -> Sequences:
    """Ragged sequences whose contexts and outcomes differ between sequences and drift over steps."""
    random = torch.Generator().manual_seed(seed)
    drift = torch.arange(LONGEST)[None, :, None].float()
    valid = torch.arange(LONGEST) < torch.randint(1, LONGEST + 1, (N, 1), generator=torch.Generator().manual_seed(9))
    return Sequences(
        torch.randn(N, 2, generator=random),
        drift + torch.randn(N, LONGEST, 3, generator=random) * valid[..., None],
        torch.randint(0, 3, (N, LONGEST), generator=random),
        (torch.rand(N, LONGEST, generator=random) < 0.4).float(),
        valid,
        torch.arange(N) % 4,
    )


def judged(made: Sequences) -> dict[tuple[str, str], float]:
    """Values by metric and condition."""
    return {(each["metric"], each["condition"]): each["value"] for each in collapse_rows(made, sequences(0))}


def test_sequences_that_vary_as_the_real_ones_have_not_collapsed() -> None:
    found = judged(sequences(1))
    assert found["collapsed", ""] == 0
    assert found["spread", "of=outcome"] == pytest.approx(1, abs=0.1)
    assert found["spread", "of=context"] == pytest.approx(1, abs=0.1)


def test_a_constant_generator_has_collapsed() -> None:
    same = sequences(1)
    found = judged(replace(same, a_NLA=torch.zeros_like(same.a_NLA), y_NL=torch.ones_like(same.y_NL)))
    assert found["collapsed", ""] == 1
    assert found["spread", "of=outcome"] == found["spread", "of=context"] == 0


def test_one_course_for_all_sequences_is_a_collapse_though_it_moves_over_steps() -> None:
    same = sequences(1)
    found = judged(replace(same, a_NLA=same.a_NLA[:1].expand_as(same.a_NLA)))
    assert found["collapsed", ""] == 1
    assert found["spread", "of=context"] == pytest.approx(0, abs=1e-4)


def test_a_model_that_draws_less_varied_contexts_has_not_collapsed() -> None:
    same = sequences(1)
    found = judged(replace(same, a_NLA=0.3 * same.a_NLA))
    assert found["spread", "of=context"] == pytest.approx(0.3, abs=0.03)
    assert found["collapsed", ""] == 0


def test_what_lies_beyond_a_sequences_end_does_not_count() -> None:
    same = sequences(1)
    poisoned = replace(same, y_NL=torch.where(same.valid_NL, same.y_NL, 7.0))
    assert judged(poisoned) == judged(same)


def test_outcomes_that_never_vary_in_the_log_have_no_spread_and_make_no_collapse() -> None:
    real = replace(sequences(0), y_NL=torch.zeros(N, LONGEST))
    found = {(each["metric"], each["condition"]): each for each in collapse_rows(sequences(1), real)}
    assert np.isnan(found["spread", "of=outcome"]["value"])
    assert found["spread", "of=outcome"]["reason"] == "no variance"
    assert found["collapsed", ""]["value"] == 0
