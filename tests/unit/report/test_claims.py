"""A claim holds where runs show it, its negation does not, and what runs cannot tell is not decided."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

from fedloom.config.names import read_names
from fedloom.evaluation.rows import as_metrics, row
from fedloom.evaluation.schema import read_metrics
from fedloom.report.claims.build import Asked, write_claims
from fedloom.report.claims.contradictions import contradictions
from fedloom.report.claims.evidence import Evidence
from fedloom.report.claims.page import claims_page
from fedloom.report.claims.settings import Claim, Contradiction, Predicate, Printed, Published, Quantity
from fedloom.report.claims.verdicts import FAILS, HOLDS, LEAST_DIFFERENCE, OPEN, SAME, Decided, decide
from fedloom.report.claims.words import Words

from .conftest import CONFIG, Workshop

PRINTED = ["table", "dataset", "method", "variant", "condition", "metric", "value"]
NOTHING = pd.DataFrame(columns=PRINTED)
LESS = Predicate("less", ("mae",), ("atlas",), ("fedavg",))
NUMBERS = {
    "mae": Quantity("mae", where={"mask": "masked"}),
    "rmse": Quantity("rmse", where={"mask": "masked"}),
    "sent": Quantity(log="bytes_up"),
    "nmi": Quantity("nmi"),
    "noisy": Quantity("mae", where={"mask": "masked", "noise": "laplace"}, units="draw"),
    "leakage": Quantity("leakage"),
}
WORDS = Words(read_names(CONFIG / "names.yaml"), {"knowair": "KnowAir"}, NUMBERS)


def decided(
    evidence: Evidence, test: Predicate, published: pd.DataFrame = NOTHING, datasets: tuple[str, ...] = ()
) -> Decided:
    """The verdict on a claim that ``test`` decides."""
    return decide({"claim": Claim("It is so", "Sec. 1", test, datasets)}, WORDS, evidence, published)[0]


def of(workshop: Workshop) -> Evidence:
    """The runs made so far."""
    return Evidence(pd.concat([read_metrics(run / "metrics.parquet") for run in workshop.runs]), workshop.runs)


def negated(test: Predicate) -> Predicate:
    """The claim that the opposite is so."""
    opposite: dict[str, Any] = {"less": "greater", "greater": "less", "at_least": "at_most", "at_most": "at_least"}
    return replace(test, relation=opposite[test.relation])


@pytest.fixture
def runs(workshop: Workshop) -> Workshop:
    """Two methods with errors of 3 and 4, one of which sends a tenth."""
    workshop.run("atlas", 3.0, sent=64, nmi=0.5)
    workshop.run("fedavg", 4.0, sent=640, nmi=0.4)
    return workshop


@pytest.mark.parametrize(
    "test",
    [
        LESS,
        Predicate("less", ("mae", "rmse"), ("atlas",), ("fedavg",)),
        Predicate("greater", ("mae",), ("fedavg",), ("atlas",), effect="difference", bound=0.9),
        Predicate("at_least", ("mae",), ("fedavg",), ("atlas",), effect="ratio", bound=1.3),
        Predicate("at_most", ("mae",), ("atlas",), ("fedavg",), bound=-0.2),
        Predicate("at_least", ("sent",), ("fedavg",), ("atlas",), effect="ratio", bound=10),
    ],
    ids=lambda test: f"{test.relation} {test.effect}",
)
def test_a_claim_that_is_true_of_the_runs_holds_and_its_negation_does_not(runs: Workshop, test: Predicate) -> None:
    assert decided(of(runs), test).verdict == HOLDS
    if test.of != ("sent",):  # a count that just reaches its bound does so from both sides
        assert decided(of(runs), negated(test)).verdict == FAILS


def test_effects_are_those_of_the_tables(runs: Workshop) -> None:
    worst = decided(of(runs), LESS).datasets[0].worst
    metrics = pd.concat([read_metrics(run / "metrics.parquet") for run in runs.runs])
    chosen = metrics.query("unit == 'pooled' and selection == 'selected' and metric == 'mae' and horizon == 'all'")
    value = chosen[chosen["condition"] == "mask=masked"].set_index("method")["value"]
    assert worst is not None
    assert worst.found is not None
    assert worst.found.effect == pytest.approx((value["atlas"] - value["fedavg"]) / value["fedavg"], rel=1e-12)


def test_runs_that_are_the_same_are_no_less_and_no_greater(workshop: Workshop) -> None:
    workshop.run("atlas", 3.0)
    workshop.run("atlas", 3.0, variant="A.4")
    for relation in ("less", "greater"):
        test = Predicate(relation, ("mae",), ("atlas/A.4",), ("atlas",))  # type: ignore[arg-type]
        assert decided(of(workshop), test).verdict == SAME
    assert decided(of(workshop), Predicate("within", ("mae",), ("atlas/A.4",), ("atlas",), bound=0.01)).verdict == HOLDS


def shifted(by: float, spread: float = 0.0) -> dict[str, list[Any]]:
    """Two methods whose clients' errors are apart by a share of them, give or take."""
    values = np.random.default_rng(0).normal(3, 0.05, 30)
    apart = values * (1 + by + np.random.default_rng(1).normal(0, spread, 30))
    made_of = {"atlas": apart, "fedavg": values}
    rows = {
        name: [row("mae", v, 10, "mask=masked", unit=f"c{i}") for i, v in enumerate(of)] for name, of in made_of.items()
    }
    return {name: [[*of, row("mae", float(made_of[name].mean()), 300, "mask=masked")]] for name, of in rows.items()}


@pytest.mark.parametrize(
    ("by", "spread", "verdict"),
    [
        (2e-6, 0.0, SAME),
        (-2e-6, 0.0, SAME),
        (0.5 * LEAST_DIFFERENCE, 0.003, OPEN),
        (2 * LEAST_DIFFERENCE, 0.0, HOLDS),
        (-2 * LEAST_DIFFERENCE, 0.0, FAILS),
    ],
)
def test_a_difference_that_nobody_could_see_in_print_is_none(
    tmp_path: Path, by: float, spread: float, verdict: str
) -> None:
    found = decided(made(tmp_path, shifted(by, spread)), replace(LESS, relation="greater"))
    assert found.verdict == verdict
    if verdict == SAME:
        assert found.why == "a difference below 0.1% counts as none"


def test_clients_that_forecast_nothing_are_no_units(workshop: Workshop) -> None:
    for method, error in (("atlas", 3.0), ("fedavg", 4.0)):
        workshop.run(method, error)
        kept = load_file(workshop.runs[-1] / "diagnostics.safetensors")
        silent = {name: array.copy() for name, array in kept.items()}
        for name in ("abs_error", "count"):
            silent[name][0] = 0
        save_file(silent, workshop.runs[-1] / "diagnostics.safetensors")
    worst = decided(of(workshop), LESS).worst
    assert worst is not None
    assert worst.found is not None
    clients = len(json.loads((workshop.runs[0] / "run.json").read_text())["clients"])
    assert worst.found.pairs.startswith(f"{clients - 1} units")


def test_a_claim_of_the_lowest_error_tells_of_constant_rows_that_are_lower(tmp_path: Path) -> None:
    rows = shifted(-0.5)
    for of_method in rows.values():
        of_method[0].append(row("mae", 0.2, 300, "mask=masked,prediction=oracle"))
        of_method[0].append(row("mae", 9.0, 300, "mask=masked,prediction=naive"))
    found = decided(made(tmp_path, rows), LESS)
    assert found.verdict == HOLDS
    assert "lower still: True mechanism, as many draws as a model (MAE 0.2 against" in found.why
    assert "Unadjusted" not in found.why


@pytest.mark.parametrize(("relation", "verdict"), [("less", "tie"), ("at_most", "agrees"), ("differs", "tie")])
def test_printed_numbers_that_are_equal_as_far_as_print_goes_tie(relation: Any, verdict: str) -> None:
    rows = [("t", "", m, "base", "", "mae", v) for m, v in (("a", 3.18), ("b", 3.27), ("rise", 0.09), ("more", 0.11))]
    published = pd.DataFrame(rows, columns=PRINTED)
    rise = Printed({"method": "a"}, "difference", {"method": "b"})  # 0.0899999...
    for first, second in (("rise", rise), (rise, "rise"), ("rise", "rise")):
        left, right = (Printed({"method": each}) if isinstance(each, str) else each for each in (first, second))
        found = contradictions({"c": Contradiction("So", "Sec. 1", left, right, relation)}, published)
        assert found["verdict"].tolist() == [verdict]
    wrong = Contradiction("So", "Sec. 1", Printed({"method": "more"}), rise, "less")
    assert contradictions({"c": wrong}, published)["verdict"].tolist() == ["contradicts"]


def test_without_runs_nothing_is_decided_and_the_missing_ones_are_named(runs: Workshop) -> None:
    found = decided(of(runs), replace(LESS, left=("cnfgnn",)))
    assert found.verdict == OPEN
    assert found.why == "no runs of CNFGNN at this scale"
    assert found.datasets == ()
    elsewhere = decided(of(runs), LESS, datasets=("knowair",))
    assert (elsewhere.verdict, elsewhere.why) == (OPEN, "no runs on KnowAir at this scale")


def test_a_claim_about_many_is_not_decided_while_one_is_missing_but_refuted_by_any(runs: Workshop) -> None:
    test = replace(LESS, right=("fedavg", "cnfgnn"))
    found = decided(of(runs), test)
    assert found.verdict == OPEN
    assert "CNFGNN" in found.why
    runs.run("fedper", 2.0)
    assert decided(of(runs), replace(test, right=("fedavg", "cnfgnn", "fedper"))).verdict == FAILS


def test_one_dataset_is_enough_to_refute(runs: Workshop) -> None:
    runs.panel("pems-bay")
    runs.run("atlas", 4.0, dataset="pems-bay")
    runs.run("fedavg", 3.0, dataset="pems-bay")
    found = decided(of(runs), LESS)
    assert [each.verdict for each in found.datasets] == [HOLDS, FAILS]
    assert found.verdict == FAILS
    assert found.why == "holds here on 1, does not hold on 1 of 2"


def test_a_diverged_run_decides_nothing_but_that_it_diverged(runs: Workshop) -> None:
    runs.run("fedper", 0.0, diverged="loss is not finite")
    found = decided(of(runs), replace(LESS, right=("fedper",)))
    assert found.verdict == OPEN
    numbers = {"broke": Quantity(record="diverged")}
    claim = Claim("It breaks", "Sec. 1", Predicate("at_least", ("broke",), ("fedper",), effect="value", bound=1))
    assert decide({"claim": claim}, replace(WORDS, numbers=numbers), of(runs), NOTHING)[0].verdict == HOLDS


def test_a_printed_bound_is_the_datasets_own_or_the_one_that_asks_least(runs: Workshop) -> None:
    rows = [("s", data, "atlas", "", "", "rise", value) for data, value in (("metr-la", 0.5), ("pems-bay", 0.1))]
    published = pd.DataFrame(rows, columns=PRINTED)
    test = Predicate("at_least", ("mae",), ("fedavg",), ("atlas",), bound=Published("s", "rise", "atlas"))
    assert decided(of(runs), test, published).verdict == FAILS
    assert decided(of(runs), test, published[published["dataset"] == "pems-bay"]).verdict == HOLDS


def made(tmp_path: Path, values: dict[str, Iterable[Any]]) -> Evidence:
    """Runs with rows of one's own: ``values`` maps a method to its rows, one list a seed."""
    frames, folders = [], []
    for method, seeds in values.items():
        for seed, rows in enumerate(seeds):
            spec = {"dataset": "metr-la", "method": method, "variant": "base", "seed": seed}
            folder = tmp_path / method / str(seed)
            folder.mkdir(parents=True)
            (folder / "run.json").write_text(json.dumps({"spec": spec, "verdict": "finished", "clients": ["a"]}))
            save_file({}, folder / "diagnostics.safetensors")
            frames.append(as_metrics(rows, spec, "selected"))
            folders.append(folder)
    return Evidence(pd.concat(frames), folders)


def nmi(*values: float) -> list[Any]:
    """A pooled value for each seed."""
    return [[row("nmi", value, 1)] for value in values]


def test_one_seed_without_pairs_decides_nothing(tmp_path: Path) -> None:
    found = decided(
        made(tmp_path, {"atlas": nmi(0.9), "fedavg": nmi(0.1)}), Predicate("greater", ("nmi",), ("atlas",), ("fedavg",))
    )
    assert found.verdict == OPEN
    assert "1 seed and 1 unit: fewer than 3" in found.why


def test_two_units_give_no_interval(tmp_path: Path) -> None:
    rows = {m: [[row("nmi", v + i, 1, f"trial={i}") for i in range(2)]] for m, v in (("atlas", 0.9), ("fedavg", 0.1))}
    words = replace(WORDS, numbers={"nmi": Quantity("nmi", units="trial")})
    claim = Claim("It is so", "Sec. 1", Predicate("greater", ("nmi",), ("atlas",), ("fedavg",)))
    found = decide({"claim": claim}, words, made(tmp_path, rows), NOTHING)[0]
    assert found.verdict == OPEN
    assert "1 seed and 2 units: fewer than 3, too few for an interval" in found.why
    assert found.worst is not None
    assert found.worst.found is not None
    assert not np.isfinite(found.worst.found.interval()).any()


def test_seeds_alone_decide_by_their_own_spread(tmp_path: Path) -> None:
    test = Predicate("greater", ("nmi",), ("atlas",), ("fedavg",), effect="difference")
    clear = made(tmp_path / "clear", {"atlas": nmi(0.9, 0.91, 0.89), "fedavg": nmi(0.1, 0.1, 0.1)})
    wide = made(tmp_path / "wide", {"atlas": nmi(0.9, 0.2, 0.1), "fedavg": nmi(0.1, 0.1, 0.1)})
    assert decided(clear, test).verdict == HOLDS
    assert decided(wide, test).verdict == OPEN
    worst = decided(clear, test).datasets[0].worst
    assert worst is not None
    assert worst.found is not None
    # Student's interval with two degrees of freedom: 0.8 ± 4.3027 · 0.01 / √3.
    assert worst.found.interval() == pytest.approx((0.8 - 0.024842, 0.8 + 0.024842), abs=1e-5)


def clients(mean: float, spread: float, seed: int) -> list[Any]:
    """One seed with a value a client."""
    values = np.random.default_rng(seed).normal(mean, spread, 30)
    rows = [row("mae", value, 10, "mask=masked", unit=f"c{i}") for i, value in enumerate(values)]
    return [[*rows, row("mae", float(values.mean()), 300, "mask=masked")]]


def test_a_wide_interval_decides_nothing_and_a_narrow_one_does(tmp_path: Path) -> None:
    narrow = made(tmp_path / "narrow", {"atlas": clients(3, 0.05, 0), "fedavg": clients(3.1, 0.05, 1)})
    wide = made(tmp_path / "wide", {"atlas": clients(3, 1.0, 0), "fedavg": clients(3.1, 1.0, 1)})
    assert decided(narrow, LESS).verdict == HOLDS
    found = decided(wide, LESS)
    assert found.verdict == OPEN
    assert "interval" in found.datasets[0].why


def test_draws_of_noise_meet_the_run_without_noise(tmp_path: Path) -> None:
    noisy = [
        row("mae", 3.3 + 0.01 * i, 300, condition)
        for i, condition in enumerate(f"draw={n},mask=masked,noise=laplace" for n in range(8))
    ]
    evidence = made(tmp_path, {"atlas": [[row("mae", 3.0, 300, "mask=masked"), *noisy]]})
    test = Predicate("at_least", ("noisy",), ("atlas",), against="mae", effect="difference", bound=0.3)
    found = decided(evidence, test)
    assert found.verdict == HOLDS
    worst = found.datasets[0].worst
    assert worst is not None
    assert worst.found is not None
    assert worst.found.effect == pytest.approx(0.335)
    assert worst.found.pairs == "8 units"


def series(line: Iterable[float], spread: float) -> list[Any]:
    """Six seeds of numbers along a condition."""
    random = np.random.default_rng(0)
    return [
        [row("leakage", value + random.normal(0, spread), 1, f"strength={i / 10}") for i, value in enumerate(line)]
        for _ in range(6)
    ]


@pytest.mark.parametrize(("effect", "bound"), [("r2", 0.99), ("slope", 1.9)])
def test_a_line_is_a_line_and_a_curve_is_none(tmp_path: Path, effect: Any, bound: float) -> None:
    test = Predicate("at_least", ("leakage",), ("atlas",), effect=effect, bound=bound, by="strength")
    line = made(tmp_path / "line", {"atlas": series([0.2 * i for i in range(8)], 0.001)})
    curve = made(tmp_path / "curve", {"atlas": series([0.05 * (i - 4) ** 2 for i in range(8)], 0.001)})
    assert decided(line, test).verdict == HOLDS
    assert decided(curve, test).verdict == FAILS
    zero = Predicate("within", ("leakage",), ("atlas",), effect="intercept", bound=0.01, by="strength")
    assert decided(line, zero).verdict == HOLDS
    assert decided(curve, zero).verdict == FAILS


@pytest.mark.parametrize(("apart", "verdict"), [(0.1, HOLDS), (0.0, OPEN)])
def test_draws_that_evaluation_kept_are_paired(tmp_path: Path, apart: float, verdict: str) -> None:
    evidence = made(tmp_path, {"atlas": nmi(0.5), "fedavg": nmi(0.5 + apart)})
    random = np.random.default_rng(0)
    shared = random.normal(0, 0.3, 1000)  # clients that are hard for both: far wider than what lies between the two
    for method, middle in (("atlas", 0.5), ("fedavg", 0.5 + apart)):
        draws = (middle + shared + random.normal(0, 0.01, 1000)).astype(np.float32)
        save_file({"draws/pooled/nmi/all/": draws}, tmp_path / method / "0" / "diagnostics.safetensors")
    found = decided(evidence, Predicate("less", ("nmi",), ("atlas",), ("fedavg",), effect="difference"))
    assert found.verdict == verdict
    assert found.worst is not None
    assert found.worst.found is not None
    assert found.worst.found.pairs == "clients"


def test_few_units_decide_by_their_own_spread(tmp_path: Path) -> None:
    rows = {"atlas": [[row("nmi", value, 1, f"trial={i}") for i, value in enumerate((0.7, 0.8, 0.9))]]}
    numbers = {"nmi": Quantity("nmi", units="trial")}
    claim = Claim("It is so", "Sec. 1", Predicate("at_least", ("nmi",), ("atlas",), effect="value", bound=0.5))
    found = decide({"claim": claim}, replace(WORDS, numbers=numbers), made(tmp_path, rows), NOTHING)[0].datasets[0]
    assert found.verdict == HOLDS
    assert found.worst is not None
    assert found.worst.found is not None
    # Student's interval with two degrees of freedom: 0.8 ± 4.3027 · 0.1 / √3.
    assert found.worst.found.interval() == pytest.approx((0.8 - 0.24842, 0.8 + 0.24842), abs=1e-4)


def test_matched_runs_meet_their_own_partner_and_those_not_run_are_left_out(workshop: Workshop) -> None:
    for variant, error in (("frozen_05", 3.0), ("rest_05", 3.5), ("frozen_25", 4.0), ("rest_25", 4.5)):
        workshop.run("atlas", error, variant=variant)
    left, right = ([f"atlas/{kind}_{share}" for share in ("05", "25", "50")] for kind in ("frozen", "rest"))
    test = Predicate("less", ("mae",), tuple(left), tuple(right), matched=True)
    found = decided(of(workshop), test)
    assert found.verdict == HOLDS
    assert (
        "no runs of Frozen Q, that of the first 50 %; Atlas, all but the first 50 % of clients" in found.datasets[0].why
    )
    # Each against every one: 4.0 is not less than 3.5.
    assert decided(of(workshop), replace(test, matched=False)).verdict == FAILS


@pytest.mark.parametrize(("power", "verdict"), [(1, HOLDS), (2, FAILS)])
def test_growth_is_measured_across_datasets(tmp_path: Path, power: int, verdict: str) -> None:
    folders = []
    for clients in (4, 8, 16):
        spec = {"dataset": f"d{clients}", "method": "atlas", "variant": "base", "seed": 0}
        record = {"spec": spec, "verdict": "finished", "clients": list(range(clients)), "central_parameters": 0}
        folder = tmp_path / str(clients)
        folder.mkdir()
        held = [100 * clients ** (power - 1)] * clients
        (folder / "run.json").write_text(json.dumps(record | {"client_parameters": held}))
        folders.append(folder)
    test = Predicate("at_most", ("all",), ("atlas",), effect="power", bound=1.1, across=("d4", "d8", "d16", "d32"))
    evidence = Evidence(read_nothing(), folders)
    claim = Claim("It grows linearly", "Sec. 1", test)
    numbers = {"all": Quantity(record="all_parameters")}
    found = decide({"claim": claim}, replace(WORDS, numbers=numbers), evidence, NOTHING)[0]
    assert found.verdict == verdict
    worst = found.datasets[0].worst
    assert worst is not None
    assert worst.found is not None
    assert worst.found.effect == pytest.approx(power)


def read_nothing() -> pd.DataFrame:
    """A table of metrics without rows."""
    spec = {"dataset": "d", "method": "m", "variant": "base", "seed": 0}
    return as_metrics([row("nmi", 0.0, 1)], spec, "selected").iloc[:0]


def test_the_tables_and_the_page_tell_what_was_decided(runs: Workshop, tmp_path: Path) -> None:
    references = tmp_path / "references.csv"
    lines = ["table1,metr-la,atlas,base,,mae,3.30", "table1,metr-la,fedavg,base,,mae,3.10"]
    references.write_text(",".join(PRINTED) + "\n" + "\n".join(lines) + "\n")
    claims = {
        "better": Claim("It is better", "Sec. 1", LESS),
        "none": Claim("So", "Sec. 2", replace(LESS, left=("stid",))),
    }
    sides = [Printed({"table": "table1", "method": method}) for method in ("atlas", "fedavg")]
    printed = {"best": Contradiction("It is the best", "Table 1", *sides, "less", ("dataset", "metric"))}
    metrics = [run / "metrics.parquet" for run in runs.runs]
    out = tmp_path / "atlas"
    asked = Asked(NUMBERS, claims, printed, references)
    write_claims(asked, "quick", metrics, runs.runs, read_names(CONFIG / "names.yaml"), {"metr-la": "METR-LA"}, out)
    tidy = pd.read_csv(out / "claims.csv")
    assert tidy[tidy["dataset"] == "all"].set_index("claim")["verdict"].to_dict() == {"better": HOLDS, "none": OPEN}
    table = (out / "claims.md").read_text()
    assert "| It is better (Sec. 1) | METR-LA | holds here | Atlas to FedAvg, MAE | -25." in table
    assert "| METR-LA, MAE | 3.3 | &lt; | 3.1 | +0.2 | contradicts |" in (out / "contradictions.md").read_text()
    page = claims_page("quick", {"atlas": "Every Client"}, {"atlas": out}, {"metr-la": "METR-LA"})
    assert "| Every Client | 2 | 1 | 0 | 0 | 1 |" in page
    assert "| It is better | Sec. 1 | holds here | -25." in page
    assert "| So | Sec. 2 | not decided | – | – | – | – | no runs of STID at this scale |" in page
    assert "| It is the best | Table 1 | 1 of 1 | – |" in page


def test_an_order_holds_step_by_step(workshop: Workshop) -> None:
    for method, error in (("atlas", 3.0), ("fedper", 3.5), ("fedavg", 4.0)):
        workshop.run(method, error)
    assert decided(of(workshop), Predicate("ordered", ("mae",), ("atlas", "fedper", "fedavg"))).verdict == HOLDS
    assert decided(of(workshop), Predicate("ordered", ("mae",), ("atlas", "fedavg", "fedper"))).verdict == FAILS
