"""What may be computed of a run beside its metrics, for those artifacts that show it.

Each is a file of metric rows in the run's folder, ``{name}.parquet``, made by a rule of its own from settings that a
scale may change.
"""

from __future__ import annotations

from fedloom.evaluation.forecast.noise import CodebookNoise
from fedloom.evaluation.forecast.proposition import Confounding
from fedloom.evaluation.series.finetune import Adaptation

FURTHER: dict[str, type] = {"adapted": Adaptation, "noisy": CodebookNoise, "leakage": Confounding}
"""Name -> the settings of what computes it."""
