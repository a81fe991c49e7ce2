"""A run on series, asked window by window: by every client's weights, or by the one model that all have."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.evaluation.series.foresee import Fill
from fedloom.evaluation.series.reconstruction import OWN, Predict
from fedloom.federation.method import Moment
from fedloom.federation.rounds import predictor
from fedloom.federation.runs import Run
from fedloom.federation.stack import Bound, Tensors
from fedloom.federation.tasks.series import SeriesWindows

NO_COMMON_MODEL = "every client keeps a model of its own"


def clients_answer(run: Run, weights: Tensors) -> dict[str | None, Predict]:
    """Return how clients fill in with ``weights`` [C, ...]: as the method is judged (None), and in their own way.

    The second, ``own``, is there only for methods that keep something personal out of the judged prediction.
    """
    found: dict[str | None, Predict] = {None: predictor(run.method, run.skeleton, run.task, weights)}
    personalised = getattr(run.method, "personalised", None)
    if personalised is not None:
        found[OWN] = predictor(run.method, run.skeleton, run.task, weights, personalised)
    return found


def why_no_common_model(run: Run) -> str | None:
    """Return why there are no weights that all clients are judged by; None where they can be asked about any data."""
    if run.verdict == "diverged":
        return str(run.reason)
    common = run.method.pools or (run.method.shared and not run.method.personal)
    return None if common else NO_COMMON_MODEL


def common_answer(run: Run, weights: Tensors) -> Fill:
    """Return how the model that all clients share fills in windows [B, ...]."""
    model = Bound(run.skeleton, {name: values[0] for name, values in weights.items()})

    def fill(batch: SeriesWindows) -> Tensor:
        with torch.no_grad():
            return run.method.predict(model, batch, Moment({}, {}))

    return fill
