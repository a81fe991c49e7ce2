"""What a user reads who mistyped: one line that names the key, the value and what is allowed."""

from __future__ import annotations


def test_one_clear_line_and_nothing_built(fresh) -> None:
    fresh.edit("config/datasets/tiny.yaml", "licence:", "license:")
    output = fresh.run(status=1)
    errors = [each for each in output.splitlines() if each.startswith("fedloom: error: ")]
    assert len(errors) == 1
    line = "config/datasets/tiny.yaml: unknown key 'license', expected one of beside, files, label, licence, "
    assert errors[0].startswith(f"fedloom: error: {line}")
    assert "Traceback" not in output
    assert not (fresh.root / "results").exists()


def test_switches_on_the_command_line_are_checked_like_those_in_the_file(fresh) -> None:
    output = fresh.run("-n", "--config", "device=cdua", status=1)
    assert "fedloom: error: config: device: found 'cdua', expected one of auto, cpu, cuda (did you mean" in output


def test_a_run_that_no_study_asks_for_is_refused(fresh) -> None:
    output = fresh.run("-n", "results/runs/tiny/tiny/fedavg/A.1/seed0/run.json", status=1)
    assert "scale tiny: no study runs tiny/fedavg/A.1/0" in output
