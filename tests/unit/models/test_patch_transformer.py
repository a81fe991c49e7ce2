"""The masked patch transformer: its size, what it must not see, and its layers against torch's own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from fedloom.federation.masking import token_seen
from fedloom.federation.tasks.series import SeriesWindows
from fedloom.models.layers.transformer import EncoderLayer
from fedloom.models.patch_transformer import PatchTransformer, PatchTransformerModel, rate, training_masks

LENGTH, PATCH = 32, 4
TOKENS = LENGTH // PATCH


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def model(dbe: bool = False) -> PatchTransformer:
    torch.manual_seed(0)
    task = SimpleNamespace(patch=PATCH, tokens=TOKENS, length=LENGTH)
    return PatchTransformer(task, PatchTransformerModel.Params(width=8, layers=2, heads=2, dbe=dbe))


def windows(count: int = 6, dtype: torch.dtype = torch.float32) -> SeriesWindows:
    """Windows with a gap of one token and a few single points missing; three quarters of the tokens hidden."""
    x = torch.randn(count, LENGTH, generator=generator(), dtype=dtype).cumsum(-1)
    seen = torch.ones_like(x)
    seen[:, 8:12] = 0
    seen[:, 17] = 0
    hidden = torch.zeros(count, TOKENS, dtype=torch.bool)
    for row in range(count):
        order = torch.randperm(TOKENS, generator=generator(row))
        hidden[row, order[order != 2][:5]] = True
    return SeriesWindows(x * seen, seen, hidden, torch.ones(count, dtype=dtype))


@pytest.mark.parametrize(
    ("length", "patch", "sizes", "count"),
    [
        (256, 16, (64, 2, 4), 103_312),
        (512, 16, (128, 3, 8), 603_536),
        (512, 32, (512, 9, 8), 28_414_496),
    ],
)
def test_every_scale_has_the_stated_number_of_parameters(
    length: int, patch: int, sizes: tuple[int, int, int], count: int
) -> None:
    task = SimpleNamespace(patch=patch, tokens=length // patch, length=length)
    with torch.device("meta"):
        module = PatchTransformer(task, PatchTransformerModel.Params(*sizes))
    assert sum(p.numel() for p in module.parameters()) == count


@pytest.mark.parametrize("dbe", [False, True])
def test_hidden_and_missing_values_influence_nothing(dbe: bool) -> None:
    module, given = model(dbe), windows()
    unseen = given.hidden.repeat_interleave(PATCH, 1) | (given.seen == 0)
    other = given._replace(x=torch.where(unseen, 1e4 * torch.randn(given.x.shape, generator=generator(9)), given.x))
    assert torch.equal(module(given), module(other))


def test_nothing_is_seen_of_the_masks_that_training_draws() -> None:
    loss = PatchTransformerModel(PatchTransformerModel.Params()).reconstruction
    module, given = model(), windows()
    for suffix in (0.0, 1.0):
        draws = {"order": torch.rand(6, TOKENS, generator=generator()), "suffix": torch.tensor([suffix, 0.5])}
        masked = training_masks(given, draws["order"], draws["suffix"])
        unseen = masked.hidden.repeat_interleave(PATCH, 1)
        other = given._replace(x=torch.where(unseen, 1e4 + given.x, given.x))
        assert torch.equal(module.encode(masked).h, module.encode(masked._replace(x=other.x)).h)
        moment = SimpleNamespace(noise=draws)
        assert loss(module, given, moment)[0] < loss(module, other, moment)[0]


def test_a_constant_added_to_all_windows_is_invisible() -> None:
    module, given = model(dbe=True).double(), windows(dtype=torch.float64)
    moved = given._replace(x=(given.x + 7) * given.seen)
    torch.testing.assert_close(module.encode(given).h, module.encode(moved).h, rtol=0, atol=1e-9)
    torch.testing.assert_close(module(given) + 7, module(moved), rtol=0, atol=1e-9)


def test_tokens_without_a_point_are_not_attended_to() -> None:
    module, given = model(), windows()
    given = given._replace(seen=given.seen.clone())
    given.seen[:, :PATCH] = 0
    given = given._replace(hidden=given.hidden & token_seen(given.seen, TOKENS))
    before = module.encode(given).h[:, [1, *range(3, TOKENS)]]
    with torch.no_grad():
        module.positions[[0, 2]] += 5
    assert torch.equal(module.encode(given).h[:, [1, *range(3, TOKENS)]], before)


def test_an_unknown_future_is_asked_for_as_a_hidden_one() -> None:
    module, given = model(), windows()
    future = given._replace(hidden=torch.zeros_like(given.hidden))
    future.hidden[:, -2:] = True
    blank = future._replace(seen=torch.cat([given.seen[:, : -2 * PATCH], torch.zeros(6, 2 * PATCH)], 1))
    assert torch.equal(module(future), module(blank))


def test_a_token_is_its_code_as_far_as_it_is_observed() -> None:
    module = model()
    whole = windows()._replace(seen=torch.ones(6, LENGTH), hidden=torch.zeros(6, TOKENS, dtype=torch.bool))
    coded = module.embedded(whole)
    normal = ((whole.x - coded.mean) / coded.sd).unflatten(-1, (TOKENS, PATCH))
    torch.testing.assert_close(coded.h, module.embed(normal) + module.positions)
    hidden = whole._replace(hidden=torch.ones_like(whole.hidden))
    torch.testing.assert_close(module.embedded(hidden).h, (module.mask + module.positions).expand(6, -1, -1))


def test_the_error_is_a_mean_over_hidden_observed_points_of_real_windows() -> None:
    module, given = model(), windows()
    given = given._replace(valid=torch.tensor([1.0, 1, 1, 1, 0, 0]))
    coded = module.encode(given)
    rebuilt = module.rebuilt(coded, None).detach()
    total, points = 0.0, 0
    for row in range(4):
        for point in range(LENGTH):
            if given.hidden[row, point // PATCH] and given.seen[row, point]:
                target = (given.x[row, point] - coded.mean[row, 0]) / coded.sd[row, 0]
                total, points = total + float((rebuilt[row, point] - target) ** 2), points + 1
    assert module.error(rebuilt, coded, given).item() == pytest.approx(total / points, rel=1e-5)


@pytest.mark.parametrize("hole", [False, True])
def test_an_encoder_layer_equals_torchs_own(hole: bool) -> None:
    ours = EncoderLayer(16, 4)
    theirs = torch.nn.TransformerEncoderLayer(
        16, 4, dim_feedforward=64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    pairs = {
        "self_attn.in_proj_weight": ours.attend.inward.weight,
        "self_attn.in_proj_bias": ours.attend.inward.bias,
        "self_attn.out_proj.weight": ours.attend.outward.weight,
        "self_attn.out_proj.bias": ours.attend.outward.bias,
        "linear1.weight": ours.inner.weight,
        "linear1.bias": ours.inner.bias,
        "linear2.weight": ours.outer.weight,
        "linear2.bias": ours.outer.bias,
    }
    norms = {
        f"norm{i}.{p}": getattr(n, p)
        for i, n in ((1, ours.attend_norm), (2, ours.feed_norm))
        for p in ("weight", "bias")
    }
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator(parameter.numel())) / 4)
        for name, value in (pairs | norms).items():
            theirs.get_parameter(name).copy_(value)
    h = torch.randn(5, 7, 16, generator=generator())
    alive = torch.ones(5, 7, dtype=torch.bool)
    if hole:
        alive[:, 3:5] = False
    torch.testing.assert_close(ours(h, alive), theirs(h, src_key_padding_mask=~alive), rtol=0, atol=1e-5)


def drawn(batches: int) -> list[Tensor]:
    given = windows()._replace(seen=torch.ones(6, LENGTH))
    draws = torch.rand(batches, 6, TOKENS, generator=generator()), torch.rand(batches, 2, generator=generator(1))
    return [training_masks(given, order, suffix).hidden for order, suffix in zip(*draws, strict=True)]


def test_training_hides_three_quarters_of_a_window_or_its_end() -> None:
    ends = 0
    for hidden in drawn(400):
        scattered = (hidden.sum(1) == 6).all() and not (hidden == hidden[0]).all()
        ending = (hidden == hidden[0]).all() and hidden[0].int().diff().min() >= 0
        assert scattered or ending
        assert 2 <= int(hidden[0].sum()) <= 6
        ends += int(ending)
    assert ends / 400 == pytest.approx(0.25, abs=0.07)


def test_every_token_is_hidden_equally_often() -> None:
    often = torch.stack(drawn(800)).float().mean((0, 1))
    scattered = 0.75 * 0.75
    assert often.min() > scattered - 0.05
    assert often.max() < scattered + 0.25 + 0.05


def test_the_learning_rate_rises_and_then_falls_to_nothing() -> None:
    rates = [rate(r / 100) for r in range(100)]
    assert rates[0] == 0.5
    assert rates[5] == 1.0
    change = torch.tensor(rates).diff()
    assert (change[:5] > 0).all()
    assert (change[5:] < 0).all()
    assert rates[-1] < 1e-3
