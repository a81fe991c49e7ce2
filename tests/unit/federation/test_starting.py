"""A run that starts from a run has what it takes over and keeps what it freezes; what does not fit is one line."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from fedloom.data.panels.panel import read_panel, write_panel
from fedloom.data.panels.regimes import Regimes, generate
from fedloom.errors import InputError
from fedloom.federation.runs import read_run, train_run
from fedloom.federation.store import Interrupted
from fedloom.library.trained import Forecaster
from fedloom.methods.registry import make
from fedloom.partition.folder import write_partition
from fedloom.partition.panels import PanelPartitionSettings, make_panel_partition

CPU = torch.device("cpu")
SMALL = {"encoder": "compact", "width": 8, "depth": 1, "prototypes": 4}
TAKEN = {"run": "atlas/first", "take": ["codebook"], "freeze": ["codebook"]}
FIRST, REST = {"share": 0.5}, {"share": 0.5, "part": "rest"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small generated panel and its partition."""
    folder = tmp_path_factory.mktemp("data")
    panel = generate(Regimes(clients=6, steps=400, regimes=3))
    write_panel(panel, folder / "panel")
    write_partition(make_panel_partition(panel, PanelPartitionSettings(history=6, horizon=8)), folder / "partition")
    return folder


def spec_of(variant: str, method: str = "atlas", **differs: Any) -> dict[str, Any]:
    """A run's spec; what differs may be parameters, or what the spec says beside them."""
    beside = {name: differs.pop(name) for name in ("start", "clients", "seed", "protocol") if name in differs}
    spec = {"dataset": "regimes", "family": "forecast", "method": method, "variant": variant, "seed": 0, "model": None}
    return spec | {"params": SMALL | differs, "protocol": {"rounds": 2, "batch": 64}} | beside


@pytest.fixture
def train(data: Path, tmp_path: Path) -> Callable[..., Path]:
    """Train the run of a spec, from a source where one is given; gives its folder."""

    def trained(spec: dict[str, Any], source: Path | None = None, **more: Any) -> Path:
        out, state = tmp_path / spec["variant"], tmp_path / f"{spec['variant']} state"
        train_run(spec, "0", make, data / "panel", data / "partition", out, state, CPU, start=source, **more)
        return out

    return trained


@pytest.fixture
def source(train: Callable[..., Path]) -> Path:
    """A federation of one half of the clients."""
    return train(spec_of("first", clients=FIRST))


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "weights.safetensors")


def test_what_is_taken_and_frozen_is_the_sources_bit_for_bit(source: Path, train: Callable[..., Path]) -> None:
    taken = weights(source)["selected/codebook"]
    for variant, codebook in (("federated", "federated"), ("once", "local_shared_start"), ("own", "local")):
        run = weights(train(spec_of(variant, codebook=codebook, start=TAKEN, clients=REST), source))
        assert torch.equal(run["last/codebook"], taken.expand_as(run["last/codebook"]))
        assert not torch.equal(run["last/decoder.bias"], torch.zeros_like(run["last/decoder.bias"]))


def test_freezing_what_a_method_can_freeze_itself_is_the_same_run(source: Path, train: Callable[..., Path]) -> None:
    here = weights(train(spec_of("here", codebook="local_shared_start", start=TAKEN, clients=REST), source))
    own = weights(train(spec_of("own", codebook="frozen", start=TAKEN | {"freeze": []}, clients=REST), source))
    assert all(torch.equal(tensor, own[name]) for name, tensor in here.items())


def test_what_is_taken_but_not_frozen_is_where_training_begins(source: Path, train: Callable[..., Path]) -> None:
    still = spec_of("still", start=TAKEN | {"freeze": []}, clients=REST, protocol={"rounds": 0})
    moves = spec_of("moves", start=TAKEN | {"freeze": []}, clients=REST)
    taken, begun = weights(source)["selected/codebook"], weights(train(still, source))
    assert torch.equal(begun["last/codebook"], taken)
    assert not torch.equal(weights(train(moves, source))["last/codebook"], taken)


def test_a_run_without_a_start_is_not_touched_by_one(source: Path, train: Callable[..., Path]) -> None:
    fresh = weights(train(spec_of("fresh", codebook="frozen", clients=REST)))
    begun = weights(train(spec_of("begun", codebook="frozen", start=TAKEN | {"freeze": []}, clients=REST), source))
    assert fresh["last/codebook"].shape == begun["last/codebook"].shape
    assert not torch.equal(fresh["last/codebook"], begun["last/codebook"])


def test_a_run_on_some_clients_forecasts_for_these(source: Path, data: Path) -> None:
    run = read_run(source, data / "panel", data / "partition", make, CPU)
    readings = read_panel(data / "panel").values[run.task.ids].iloc[-6:]
    ahead = Forecaster(run, data / "panel", data / "partition").forecast(readings)
    assert list(ahead.columns) == run.task.ids
    assert len(run.task.ids) == 3
    assert ahead.notna().all(axis=None)


def test_a_run_starts_from_any_method_that_has_the_tensor(train: Callable[..., Path]) -> None:
    model = {"name": "forecaster", "params": {"encoder": "compact", "width": 8, "depth": 1}}
    average = train(spec_of("base", "fedavg") | {"params": {}, "model": model})
    start = {"run": "fedavg", "take": ["encoder"]}
    tuned = weights(train(spec_of("tuned", start=start, protocol={"rounds": 0}), average))
    for name, tensor in weights(average).items():
        if name.startswith("selected/encoder"):
            assert torch.equal(tuned[name], tensor.expand_as(tuned[name]))


def test_a_server_that_averages_may_follow_a_rule_beside_what_is_frozen(train: Callable[..., Path]) -> None:
    average = {"params": {}, "model": {"name": "forecaster", "params": {"encoder": "compact", "width": 8, "depth": 1}}}
    first = train(spec_of("base", "fedavg") | average)
    start = {"run": "fedavg", "take": ["encoder"], "freeze": ["encoder"]}
    robust = {"rounds": 2, "batch": 64, "server_rule": {"kind": "median"}}
    tuned = weights(train(spec_of("tuned", "fedavg", start=start, protocol=robust) | average, first))
    frozen = [name for name in tuned if name.startswith("last/encoder")]
    assert frozen
    for name in frozen:
        taken = weights(first)[name.replace("last/", "selected/")]
        assert torch.equal(tuned[name], taken.expand_as(tuned[name]))


@pytest.mark.usefixtures("own_signals")
def test_a_killed_run_goes_on_from_its_state_and_not_from_its_source(source: Path, train: Callable[..., Path]) -> None:
    def kill(done: int, total: int, text: str) -> None:
        if done == 1:
            signal.raise_signal(signal.SIGTERM)

    spec = spec_of("tuned", start=TAKEN | {"freeze": []}, clients=REST)
    whole = weights(train(spec, source))
    killed = spec_of("killed", start=TAKEN | {"freeze": []}, clients=REST)
    with pytest.raises(Interrupted):
        train(killed, source, progress=kill)
    rounds: list[int] = []
    again = weights(train(killed, source, progress=lambda done, total, text: rounds.append(done)))
    assert rounds == [2]
    assert all(torch.equal(tensor, again[name]) for name, tensor in whole.items())


@pytest.mark.usefixtures("own_signals")
def test_a_state_that_began_from_another_source_is_set_aside(
    source: Path, train: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    def kill(done: int, total: int, text: str) -> None:
        signal.raise_signal(signal.SIGTERM)

    spec = spec_of("tuned", start=TAKEN, clients=REST)
    with pytest.raises(Interrupted):
        train(spec, source, progress=kill)
    other = train(spec_of("first", clients=FIRST, protocol={"rounds": 1, "batch": 64}))
    rounds: list[int] = []
    train(spec, other, progress=lambda done, total, text: rounds.append(done))
    assert rounds == [1, 2]
    assert "state of another spec, data or code set aside" in capfd.readouterr().err


def test_a_run_whose_source_diverged_has_diverged_and_says_why(train: Callable[..., Path], data: Path) -> None:
    lost = train(spec_of("first", clients=FIRST, lr=1e30))
    run = train(spec_of("tuned", start=TAKEN, clients=REST), lost)
    record = json.loads((run / "run.json").read_text())
    assert record["verdict"] == "diverged"
    assert record["reason"].startswith("atlas/first, from which it starts, diverged: loss of client ")
    assert record["rounds"] == 0
    assert read_run(run, data / "panel", data / "partition", make, CPU).reason == record["reason"]


@pytest.mark.parametrize(
    ("differs", "line"),
    [
        ({"start": {**TAKEN, "take": ["codebok"]}}, "start.take: expected tensors of both runs (codebook, "),
        ({"start": {**TAKEN, "take": ["encoder"]}}, "encoder.blocks.0.inner.bias: expected one for all clients"),
        ({"start": {**TAKEN, "freeze": ["code"]}}, "start.freeze: expected parameters of atlas (codebook, "),
        ({"start": TAKEN, "width": 16}, "weights.safetensors: codebook: expected shape [4, 16], found [4, 8]"),
        ({"start": {**TAKEN, "run": "atlas/other"}}, "first/run.json: variant: expected other, found first"),
        ({"start": TAKEN, "seed": 1}, "first/run.json: seed: expected 1, found 0"),
        ({}, "start: expected the folder of the run that the spec names (none), found "),
    ],
)  # fmt: skip
def test_a_start_that_does_not_fit_is_one_line(
    source: Path, train: Callable[..., Path], differs: dict[str, Any], line: str
) -> None:
    with pytest.raises(InputError) as error:
        train(spec_of("tuned", clients=REST, **differs), source)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_a_start_without_its_run_is_one_line(train: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"expected the folder of the run that the spec names \(atlas/first\), found N"
    ):
        train(spec_of("tuned", start=TAKEN, clients=REST))
    with pytest.raises(InputError, match=r"weights\.safetensors: expected the run to start from, found no such file"):
        train(spec_of("tuned", start=TAKEN, clients=REST), tmp_path / "nowhere")
