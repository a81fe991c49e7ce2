"""Errors of effects and policy values against the truth of a generated world, beside what no model is needed for.

Effects are of on against off: per step at the logged histories, per window as Always against Never. PEHE is the mean
square of the effects' errors over units (Hill 2011), its root is printed beside it: on the same units the root is
never below the absolute error of the mean effect (Jensen), which every row is held to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedloom.evaluation.offpolicy.policies import OFF, ON, POLICIES
from fedloom.evaluation.rows import Row, condition, mean_row, narrowed, row

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

NEVER, ALWAYS = POLICIES.index("never"), POLICIES.index("always")
STEP, WINDOW = "step", "window"


@dataclass(frozen=True)
class EffectErrors:
    """Errors of estimated effects over ``n`` units: mean square, its root, and absolute error of the mean."""

    pehe_mse: float
    pehe_root: float
    ate_error: float
    n: int

    def __post_init__(self) -> None:
        # Both are sums of the same numbers in another order, so that they may differ in the last digits.
        assert self.pehe_root >= self.ate_error * (1 - 1e-9) - 1e-12, "root PEHE below the error of the mean effect"


@dataclass(frozen=True)
class Naive:
    """What a log says without adjustment: mean outcome where off was taken, where on was, and in all."""

    off: float
    on: float
    everywhere: float

    def values(self, width: int) -> Floats:
        """Return what it would call the values [4] of the policies over a window of ``width`` steps."""
        early = -(-width // 2) / width
        mixed = np.array([0.0, 1.0, early, 1 - early])
        found: Floats = self.off + mixed * (self.on - self.off)
        return found


def naive(chosen_NL: Ints, outcome_NL: Floats, valid_NL: Bools) -> Naive:
    """Return the unadjusted means of a log; NaN for an anchor that was never taken."""
    means = [_mean(outcome_NL[valid_NL & (chosen_NL == anchor)]) for anchor in (OFF, ON)]
    return Naive(means[0], means[1], _mean(outcome_NL[valid_NL]))


def effect_errors(estimate_U: Floats, truth_U: Floats) -> EffectErrors:
    """Return the errors of the effects of the same units."""
    error_U = estimate_U - truth_U
    mse = float(np.mean(error_U**2))
    return EffectErrors(mse, float(np.sqrt(mse)), float(abs(np.mean(estimate_U) - np.mean(truth_U))), len(error_U))


def step_effect_rows(estimate_NLA: Floats, truth_NLA: Floats, valid_NL: Bools, log: Naive) -> list[Row]:
    """Return rows of the effect of single steps.

    ``estimate_NLA`` [N, L, 2] is the model's probability of the outcome under off and on at the logged histories,
    ``truth_NLA`` the true one; steps that ``valid_NL`` leaves out do not count. ``log`` gives the naive contrast.
    """
    estimate_U = (estimate_NLA[..., ON] - estimate_NLA[..., OFF])[valid_NL].astype(np.float64)
    truth_U = (truth_NLA[..., ON] - truth_NLA[..., OFF])[valid_NL].astype(np.float64)
    return _effect_rows(estimate_U, truth_U, log, STEP)


def window_rows(
    draws_MPU: Floats, truth_PU: Floats, log: Naive, width: int, oracle_MPU: Floats | None = None
) -> list[Row]:
    """Return rows of the effect of Always against Never and of all policies' values over a window.

    ``draws_MPU`` holds the window mean of the outcome's probability by simulated draw, policy (in the order of
    ``POLICIES``) and unit; ``truth_PU`` the true expectation. ``width`` is the window's number of steps. Every number
    has the standard error that M draws leave it with, by the jackknife over draws (metric ``..._se``).
    ``oracle_MPU`` are draws of the true mechanism: the Monte-Carlo floor, which no model can go below.
    """
    truth_U = truth_PU[ALWAYS] - truth_PU[NEVER]
    rows = _effect_rows(_contrast(draws_MPU), truth_U, log, WINDOW)
    rows += _value_rows(draws_MPU.mean(axis=(0, 2)), truth_PU, condition(scope=WINDOW))
    rows += _monte_carlo_rows(draws_MPU, truth_PU)
    references = {
        "truth": truth_PU.mean(axis=1),
        "constant_effect": truth_PU.mean(axis=1),
        "zero_effect": np.full(len(POLICIES), log.everywhere),
        "naive": log.values(width),
    }
    for name, values in references.items():
        rows += _value_rows(values, truth_PU, condition(scope=WINDOW, prediction=name))
    if oracle_MPU is not None:
        floor = condition(scope=WINDOW, prediction="oracle")
        rows += _error_rows(effect_errors(_contrast(oracle_MPU), truth_U), floor)
        rows += _value_rows(oracle_MPU.mean(axis=(0, 2)), truth_PU, floor)
    return rows


def jackknife(draws_M: Floats, statistic: Callable[[Floats], Mapping[str, float]]) -> dict[str, float]:
    """Return the standard errors that M draws [M, ...] leave in a statistic of their mean; NaN for a single draw."""
    m = len(draws_M)
    if m < 2:
        return dict.fromkeys(statistic(draws_M.mean(axis=0)), np.nan)
    total = draws_M.sum(axis=0)
    left_out = [statistic((total - draw) / (m - 1)) for draw in draws_M]
    return {name: float(np.sqrt((m - 1) * np.var([each[name] for each in left_out]))) for name in left_out[0]}


def _monte_carlo_rows(draws_MPU: Floats, truth_PU: Floats) -> list[Row]:
    truth_U = truth_PU[ALWAYS] - truth_PU[NEVER]

    def statistic(mean_PU: Floats) -> dict[str, float]:
        errors = effect_errors(mean_PU[ALWAYS] - mean_PU[NEVER], truth_U)
        found = {"pehe_mse": errors.pehe_mse, "pehe_root": errors.pehe_root}
        # The signed mean effect: its absolute error has a kink at 0, where a jackknife says nothing.
        found["ate_error"] = float(np.mean(mean_PU[ALWAYS] - mean_PU[NEVER]))
        return found | dict(zip(POLICIES, mean_PU.mean(axis=1).tolist(), strict=True))

    errors, draws = jackknife(draws_MPU, statistic), len(draws_MPU)
    single = None if draws > 1 else "one draw"
    rows = []
    for name, error in errors.items():
        metric, policy = ("value_se", name) if name in POLICIES else (f"{name}_se", None)
        rows.append(row(metric, error, draws, condition(scope=WINDOW, policy=policy), reason=single))
    return rows


def _effect_rows(estimate_U: Floats, truth_U: Floats, log: Naive, scope: str) -> list[Row]:
    """Rows of the model, of a constant effect (the true mean), of no effect, and of the unadjusted contrast."""
    known = {None: estimate_U, "constant_effect": np.full_like(truth_U, truth_U.mean())}
    known |= {"zero_effect": np.zeros_like(truth_U), "naive": np.full_like(truth_U, log.on - log.off)}
    rows = []
    for name, effect_U in known.items():
        under = condition(scope=scope, prediction=name)
        if np.isnan(effect_U).any():
            rows += [row(m, np.nan, 0, under, reason="no_match") for m in ("pehe_mse", "pehe_root", "ate_error")]
        else:
            rows += _error_rows(effect_errors(effect_U, truth_U), under)
    return [*rows, row("effect_sd", float(truth_U.std()), len(truth_U), condition(scope=scope, prediction="truth"))]


def _error_rows(errors: EffectErrors, under: str) -> list[Row]:
    return [row(m, getattr(errors, m), errors.n, under) for m in ("pehe_mse", "pehe_root", "ate_error")]


def _value_rows(values_P: Floats, truth_PU: Floats, under: str) -> list[Row]:
    """Rows ``value`` and ``value_error`` by policy, and the mean of the errors over policies."""
    units = truth_PU.shape[1]
    errors_P = np.abs(values_P - truth_PU.mean(axis=1))
    rows = []
    for policy, value, error in zip(POLICIES, values_P, errors_P, strict=True):
        of = narrowed(under, policy=policy)
        missing = "no_match" if np.isnan(value) else None
        rows += [row("value", value, units, of, reason=missing), row("value_error", error, units, of, reason=missing)]
    return [*rows, mean_row("value_error", errors_P, narrowed(under, policy="mean"), "no policy", unit="pooled")]


def _contrast(draws_MPU: Floats) -> Floats:
    mean_PU = draws_MPU.mean(axis=0)
    contrast: Floats = mean_PU[ALWAYS] - mean_PU[NEVER]
    return contrast


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else np.nan
