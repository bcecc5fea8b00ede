"""Corrections in the weighted mean: their dispersions, the corrected forest, and negative answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.reconstruction import weighted_mean as module
from dpcore.estimation.reconstruction.latent_classes import LatentClassModel
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.estimation.reconstruction.weighted_mean import squared_distance
from tests.unit.dpcore.estimation.reconstruction.test_latent_classes import of_classes
from tests.unit.dpcore.estimation.reconstruction.test_nonnegative import disagreement
from tests.unit.dpcore.estimation.reconstruction.test_shrunken import BITS, ROWS, chained, exact, queries_of
from tests.unit.dpcore.estimation.reconstruction.test_weighted_mean import NOISY, both, measured

Real = NDArray[np.float64]


def test_the_dispersion_of_a_correction_is_that_nearest_to_the_held_out_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all splits, for the classes and for the forest; the last estimates are made with it alone."""
    queries, dispersions, asked = queries_of(BITS, 3), (1.0, 4.0, 16.0), list[tuple[float, ...]]()
    (values,) = measured(of_classes(BITS, 3), queries, NOISY, 1)
    distances = np.zeros((2, 3))
    plain = module.corrected_answers

    def counted(model: LatentClassModel, *rest: Any) -> list[Real]:
        asked.append(tuple(rest[3]))
        return plain(model, *rest)

    def summed(estimate: Real, held_out: Residuals, *rest: Any) -> float:
        distance = squared_distance(estimate, held_out, *rest)
        distances.flat[len(seen) % 6] += distance
        seen.append(distance)
        return distance

    seen: list[float] = []
    monkeypatch.setattr(module, "corrected_answers", counted)
    monkeypatch.setattr(module, "squared_distance", summed)
    shrunken, mean = both(values, queries, 0, classes=(4,), dispersions=dispersions)
    *splits, of_classes_last, of_forest_last = asked
    assert set(splits) == {dispersions}
    assert len(seen) == 3 * len(splits)
    best_of_classes, best_of_forest = distances.argmin(axis=1)
    assert (of_classes_last, of_forest_last) == ((dispersions[best_of_classes],), (dispersions[best_of_forest],))
    assert mean.min() >= 0
    assert disagreement(queries, mean) < 1e-6 * shrunken.sum()


def test_a_chain_is_nearer_with_a_forest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noisy values, with the corrected forest and without it; its weight is the largest."""
    queries, codes = queries_of(BITS, 3), chained(BITS)
    (values,) = measured(codes, queries, NOISY, 1)
    wanted, errors, weights = exact(codes, queries), list[float](), list[Real]()
    plain_weights = module.mean_weights

    def kept(*arguments: Any) -> tuple[Real, float]:
        found = plain_weights(*arguments)
        weights.append(found[0])
        return found

    monkeypatch.setattr(module, "mean_weights", kept)
    _, mean = both(values, queries, 0, classes=(4,), dispersions=(1.0, 10.0))
    assert weights[0].argmax() == len(weights[0]) - 1
    errors.append(float(np.abs(mean - wanted).sum()))
    monkeypatch.setattr(module._Estimators, "corrected", 1)
    plain = module._Estimators.estimates

    def without_forest(self: Any, *arguments: Any) -> Any:
        others, corrected, models = plain(replace(self, has_forest=False), *arguments)
        return others, corrected, models

    monkeypatch.setattr(module._Estimators, "estimates", without_forest)
    _, mean = both(values, queries, 0, classes=(4,), dispersions=(1.0, 10.0))
    errors.append(float(np.abs(mean - wanted).sum()))
    assert errors[0] < 0.95 * errors[1]


def test_negative_answers_are_replaced_by_the_nearest_others(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = queries_of(BITS, 3)
    (values,) = measured(of_classes(BITS, 3), queries, NOISY, 1)

    def negative(model: LatentClassModel, *rest: Any) -> list[Real]:
        answers = model.answers(queries, float(ROWS))
        answers[:2] += np.array([-2.0, 2.0]) * answers[0]
        return [answers]

    def last(estimates: list[Real], *_: object) -> tuple[Real, float]:
        return np.eye(len(estimates))[-1], 0.0

    monkeypatch.setattr(module, "corrected_answers", negative)
    monkeypatch.setattr(module, "mean_weights", last)
    shrunken, mean = both(values, queries, 0, classes=(4,))
    assert mean.min() >= 0
    assert disagreement(queries, mean) < 1e-6 * shrunken.sum()
