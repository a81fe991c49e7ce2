"""Artifacts of Fed-CausalDiff say what the metrics say, with what needs no model beside every method."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from fedloom.data.trajectories.table import Steps, TrajectorySet, trajectory_table, write_trajectories
from fedloom.evaluation.causal.effects import naive, step_effect_rows, window_rows
from fedloom.evaluation.causal.factual import factual_rows, prediction_rows
from fedloom.evaluation.offpolicy.log import Log
from fedloom.evaluation.offpolicy.policies import POLICIES
from fedloom.evaluation.offpolicy.rows import (
    HORIZONS,
    PolicySteps,
    log_rows,
    overlap_rows,
    policy_rows,
    sequence_rows,
    step_rows,
)
from fedloom.evaluation.rows import as_metrics, condition, draws_key, row, taken
from fedloom.evaluation.schema import write_metrics
from fedloom.partition.folder import write_partition
from fedloom.partition.trajectories import TrajectoryPartitionSettings, make_trajectory_partition
from fedloom.report.causal.intervals import over_seeds
from fedloom.report.causal.progress import by_round, progress, rounds_to_target
from fedloom.report.causal.sampler import NO_SAMPLER
from fedloom.report.causal.support import practical
from fedloom.report.causal.trajectories import counts_by_decile
from fedloom.report.figure import read_caption, style, write_figure
from fedloom.report.layout import EMPTY, latex, markdown
from fedloom.report.numbers import pick, tidy
from fedloom.report.shown import Shown

from .conftest import artifacts, drawn, shown_by

CLIENTS = [f"c{i:02d}" for i in range(4)]
N, LONGEST = 400, 6


def trajectories(dataset: str, n: int = N) -> TrajectorySet:
    """Return sequences of 1 to 6 steps by as many owners."""
    random = np.random.default_rng(len(dataset))
    length = random.integers(1, LONGEST + 1, n)
    start = np.concatenate([[0], length.cumsum()])
    steps = int(start[-1])
    chosen, y = random.choice(3, steps, p=[0.4, 0.4, 0.2]), random.integers(0, 2, steps)
    made = Steps(
        start,
        random.normal(size=(n, 2)).astype(np.float32),
        random.normal(size=(steps, 1)).astype(np.float32),
        chosen.astype(np.int32),
        y.astype(np.float32),
        np.array([0.4, 0.4, 0.2])[chosen],
    )
    about = {"dataset": dataset, "part": None, "unit": "correct", "actions": 3, "other_action": None, "dx": 2, "da": 1}
    about |= {"longest": LONGEST, "x_names": ["x0", "x1"], "a_names": ["a0"], "a_kinds": ["continuous"]}
    about |= {"rows": n, "owners": n, "exclusions": {"of no length": 3, "of no owner": 0}}
    return TrajectorySet(trajectory_table(range(n), [f"o{i}" for i in range(n)], made), about)


@dataclass
class Bench:
    """Makes datasets and runs below ``root``."""

    root: Path
    runs: list[Path] = field(default_factory=list)
    data: list[Path] = field(default_factory=list)
    partitions: list[Path] = field(default_factory=list)

    def dataset(self, name: str) -> None:
        """Make trajectories and their partition."""
        made = trajectories(name)
        self.data.append(self.root / name / "trajectories")
        self.partitions.append(self.root / name / "partition")
        write_trajectories(made, self.data[-1])
        dealt = make_trajectory_partition(made, TrajectoryPartitionSettings(clients=len(CLIENTS)))
        write_partition(dealt, self.partitions[-1])

    def run(self, dataset: str, method: str, variant: str = "base", seed: int = 0, error: float = 0.03) -> None:
        """Make a run whose estimates are off by about ``error``."""
        spec: dict[str, Any] = {"dataset": dataset, "method": method, "variant": variant, "seed": seed}
        spec["protocol"] = {"rounds": 60, "batch": 256, "epochs": 1, "participation": 0.5}
        folder = self.root / "runs" / dataset / method / variant / f"seed{seed}"
        folder.mkdir(parents=True)
        record = {"spec": spec, "verdict": "finished", "reason": None, "rounds": 60, "selected_round": 50}
        (folder / "run.json").write_text(json.dumps(record | {"clients": CLIENTS}))
        rows = self.rows(dataset, seed, error)
        save_file(taken(rows), folder / "diagnostics.safetensors")
        tables = [as_metrics(rows, spec, "selected")]
        if dataset == "dkt-synth":
            tables.append(as_metrics(self.kept_rounds(error), spec, "last"))
        write_metrics(pd.concat(tables, ignore_index=True), folder / "metrics.parquet")
        log: list[tuple[int, str, str, float]] = []
        for round_ in range(60):
            log += [(round_, name, "bytes_up", 2e5 * (1 + (method == "fedavg"))) for name in CLIENTS]
        pd.DataFrame(log, columns=["round", "client", "quantity", "value"]).to_parquet(folder / "rounds.parquet")
        self.runs.append(folder)

    @staticmethod
    def kept_rounds(error: float) -> list[dict[str, Any]]:
        """Return metric rows of every tenth round's weights, of which those before the last three are not whole."""
        rows = []
        for round_ in range(9, 60, 10):
            of = {"scope": "window", "round": round_, "selectable": "no" if round_ < 39 else None}
            for prediction, value in ((None, error + 0.1 * np.exp(-round_ / 20)), ("constant_effect", 0.05)):
                rows.append(row("pehe_root", value, 200, condition(prediction=prediction, **of)))
            rows.append(row("pehe_root", 0.01, 200, condition(prediction="oracle", **of)))
        return rows

    @staticmethod
    def rows(dataset: str, seed: int, error: float) -> list[dict[str, Any]]:
        """Return metric rows as an evaluation makes them; effects on the generated dataset alone."""
        random = np.random.default_rng([seed, len(dataset), int(1000 * error)])
        fixed = np.random.default_rng(0)
        shape = (N, LONGEST)
        chosen = fixed.choice(3, shape, p=[0.4, 0.4, 0.2])
        chance = 0.5 + 0.1 * (chosen == 0) - 0.1 * (chosen == 1)
        outcome = (fixed.random(shape) < chance).astype(np.float64)
        propensity = np.where(chosen == 2, 0.2, 0.4)
        length = fixed.integers(1, LONGEST + 1, N)
        log = Log(np.arange(N) % 4, np.arange(N), length, chosen, outcome, propensity)
        q = np.array([0.6, 0.4]) + error + random.normal(0, 0.01, (*shape, 2))
        q_logged = np.clip(chance + random.normal(0, error, shape), 0, 1)
        truth = dict(zip(POLICIES, (0.6, 0.4, 0.5, 0.5), strict=True))
        generated = dataset == "dkt-synth"
        rows = log_rows(log, CLIENTS, truth=truth if generated else None)
        for kind in ("logged", "estimated") if generated else ("logged",):
            rows += step_rows(log, CLIENTS, kind, q, q_logged, truth=truth if generated else None)
            v = {(policy, steps): np.full(shape, truth[policy]) for policy in POLICIES for steps in HORIZONS}
            rows += sequence_rows(log, CLIENTS, kind, v)
        valid = np.arange(LONGEST) < length[:, None]
        if generated:
            probability = fixed.beta(4, 6, (*shape, 2)) * 0.9
            rows += overlap_rows(probability, log, "estimated")
            units = np.array(list(truth.values()))[:, None] + fixed.normal(0, 0.05, (4, N))
            draws = units + error + random.normal(0, 0.1, (8, 4, N))
            contrast = naive(chosen, outcome, valid)
            rows += window_rows(draws, units, contrast, LONGEST, units + fixed.normal(0, 0.1, (8, 4, N)))
            rows += step_effect_rows(q, np.broadcast_to([0.6, 0.4], (*shape, 2)), valid, contrast)
        if dataset == "openbandit-random":
            under = condition(scope="step", policy="thompson", estimator="on_policy")
            rows.append(row("value", 0.5, 1000, under, lo=0.48, hi=0.52))
            flat = (chosen.ravel(), propensity.ravel(), outcome.ravel())
            target = np.array([0.3, 0.5, 0.2])[flat[0]]
            owner = np.repeat(np.arange(N), LONGEST)
            sides = [np.full(len(owner), 0.5), q_logged.ravel()]
            for part, answers in {"test": sides, "all": [None, None]}.items():
                steps = PolicySteps(target, *flat[1:], owner % 4, owner, *answers)
                under = {"scope": "step", "propensity": "logged", "policy": "thompson", "rows": part}
                rows += policy_rows(steps, CLIENTS, under, 0.5)[0]
        flags = outcome[valid], (np.arange(N)[:, None] % 4 * np.ones(shape, dtype=int))[valid]
        rows += factual_rows(q_logged[valid], *flags, CLIENTS, 0.5)
        for source, noise in (("synthetic", 0.2 + error), ("real", 0.2), ("shuffled", 3.0)):
            guess = np.clip(chance + random.normal(0, noise, shape), 0, 1)[valid]
            rows += prediction_rows(guess, *flags, CLIENTS, "tstr_", condition(source=source))
        rows += [row("collapsed", float(error > 0.05), N), row("reads_history", float(error < 0.05), N)]
        constant = factual_rows(flags[0], *flags, CLIENTS, 0.5, "tstr_")
        return rows + [each for each in constant if each["condition"]]

    def show(self, name: str, references: Path | None = None) -> Shown:
        """Return what the artifact ``name`` shows."""
        return shown_by("fed_causaldiff", name, self.runs, self.data, references, self.partitions)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Three datasets, the method with its ablations and two plain methods; two seeds of the method itself."""
    made = Bench(tmp_path_factory.mktemp("bench"))
    for dataset in ("dkt-synth", "diabetes130", "openbandit-random"):
        made.dataset(dataset)
        made.run(dataset, "fed_causaldiff", error=0.02)
        made.run(dataset, "fed_causaldiff", seed=1, error=0.03)
        made.run(dataset, "fed_causaldiff", "full_sync", error=0.05)
        made.run(dataset, "fed_causaldiff", "no_dis", error=0.04)
        made.run(dataset, "fedavg", error=0.06)
    return made


@pytest.fixture
def references(tmp_path: Path) -> Path:
    """A few published values."""
    path = tmp_path / "references.csv"
    lines = [
        "table1,dkt-synth,paper,base,,sequences,20000",
        "table3,dkt-synth,fed_causaldiff,base,,pehe,0.057",
        "table4,diabetes130,fed_causaldiff,base,,tstr_auc,0.565",
    ]
    path.write_text("table,dataset,method,variant,condition,metric,value\n" + "\n".join(lines) + "\n")
    return path


def line(text: str, label: str, occurrence: int = 0) -> list[str]:
    """Return the cells of a row of a Markdown table from its label on, without its group."""
    found = [each for each in text.splitlines() if f"| {label} |" in each][occurrence]
    cells = [cell.strip() for cell in found.strip("|").split("|")]
    return cells[cells.index(label) :]


@pytest.mark.parametrize("name", artifacts("fed_causaldiff", "table"))
def test_every_table_is_written_in_all_forms(bench: Bench, references: Path, name: str) -> None:
    table = drawn(bench.show(name, references))
    assert markdown(table, name).count("\n| ") >= 2
    assert "toprule" in latex(table, name)
    assert len(table.tidy)


@pytest.mark.parametrize("name", artifacts("fed_causaldiff", "figure"))
def test_every_figure_is_drawn_with_its_caption(bench: Bench, name: str, tmp_path: Path) -> None:
    with style():
        write_figure(drawn(bench.show(name)), tmp_path / name)
    heading, notes = read_caption(tmp_path / f"{name}.png")
    assert heading.endswith(": What is shown")
    assert notes


def test_effects_stand_beside_those_that_need_no_model(bench: Bench, references: Path) -> None:
    table = drawn(bench.show("table3", references))
    text = markdown(table, "table3")
    assert [level[0] for level in table.header] == ["DKT-Synth"] * len(table.header)
    columns = [level[1] for level in table.header]
    constant = dict(zip(columns, line(text, "True mean effect for everyone")[1:], strict=True))
    assert constant["ATE error"] == "0.000†"
    assert "†: does not compete" in text
    assert "seeds finished" not in text  # brackets of intervals are no lost seeds
    constant = {column: value.removesuffix("†") for column, value in constant.items()}
    assert float(constant["root PEHE"]) == pytest.approx(0.05 * np.sqrt(2), abs=0.01)
    oracle = dict(zip(columns, line(text, "True mechanism, as many draws as a model")[1:], strict=True))
    assert float(oracle["root PEHE"].removesuffix("†")) > 0
    ours = dict(zip(columns, line(text, "Fed-CausalDiff")[1:], strict=True))
    assert "±" in ours["value error"]
    assert ours["PEHE, paper"] == "0.057"
    assert ours["value error"].startswith("**")


def test_a_generator_that_collapsed_is_marked_as_such_where_its_numbers_stand(bench: Bench) -> None:
    for name, label in (("table4", "FedAvg (collapsed)"), ("table3", "FedAvg (reads no history) (collapsed)")):
        text = markdown(drawn(bench.show(name)), name)
        assert line(text, label)
        assert "Collapsed: between the sequences" in text
        assert "Fed-CausalDiff (" not in text
    assert "Reads no history: of what was logged" in text


def test_a_collapse_of_some_runs_says_of_how_many(tmp_path: Path) -> None:
    few = Bench(tmp_path)
    few.dataset("dkt-synth")
    for seed, error in enumerate((0.03, 0.06, 0.07)):
        few.run("dkt-synth", "fedavg", seed=seed, error=error)
    text = markdown(drawn(few.show("table4")), "table4")
    assert line(text, "FedAvg (collapsed in 2 of 3 runs)")


def test_each_dataset_with_a_truth_is_a_block_of_its_own_that_says_how_it_was_dealt(bench: Bench) -> None:
    table = drawn(bench.show("table_heterogeneity"))
    assert {group for group, *_ in table.rows} == {"DKT-Synth (by tenth of mean outcome, α = 10)"}
    assert table.header[0][1] == "root PEHE"
    beside = dict(zip([label for _, label, _ in table.rows], [cells for *_, cells in table.rows], strict=True))
    whole = drawn(bench.show("table3"))
    alike = {label: cells for _, label, cells in whole.rows}
    assert beside == alike


def test_a_client_that_never_takes_an_anchor_is_counted_in_the_protocol(bench: Bench) -> None:
    text = markdown(drawn(bench.show("table2")), "table2")
    assert line(text, "clients that never take them")[1:] == ["0, 0"] * 3


def test_a_deal_that_would_leave_a_client_empty_is_drawn_as_such(tmp_path: Path) -> None:
    few = Bench(tmp_path)
    few.dataset("dkt-synth")
    few.run("dkt-synth", "fedavg")
    path = few.partitions[0] / "partition.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | {"clients": 60, "least_share": 0.9}))
    with style():
        figure = drawn(few.show("figure_partition")).drawn
    assert [ax.texts[0].get_text() for ax in figure.axes if ax.texts] == ["a client would\nbe left empty"] * 3


def test_downstream_scores_stand_beside_real_data_and_constants(bench: Bench, references: Path) -> None:
    text = markdown(drawn(bench.show("table4", references)), "table4")
    assert line(text, "Constant 0.5")[3].removesuffix("†") == "0.500"
    assert text.count("| Trained on real data |") == 3
    assert line(text, "Fed-CausalDiff", 1)[2] == "0.565"


def test_a_dataset_stands_beside_the_published_numbers_with_the_reason_of_a_difference(
    bench: Bench, references: Path
) -> None:
    text = markdown(drawn(bench.show("table1", references)), "table1")
    assert line(text, "DKT-Synth")[1:3] == ["400", "20,000"]
    assert line(text, "DKT-Synth")[-1] == "3 of no length"
    assert "DKT-Synth: the published generator is not public" in text
    assert "Diabetes-130:" not in text


def test_support_says_how_far_policies_are_followed_and_why_not(bench: Bench) -> None:
    text = markdown(drawn(bench.show("table_support")), "table_support")
    never = line(text, "Never, logged propensity")
    assert "supported" in never
    assert "(low ess)" in never[-1] or "(low ess)" in never[-2]


def test_a_sampler_is_judged_by_what_it_earned_in_its_own_log(bench: Bench) -> None:
    table = drawn(bench.show("table_sampler"))
    of = [name for group, name, _ in table.rows if group == "openbandit-random: thompson"]
    assert of[:3] == ["IPS, whole log", "SNIPS, whole log", "DM, test part: Fed-CausalDiff"]
    assert line(markdown(table, "table_sampler"), "IPS, whole log")[3] == "0.50000"


def test_logged_propensities_are_used_where_they_are_known_but_not_where_they_are_part_of_the_truth() -> None:
    rows = pd.DataFrame({"of_propensity": ["logged", "estimated", ""], "of_prediction": ["", "", "truth"]})
    assert practical(rows) == "estimated"
    assert practical(rows[:2]) == practical(rows[:1]) == "logged"
    assert practical(rows[1:2]) == "estimated"


def test_data_without_the_log_of_another_policy_say_so(bench: Bench) -> None:
    shown = bench.show("table_sampler")
    table = drawn(shown)
    silent = [group for group, name, cells in table.rows if name == NO_SAMPLER and {c.text for c in cells} == {EMPTY}]
    assert silent == [shown.label(name) for name in shown.datasets if name != "openbandit-random"]


def test_a_target_counts_as_reached_only_where_the_error_stays_there() -> None:
    error = pd.Series([0.5, 0.2, 0.5, 0.2, 0.1, 0.3, 0.2, 0.2, 0.1], index=range(10, 100, 10))
    assert rounds_to_target(error, 0.25) == 70
    assert rounds_to_target(error, 0.3) == 40
    assert rounds_to_target(error, 0.05) is None
    assert rounds_to_target(error[:2], 1.0) is None


def test_the_course_of_errors_is_read_off_the_kept_rounds_and_traffic_off_the_log(bench: Bench) -> None:
    shown = bench.show("figure3")
    frame = by_round(shown)
    assert set(frame["dataset"]) == {"dkt-synth"}
    assert progress(shown, frame, "diabetes130", ("fedavg", "base")) is None
    found = progress(shown, frame, "dkt-synth", ("fed_causaldiff", "base"))
    assert found is not None
    assert list(found.error.index) == [10, 20, 30, 40, 50, 60]
    assert found.error["mean"].iloc[0] == pytest.approx(0.025 + 0.1 * np.exp(-9 / 20))
    assert found.error["largest"].iloc[0] - found.error["least"].iloc[0] == pytest.approx(0.01)
    assert found.sent.tolist() == pytest.approx([rounds * len(CLIENTS) * 0.2 for rounds in found.error.index])


def test_the_course_of_errors_says_when_the_target_is_reached_and_which_rounds_are_unfinished(bench: Bench) -> None:
    notes = drawn(bench.show("figure3")).notes
    assert "on 200 test sequences" in notes
    assert "by rounds 10, 20, 30, which could not be selected" in notes
    assert "Fed-CausalDiff from round 30;" in notes
    assert "w/o Ldis, no disentangling loss from round 50, but training ended after 2 evaluations" in notes
    assert "FedAvg not." in notes


def test_the_smaller_the_concentration_the_more_clients_differ() -> None:
    data = trajectories("dkt-synth", 1000)
    spread = []
    for alpha in (100.0, 0.3):
        counts = counts_by_decile(data, TrajectoryPartitionSettings(clients=4, alpha=alpha))
        assert counts.sum() == counts_by_decile(data, TrajectoryPartitionSettings(clients=4)).sum()
        shares = counts / counts.sum(axis=0)
        spread.append(shares.std())
    assert spread[1] > 2 * spread[0]


def test_intervals_of_several_seeds_are_those_of_drawn_seeds_means(bench: Bench) -> None:
    """By hand, for one number: as many seeds as there are drawn for each draw of clients, and their mean."""
    shown = bench.show("table3")
    frame = over_seeds(shown, tidy(shown))
    several = frame[(frame["method"] == "fed_causaldiff") & (frame["variant"] == "base") & (frame["seeds"] == 2)]
    row = pick(several, dataset="dkt-synth", metric="value", scope="step", estimator="dr", policy="always").iloc[0]
    folders = shown.folders_of("dkt-synth", ("fed_causaldiff", "base")).values()
    draws = [shown.diagnostics(folder)[draws_key(row)].astype(float) for folder in folders]
    picked = np.random.default_rng([0, 2]).integers(0, 2, (2, 1000))
    means = [(draws[picked[0, r]][r] + draws[picked[1, r]][r]) / 2 for r in range(1000)]
    assert (row["lo"], row["hi"]) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))
    assert row["lo"] < row["ours_mean"] < row["hi"]


def test_printed_cells_hold_the_interval_behind_the_number(bench: Bench) -> None:
    cells = [cell.text for _, label, row in drawn(bench.show("table4")).rows for cell in row if label != "Base rate"]
    assert any(re.fullmatch(r"0\.\d{3} \[0\.\d{3}, 0\.\d{3}\]", text) for text in cells)
    assert any(re.fullmatch(r"0\.\d{3} ± 0\.\d{3} \[0\.\d{3}, 0\.\d{3}\]", text) for text in cells)


def test_values_stand_beside_the_bounds_that_trust_no_model(bench: Bench) -> None:
    table = drawn(bench.show("table_values"))
    places = [i for i, levels in enumerate(table.header) if levels[1] == "bounds"]
    assert len(places) == 2
    truth, at = [levels[1] for levels in table.header].index("truth"), places[0]
    for _, _, cells in table.rows:
        lower, upper = map(float, cells[at].text.strip("[]").split(","))
        if cells[truth].text != EMPTY:
            assert lower <= float(cells[truth].text) <= upper
