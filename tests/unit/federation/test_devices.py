"""Jobs of one machine and its GPUs. The GPUs are made up; the claims are those of real files and processes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from fedloom.errors import InputError
from fedloom.federation import devices
from fedloom.federation.devices import Card, claimed

TWO = (Card(0, "GPU-a", 1000), Card(1, "GPU-b", 1000))
ONE = TWO[:1]
HOLD = """
import pathlib, sys
from fedloom.federation.devices import Card, claimed
with claimed([Card(0, "GPU-a", 1000)], int(sys.argv[2]), pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path, need_mb: int) -> subprocess.Popen[str]:
    """Another process that has claimed card GPU-a."""
    command = [sys.executable, "-c", HOLD, str(folder), str(need_mb)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_jobs_side_by_side_take_different_cards_while_there_are_any(tmp_path: Path) -> None:
    with claimed(TWO, 0, tmp_path) as first, claimed(TWO, 0, tmp_path) as second:
        assert {first, second} == set(TWO)


def test_small_jobs_spread_and_then_share(tmp_path: Path) -> None:
    with ExitStack() as jobs:
        taken = [jobs.enter_context(claimed(TWO, 300, tmp_path)) for _ in range(6)]
    assert sorted(card.name for card in taken[:2]) == ["GPU-a", "GPU-b"]
    assert [card.name for card in taken].count("GPU-a") == 3
    assert [card.name for card in taken].count("GPU-b") == 3
    assert [path.name for path in tmp_path.iterdir()] == ["mutex"]


@pytest.mark.parametrize(("held", "asked"), [(0, 1), (1, 0), (600, 500)])
def test_a_job_waits_until_its_memory_is_free_and_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], held: int, asked: int
) -> None:
    freed: list[float] = []

    def free() -> None:
        freed.append(time.monotonic())
        first.close()

    first = ExitStack()
    first.enter_context(claimed(ONE, held, tmp_path))
    threading.Timer(0.7, free).start()
    with claimed(ONE, asked, tmp_path):
        assert freed
    assert "waits for " in capfd.readouterr().err


def test_a_share_that_is_free_is_not_waited_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = holder(tmp_path, 600)
    with claimed(ONE, 400, tmp_path):
        pass
    other.communicate()
    assert "waits" not in capfd.readouterr().err


def test_a_killed_job_leaves_its_card(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    killed = holder(tmp_path, 0)
    killed.kill()
    killed.communicate()
    assert len(list(tmp_path.glob("GPU-a.*"))) == 1
    with claimed(ONE, 0, tmp_path):
        assert len(list(tmp_path.glob("GPU-a.*"))) == 1
    assert "waits" not in capfd.readouterr().err


def test_more_than_the_largest_card_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected at most the 1000 of the largest GPU here, found 1001"):
        claimed(TWO, 1001, tmp_path).__enter__()


def test_without_cuda_auto_is_the_processor_whatever_memory_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with devices.device("auto", 4000) as chosen:
        assert chosen == torch.device("cpu")
    with pytest.raises(InputError, match="expected a CUDA device for 'cuda', found none"):
        devices.device("cuda").__enter__()


def test_a_job_computes_on_the_card_that_it_claimed_and_on_no_more_than_it_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[object, ...]] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: told.append((index,)))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *given: told.append(given))
    monkeypatch.setattr(devices, "cards", lambda: list(TWO))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with devices.device("auto") as first, devices.device("cuda", 250) as second:
        assert {first.index, second.index} == {0, 1}
    assert told == [(first.index,), (second.index,), (0.25, second.index)]


@pytest.mark.gpu
def test_the_cards_of_this_machine() -> None:
    found = devices.cards()
    assert len(found) == torch.cuda.device_count()
    assert len({card.name for card in found}) == len(found)
    assert all(card.memory_mb > 1000 for card in found)
    with devices.device("cuda", 1000) as chosen:
        assert torch.ones(1, device=chosen).device == chosen
