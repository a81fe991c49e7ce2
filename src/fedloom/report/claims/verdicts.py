"""From claims and the numbers of runs to verdicts: a claim holds here, does not hold, or is not decided.

What is said of a difference may also turn out as no difference that counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
import pandas as pd

from fedloom.evaluation.forecast.significance import LEVEL
from fedloom.report.claims.beside import lower_beside
from fedloom.report.claims.evidence import Absent, Evidence, Sample
from fedloom.report.claims.intervals import Estimate, effect_of, estimate, paired
from fedloom.report.claims.settings import FITTED, Claim, Predicate, Published, Relation
from fedloom.report.claims.words import BETWEEN, Side, Words
from fedloom.report.names import Run, run_of

Verdict = Literal["holds here", "does not hold", "no difference", "not decided"]

LEAST_DIFFERENCE = 0.001
"""Relative differences below it count as none: tables print no finer, and nobody would choose a method for them."""

STRICT = ("less", "greater")
"""Relations that say that there is a difference."""

LEAST_PLACES = 3
"""Two points always lie on a line."""

NO_RUN = "no run"
HOLDS: Verdict = "holds here"
FAILS: Verdict = "does not hold"
SAME: Verdict = "no difference"
OPEN: Verdict = "not decided"
VERDICTS = (FAILS, SAME, OPEN, HOLDS)
"""In the order in which one of them settles a claim, whatever the others of its comparisons or datasets are."""

SHORT = f"{LEAST_DIFFERENCE:.1%}"

Pair = tuple[Side, Side | None]


@dataclass(frozen=True)
class Tested:
    """One comparison of a claim on one dataset: its sides, the estimate (None: ``why`` there is none) and the bound."""

    left: Side
    right: Side | None
    bound: float
    found: Estimate | None
    why: str = ""
    unrun: tuple[Run, ...] = ()


@dataclass(frozen=True)
class OnDataset:
    """What becomes of a claim on one dataset: ``worst`` is the comparison that speaks most against it.

    ``beside``: which rows that no method makes are lower still, of a claim that an error is the lowest and holds.
    """

    dataset: str
    verdict: Verdict
    worst: Tested | None
    tested: tuple[Tested, ...]
    why: str
    beside: str = ""


@dataclass(frozen=True)
class Decided:
    """A claim's verdict over all datasets, and on each; ``worst`` of those whose verdict it shares."""

    name: str
    claim: Claim
    verdict: Verdict
    why: str
    datasets: tuple[OnDataset, ...]
    worst: Tested | None = None


def decide(claims: Mapping[str, Claim], words: Words, evidence: Evidence, published: pd.DataFrame) -> list[Decided]:
    """Decide all claims from the runs that there are; ``published`` are the paper's numbers, which bounds may be.

    ``words`` hold the numbers that tests name, and what reasons call them and the runs.
    """
    return [_decided(name, claim, words, evidence, published) for name, claim in claims.items()]


def _decided(name: str, claim: Claim, words: Words, evidence: Evidence, published: pd.DataFrame) -> Decided:
    found, absent = [], dict[str, None]()
    for dataset in _datasets(claim, evidence):
        tested = tuple(_tested(claim.test, dataset, words, evidence, published))
        if any(each.found for each in tested):
            on = _on_dataset(claim.test, dataset, tested, words)
            lower = lower_beside(claim.test, dataset, words, evidence) if on.verdict == HOLDS else ""
            why = "; ".join(part for part in (on.why, lower) if part)
            found.append(replace(on, why=why, beside=lower))
        absent |= dict.fromkeys(each.why for each in tested if each.why not in ("", NO_RUN))
    if not found:
        return Decided(name, claim, OPEN, _missing(claim, evidence, words) or "; ".join(absent), ())
    verdicts = [each.verdict for each in found]
    verdict = next(each for each in VERDICTS if each in verdicts)
    counts = {each: verdicts.count(each) for each in (HOLDS, FAILS, SAME, OPEN) if each in verdicts}
    why = found[0].why
    if len(counts) > 1:
        why = ", ".join(f"{each} on {n}" for each, n in counts.items()) + f" of {len(found)}"
    elif len(found) > 1:
        why = "; ".join([f"on each of {len(found)}", *dict.fromkeys(each.beside for each in found if each.beside)])
    alike = [each.worst for each in found if each.verdict == verdict and each.worst]
    worst = max(alike, key=lambda each: _against(_relation(claim.test), claim.test, each))
    return Decided(name, claim, verdict, why, tuple(found), worst)


def _datasets(claim: Claim, evidence: Evidence) -> Sequence[str]:
    """Where a claim is tested; a series across datasets counts as one place."""
    return [BETWEEN.join(claim.test.across)] if claim.test.across else claim.datasets or evidence.datasets


def _on_dataset(test: Predicate, dataset: str, tested: tuple[Tested, ...], words: Words) -> OnDataset:
    """One failure refutes (at a level shared by all comparisons), and all must hold for the claim to."""
    known = [each for each in tested if each.found]
    level = 1 - (1 - LEVEL) / len(known)
    relation = _relation(test)
    verdicts = {id(each): _judged(relation, test, each, level) for each in known}
    order = {verdict: -place for place, verdict in enumerate((FAILS, SAME))}
    worst = max(known, key=lambda each: (order.get(verdicts[id(each)], -len(order)), _against(relation, test, each)))
    counts = list(verdicts.values())
    absent = [each for each in tested if not each.found]
    missing = [each for each in absent if not test.matched or each.why != NO_RUN]
    why = []
    asked = len(known) + len(missing)
    if asked > 1:
        same = f", {counts.count(SAME)} differ by less than {SHORT}" if SAME in counts else ""
        why.append(f"{counts.count(HOLDS)} of {asked} comparisons hold, {counts.count(FAILS)} fail{same}")
    elif SAME in counts:
        why.append(f"a difference below {SHORT} counts as none")
    why += dict.fromkeys(f"{_name(each, words)}: {each.why}" for each in absent if each.why != NO_RUN)
    unrun = dict.fromkeys(words.names.run(run) for each in absent if each.why == NO_RUN for run in each.unrun)
    why += [f"no runs of {'; '.join(unrun)}"] if unrun else []
    why += dict.fromkeys(each.found.why for each in known if each.found and each.found.why)
    verdict = next(each for each in VERDICTS if each in (*counts, *([OPEN] if missing else [])))
    undecided = [each.found for each in known if each.found and verdicts[id(each)] == OPEN]
    if verdict == OPEN and undecided and not any(each.why for each in undecided):
        # An interval on one side of the bound is open for one reason alone.
        one_sided = all(not each.reaches_across(known[0].bound) for each in undecided)
        reason = f"the difference is below {SHORT}" if one_sided else "the interval reaches across the bound"
        why.append(reason)
    return OnDataset(dataset, verdict, worst, tested, "; ".join(why))


def _tested(
    test: Predicate, dataset: str, words: Words, evidence: Evidence, published: pd.DataFrame
) -> Iterator[Tested]:
    bound = _bound(test, dataset, published)
    for left, right in _pairs(test):
        unrun = () if test.across else tuple(s.run for s in (left, right) if s and not evidence.has(dataset, s.run))
        if unrun:
            yield Tested(left, right, bound, None, NO_RUN, unrun)
            continue
        try:
            if test.effect in FITTED:
                places, samples = _series(test, dataset, left, words, evidence)
                of = effect_of(test.effect, places)
            else:
                sides = [left, right] if right else [left]
                samples = [_sample(evidence, dataset, side, words) for side in sides]
                of = effect_of(test.effect)
            together = paired(samples)
            if not together:
                raise Absent("no seed that both sides have")
            yield Tested(left, right, bound, estimate(together, of))
        except Absent as why:
            yield Tested(left, right, bound, None, str(why))


def _series(
    test: Predicate, dataset: str, side: Side, words: Words, evidence: Evidence
) -> tuple[list[float], list[Sample]]:
    """Places of a series and the number at each of them."""
    number = words.numbers[side.number]
    if test.across:
        there = [each for each in test.across if evidence.has(each, side.run)]
        places = [float(evidence.clients(each, side.run)) for each in there]
        samples = [evidence.sample(each, side.run, number) for each in there]
        samples = [each.without_units() for each in samples]
    else:
        levels = evidence.levels(dataset, side.run, number, test.by)
        places = [float(at) for at in levels]
        samples = [evidence.sample(dataset, side.run, number, {test.by: at}) for at in levels]
    if len(set(places)) < LEAST_PLACES:
        along = f"values of {test.by}" if test.by else "numbers of clients"
        few = f"{len(set(places))} of at least {LEAST_PLACES}"
        raise Absent(f"too few {along} for a series of {words.number(side.number)} ({few})")
    return places, samples


def _sample(evidence: Evidence, dataset: str, side: Side, words: Words) -> Sample:
    try:
        return evidence.sample(dataset, side.run, words.numbers[side.number])
    except Absent as why:
        raise Absent(f"{words.number(side.number)} of {words.side(side)}: {why}") from None


def _pairs(test: Predicate) -> Iterator[Pair]:
    runs = [run_of(named) for named in test.left]
    if test.relation == "ordered":
        sides = [Side(run, number) for run in runs for number in test.of]
        yield from pairwise(sides)
        return
    for number in test.of:
        for run in runs:
            left = Side(run, number)
            others = [Side(run_of(named), test.against or number) for named in test.right]
            if test.matched:
                others = [others[runs.index(run)]]
            if not others and test.against:
                others = [Side(run, test.against)]
            if others:
                yield from ((left, other) for other in others)
            else:
                yield left, None


def _relation(test: Predicate) -> Relation:
    return "less" if test.relation == "ordered" else test.relation


def _middle(test: Predicate) -> float:
    """What ``within`` is around: no difference, or a ratio of one."""
    return 1.0 if test.effect == "ratio" else 0.0


def _judged(relation: Relation, test: Predicate, tested: Tested, level: float) -> Verdict:
    assert tested.found is not None
    if not np.isfinite(tested.found.effect):
        return OPEN
    (lo, hi), (low, high) = tested.found.interval(), tested.found.interval(level)
    bound, middle = tested.bound, _middle(test)
    if relation in STRICT and test.effect == "relative":
        if max(abs(lo - bound), abs(hi - bound)) < LEAST_DIFFERENCE:
            return SAME
        if abs(tested.found.effect - bound) < LEAST_DIFFERENCE:
            return OPEN
    holds, fails = {
        "less": (hi < bound, low >= bound),
        "at_most": (hi <= bound, low > bound),
        "greater": (lo > bound, high <= bound),
        "at_least": (lo >= bound, high < bound),
        "within": (
            middle - bound <= lo and hi <= middle + bound,
            high < middle - bound or low > middle + bound,
        ),
    }[relation]
    return HOLDS if holds else FAILS if fails else OPEN


def _against(relation: Relation, test: Predicate, tested: Tested) -> float:
    """How much a comparison speaks against the claim."""
    assert tested.found is not None
    beyond = tested.found.effect - tested.bound
    if relation == "within":
        return abs(tested.found.effect - _middle(test)) - tested.bound
    return beyond if relation in ("less", "at_most") else -beyond


def _bound(test: Predicate, dataset: str, published: pd.DataFrame) -> float:
    """A printed bound is the dataset's own, or else the one that asks least of the runs."""
    bound = test.bound
    if not isinstance(bound, Published):
        return bound
    rows = printed(bound, published)
    own = rows[rows["dataset"] == dataset]
    values = (own if len(own) else rows)["value"]
    return float(values.min() if test.relation in ("at_least", "greater") else values.max())


def printed(bound: Published, published: pd.DataFrame) -> pd.DataFrame:
    """The published values that a bound names, one a dataset."""
    wanted = asdict(bound)
    return published[(published[list(wanted)] == list(wanted.values())).all(axis=1)]


def _missing(claim: Claim, evidence: Evidence, words: Words) -> str:
    """Which runs are not there, of a claim that could not be tested; empty where all are."""
    asked = claim.test.across or claim.datasets or evidence.datasets
    datasets = [each for each in asked if each in evidence.datasets]
    if not datasets:
        return f"no runs on {', '.join(map(words.dataset, asked))} at this scale"
    runs = [run_of(named) for named in (*claim.test.left, *claim.test.right)]
    absent = [words.names.run(run) for run in runs if not any(evidence.has(dataset, run) for dataset in datasets)]
    return f"no runs of {'; '.join(absent)} at this scale" if absent else ""


def _name(tested: Tested, words: Words) -> str:
    return " to ".join(words.side(side) for side in (tested.left, tested.right) if side)
