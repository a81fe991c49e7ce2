"""Noise before an upload: what reaches the server is bounded, drawn anew, and the same however one computes."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.check.problems import PROTOCOL, problem
from fedloom.errors import InputError
from fedloom.federation.protocol import Protocol
from fedloom.federation.randomness import client_keys, derive
from fedloom.federation.rounds import Federation, State
from fedloom.federation.upload_noise import Kind, UploadNoise, disturbed, unit_noise
from fedloom.methods.atlas import Atlas
from fedloom.methods.st_split_vfl import StSplitVfl

KEYS = client_keys(["a", "b", "c"])


def trained(noise: UploadNoise | None, seed: int = 3, **how: Any) -> tuple[Federation, State]:
    """Atlas on the small problem, its uploads disturbed by ``noise``."""
    protocol = replace(PROTOCOL, noise=noise)
    method = Atlas(Atlas.Params(encoder="compact", width=8, depth=1, prototypes=4))
    federation = Federation(method, problem().task(protocol), protocol, seed, **how)
    return federation, federation.run(federation.start())


@pytest.mark.parametrize(("kind", "variance"), [("gaussian", 1.0), ("laplace", 2.0), ("rademacher", 1.0)])
def test_a_unit_of_noise_has_mean_zero_and_the_variance_of_its_kind(kind: Kind, variance: float) -> None:
    drawn = unit_noise(kind, derive(KEYS, 0), (200_000,), torch.float64)
    assert drawn.mean(1).abs().max() < 0.02
    assert drawn.var(1).tolist() == pytest.approx([variance] * 3, rel=0.02)
    assert set(drawn.flatten().tolist()) == {-1.0, 1.0} or kind != "rademacher"


@given(clip=st.floats(0.01, 10), size=st.floats(0.001, 100))
def test_a_clipped_upload_lies_no_farther_from_what_the_server_holds(clip: float, size: float) -> None:
    held = {"q": torch.randn(3, 4, 2, dtype=torch.float64), "b": torch.randn(3, 5, dtype=torch.float64)}
    sent = {name: value + size * torch.randn_like(value) for name, value in held.items()}
    received, length = disturbed(UploadNoise("gaussian", 0.0, clip), sent, held, KEYS)
    change = torch.cat([(received[n] - held[n]).flatten(1) for n in held], 1).norm(dim=1)
    assert torch.all(change <= clip * (1 + 1e-9))
    short = length <= clip
    assert torch.allclose(change[short], length[short])
    assert all(torch.allclose(received[n][short], sent[n][short]) for n in held)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_the_noise_on_an_upload_is_that_of_its_client_whoever_sends_beside_it(kind: Kind) -> None:
    held = {"q": torch.zeros(3, 4, 2)}
    sent = {"q": torch.ones(3, 4, 2)}
    noise = UploadNoise(kind, 0.05)
    together, _ = disturbed(noise, sent, held, KEYS)
    alone, _ = disturbed(noise, {"q": sent["q"][1:2]}, {"q": held["q"][1:2]}, KEYS[1:2])
    assert torch.equal(together["q"][1:2], alone["q"])
    assert not torch.equal(together["q"][0], together["q"][1])


def test_a_run_with_noise_is_the_same_in_chunks_of_any_size_and_on_either_backend() -> None:
    noise = UploadNoise("gaussian", 0.1, 0.5)
    runs = [trained(noise, chunk=chunk, backend=backend) for chunk, backend in [(None, "batched"), (2, "loop")]]
    one, other = (federation.weights(state) for federation, state in runs)
    assert all(torch.allclose(one[name], other[name], atol=1e-9) for name in one)


def test_noise_of_scale_zero_changes_nothing_and_every_round_and_seed_draws_its_own() -> None:
    plain, silent = (f.weights(s) for f, s in (trained(None), trained(UploadNoise("laplace", 0.0))))
    assert all(torch.allclose(plain[name], silent[name], atol=1e-9) for name in plain)
    loud = [trained(UploadNoise("laplace", 0.1), seed)[1].server["codebook"] for seed in (3, 4)]
    assert not torch.allclose(loud[0], plain["codebook"][0])
    assert not torch.allclose(loud[0], loud[1])


def test_the_log_says_how_far_each_upload_lay_before_it_was_clipped() -> None:
    _, state = trained(UploadNoise("gaussian", 0.0, 1e-3))
    lengths = {(round_, client): value for round_, client, what, value in state.log if what == "upload_length"}
    able = [client for client, size in zip("abcde", problem().task().sizes("train").tolist(), strict=True) if size]
    assert lengths.keys() == {(round_, client) for round_ in range(PROTOCOL.rounds) for client in able}
    assert min(lengths.values()) > 1e-3


def test_noise_is_refused_where_an_upload_has_nothing_to_lie_around_or_is_not_all_that_leaves_a_client() -> None:
    slot = Atlas(Atlas.Params(encoder="compact", width=8, depth=1, prototypes=4, upload="dominant"))
    protocol = replace(PROTOCOL, noise=UploadNoise("gaussian", 0.1, 1.0))
    federation = Federation(slot, problem().task(protocol), protocol, 0)
    with pytest.raises(InputError, match=r"protocol.noise: expected uploads of what the server sends down"):
        federation.run(federation.start())
    with pytest.raises(InputError, match=r"protocol.noise: expected a method whose clients only send uploads"):
        Federation(StSplitVfl(), problem(equal=True).task(protocol), protocol, 0)


def test_a_protocol_reads_its_noise_from_the_plain_data_of_a_spec() -> None:
    protocol = Protocol(noise=UploadNoise("rademacher", 0.05, 1.0))
    assert Protocol(**asdict(protocol)) == protocol
    with pytest.raises(ValueError, match=r"noise.scale: expected at least 0, found -1"):
        Protocol(noise={"kind": "gaussian", "scale": -1})  # type: ignore[arg-type]


@pytest.mark.gpu
def test_on_cuda_the_same_noise_is_drawn() -> None:
    protocol, ends = replace(PROTOCOL, noise=UploadNoise("laplace", 0.1, 0.5)), []
    for device in ("cpu", "cuda"):
        method = Atlas(Atlas.Params(encoder="compact", width=8, depth=1, prototypes=4))
        federation = Federation(method, problem().task(protocol, device), protocol, 3)
        ends.append(federation.run(federation.start()).server["codebook"].cpu())
    torch.testing.assert_close(ends[1], ends[0], rtol=1e-7, atol=1e-7)
