"""Detections and what point adjustment does to them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_recall_curve

from fedloom.evaluation.series.anomalies import judged
from fedloom.evaluation.series.detection import adjusted, f1, threshold


def labelled(seed: int = 0, n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = np.zeros(n, dtype=bool)
    for start in range(500, n, 1000):
        truth[start : start + 200] = True
    return rng, truth


def test_f1_is_scikit_learns() -> None:
    rng, truth = labelled()
    found = rng.random(len(truth)) < 0.3
    assert f1(found, truth) == pytest.approx(f1_score(truth, found))
    assert f1(np.zeros_like(truth), truth) == 0
    assert np.isnan(f1(found, np.zeros_like(truth)))


def test_point_adjustment_lets_random_scores_look_good() -> None:
    rng, truth = labelled()
    scores = rng.random(len(truth))
    found = scores > 0.99
    assert f1(found, truth) < 0.2
    assert f1(adjusted(found, truth), truth) > 0.8


def test_only_whole_true_stretches_are_adjusted() -> None:
    truth = np.array([0, 1, 1, 0, 1, 1, 0], dtype=bool)
    found = np.array([1, 0, 1, 0, 0, 0, 0], dtype=bool)
    assert adjusted(found, truth).tolist() == [True, True, True, False, False, False, False]


def test_the_threshold_has_the_best_f1_of_validation() -> None:
    rng, truth = labelled(3)
    scores = np.round(rng.normal(size=len(truth)) + truth, 1)  # ties
    precision, recall, _ = precision_recall_curve(truth, scores)
    best = np.max(2 * precision * recall / np.maximum(precision + recall, 1e-12))
    assert f1(scores > threshold(scores, truth), truth) == pytest.approx(best)


def test_a_validation_part_without_anomaly_gives_its_99_percent_quantile() -> None:
    scores = np.random.default_rng(0).random(1000)
    assert threshold(scores, np.zeros(1000, dtype=bool)) == np.quantile(scores, 0.99)


def test_test_labels_set_no_threshold() -> None:
    rng, truth = labelled()
    scores = rng.random(len(truth)) + truth
    one = judged(scores, scores, truth, truth)
    assert one[None] == 1
    shuffled = judged(scores, scores, truth, rng.permutation(truth))
    assert shuffled[None] < 0.5
