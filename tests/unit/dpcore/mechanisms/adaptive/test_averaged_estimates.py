"""Adaptive residuals: which estimates are averaged, and what a plan says of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.estimation.graphical.fitting.work import SECONDS_PER_UNIT, UNIT
from dpcore.estimation.reconstruction import weighted_mean as weighted_means
from dpcore.estimation.reconstruction.latent_classes import bytes_of_fit, reads_of_fit
from dpcore.estimation.reconstruction.sample_posterior import DISPERSIONS, reads_of_posterior
from dpcore.estimation.reconstruction.weighted_mean import max_splits, weighted_mean
from dpcore.mechanisms.adaptive import adaptive_residuals
from dpcore.mechanisms.adaptive.adaptive_residuals import AdaptiveResiduals
from dpcore.queries import Marginals
from dpcore.testing.doubles import private_statistics
from dpcore.workload import all_k_way
from tests.support.constants import with_constants
from tests.unit.dpcore.mechanisms.adaptive.test_adaptive_residuals import (
    BITS,
    BUDGET,
    GENERATOR,
    WORKLOAD,
    released,
    table,
)


@pytest.mark.parametrize(
    ("constants", "wanted"),
    [
        ({}, [(math.inf, (16, 64))]),
        ({"model_cells": 1_000}, [(2**18, (16, 64))]),
        ({"model_cells": 1_000, "small_marginal": 7}, [(0, (16, 64))]),
        ({"classes": (8,)}, [(math.inf, (8,))]),
        ({"model_cells": 1_000, "part_noise": 0.1}, [(0, (16, 64))]),
        ({"model_noise": 0.1, "corrected_noise": (0.1, 0.2)}, [(0, ())]),
        ({"corrected_noise": (0.1, 0.2)}, [(math.inf, ())]),
        ({"class_cells": max(WORKLOAD.queries.sizes) - 1}, [(math.inf, ())]),
        ({"mean_answers": WORKLOAD.queries.size - 1}, [(math.inf, ())]),
        ({"model_noise": 0.1, "mean_answers": WORKLOAD.queries.size - 1}, []),
    ],
    ids=[
        *("noise", "a large model", "large marginals", "other classes", "less noise than for a part"),
        *(
            "little noise",
            "less noise than for classes",
            "a huge marginal",
            "many answers",
            "many answers and little noise",
        ),
    ],
)
def test_which_estimates_are_averaged(
    monkeypatch: pytest.MonkeyPatch, constants: dict[str, Any], wanted: list[tuple[float, tuple[int, ...]]]
) -> None:
    """The model has 1,024 cells, and the noise is 0.05 of the rows."""
    asked, seen = [], []

    def averaged(values: NDArray[np.float64], *rest: Any, **settings: Any) -> Any:
        asked.append((settings["max_cells"], settings["classes"]))
        assert settings["dispersions"] == ()  # Too much noise.
        seen.append(weighted_mean(values, *rest, **settings))
        return seen[-1]

    monkeypatch.setattr(adaptive_residuals, "weighted_mean", averaged)
    release = released(500, **constants)
    assert asked == wanted
    for mean in seen:
        np.testing.assert_array_equal(release.answers.values, mean)
        assert ((release.answers.lower <= mean) & (mean <= release.answers.upper)).all()


@pytest.mark.parametrize(
    ("constants", "models", "least"),
    [
        ({}, "latent-class models and graphical models of all marginals", "0.1%"),
        ({"model_cells": 1_000}, "latent-class models and graphical models of at most 262,144 cells", "1.0%"),
    ],
)
def test_a_plan_counts_the_fits_of_the_models(constants: dict[str, int], models: str, least: str) -> None:
    mechanism = with_constants(AdaptiveResiduals(), corrected_noise=(0.001, 0.03), **constants)
    noisy, precise = (private_statistics(table(), BUDGET, units=units).terms for units in (500, 200_000))
    with_fit, without = (mechanism.plan(terms, WORKLOAD) for terms in (noisy, precise))
    assert with_fit.memory_bytes > without.memory_bytes
    assert (with_fit.cpu_seconds or 0) > (without.cpu_seconds or 0)
    unknown = mechanism.plan(private_statistics(table(), BUDGET).terms, WORKLOAD)
    told = [[note for note in plan.notes if "a weighted mean" in note] for plan in (without, with_fit, unknown)]
    assert [len(notes) for notes in told] == [1, 1, 1]
    assert told[0][0].endswith("the nearest non-negative ones")
    assert told[1][0].endswith(models)
    assert told[2][0].startswith(f"if the noise of a marginal is at least {least} of the rows")
    few = with_constants(mechanism, mean_answers=1)
    assert (few.plan(precise, WORKLOAD).cpu_seconds or 0) < (without.cpu_seconds or 0)
    assert not any("a weighted mean" in note for note in few.plan(precise, WORKLOAD).notes)


def test_a_plan_counts_the_fits_of_the_classes() -> None:
    mechanism, queries = with_constants(AdaptiveResiduals(), model_noise=1.0), WORKLOAD.queries
    terms = private_statistics(table(), BUDGET, units=500).terms
    assert isinstance(queries, Marginals)
    (with_classes, without) = (
        with_constants(mechanism, corrected_noise=(limit, 0.0)).plan(terms, WORKLOAD) for limit in (0.0, 1.0)
    )
    fits = (1 + max_splits(queries)) * sum(reads_of_fit(queries, classes) for classes in (16, 64)) / UNIT
    assert (with_classes.cpu_seconds or 0) - (without.cpu_seconds or 0) >= fits * SECONDS_PER_UNIT
    assert with_classes.memory_bytes - without.memory_bytes == bytes_of_fit(queries, 64)
    assert any("latent-class models" in note for note in with_classes.notes)
    assert not any("latent-class models" in note for note in without.notes)


def test_a_plan_counts_the_corrections_of_the_classes() -> None:
    mechanism, queries = with_constants(AdaptiveResiduals(), model_noise=1.0), WORKLOAD.queries
    terms = private_statistics(table(), BUDGET, units=500).terms
    assert isinstance(queries, Marginals)
    corrected, plain = (
        with_constants(mechanism, corrected_noise=(0.0, limit)).plan(terms, WORKLOAD) for limit in (1.0, 0.0)
    )
    of_splits, last = (
        sum(reads_of_posterior(queries, classes, dispersions) for classes in (16, 64, 64))
        for dispersions in (len(DISPERSIONS), 1)
    )
    seconds = (max_splits(queries) * of_splits + last) / UNIT * SECONDS_PER_UNIT
    added = (corrected.cpu_seconds or 0) - (plain.cpu_seconds or 0)
    assert seconds < added < seconds + 1.0  # The fits of the forest, and their answers.
    assert any("the forest are corrected for the sampling variation" in note for note in corrected.notes)
    assert not any("corrected for the sampling variation" in note for note in plain.notes)


@pytest.mark.parametrize(("limits", "dispersions"), [((0.0, 1.0), DISPERSIONS), ((0.0, 0.01), ()), ((0.1, 1.0), None)])
def test_where_classes_are_corrected(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[float, float], dispersions: tuple[float, ...] | None
) -> None:
    """The noise is 0.05 of the rows. Below the first limit there are no classes either."""
    asked = []

    def averaged(*arguments: Any, **settings: Any) -> Any:
        asked.append(settings["dispersions"] if settings["classes"] else None)
        return weighted_mean(*arguments, **settings)

    monkeypatch.setattr(adaptive_residuals, "weighted_mean", averaged)
    released(500, corrected_noise=limits)
    assert asked == [dispersions]


def test_marginals_of_one_attribute_need_no_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighted_means, "LatentClassModel", None)
    workload = all_k_way(BITS, 1)
    mechanism = with_constants(AdaptiveResiduals(), class_noise=0.0, max_noise=math.inf)
    release = mechanism.run(private_statistics(table(), BUDGET), workload, generator=GENERATOR)
    assert release.answers.values.size == workload.queries.size
