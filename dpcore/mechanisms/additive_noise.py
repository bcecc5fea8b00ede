"""The Laplace and the Gaussian mechanism: exactly sampled noise on every answer of a workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar, Final, final

import numpy as np
from numpy.random import Generator

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.kernel.budget import Currency
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, mean_absolute_noise, noise_stddev
from dpcore.mechanisms.api import ANY_QUERIES, Plan, Progress, Release, Step, Traits, silent
from dpcore.queries import Conjunctions, Marginals, Measurable, Parities, Products, Queries
from dpcore.strategies.allocation import weighted_shares
from dpcore.uncertainty import of_measurements
from dpcore.workload import Workload, part_sizes

LARGEST_ANSWERS: Final = 20_000_000  # The answers and error bars of this many queries take half a gigabyte.


@final
@dataclass(frozen=True)
class Laplace:
    """Adds discrete Laplace noise to every answer of the workload, under pure epsilon-DP.

    The budget is divided between the cliques of marginals, or between the terms of products, so that the weighted
    squared error is least given the sensitivity of each. Conjunctions and parities are measured as one vector. Every
    answer has a standard deviation and an interval.

    Guarantee: the budget's, by composition of the measurements.

    Source: Dwork, McSherry, Nissim and Smith (2006); discrete noise of Canonne, Kamath and Steinke (2020).
    """

    traits: ClassVar[Traits] = Traits(
        name="laplace",
        answers=ANY_QUERIES,
        shapes=("table", "baskets"),
        currencies=(Currency.PURE,),
        rows=False,
        mostly_gaussian=False,
        recommended_for="a few queries under pure differential privacy, each with its own error bar",
    )

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        if terms.budget.currency is not Currency.PURE:
            given = f"the budget is in {terms.budget.currency}"
            raise ConfigError(
                f"mechanism laplace gives pure epsilon-DP, and {given}; want privacy.delta: 0, or mechanism: gaussian"
            )
        return _plan(terms, workload)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        return _run(private, workload, progress)


@final
@dataclass(frozen=True)
class Gaussian:
    """Adds Gaussian noise to every answer of the workload.

    The noise is the discrete Gaussian under rho-zCDP, and a Gaussian rounded to a fine grid under mu-Gaussian DP. The
    budget is divided as by ``Laplace``, but with L2 sensitivities and for Gaussian noise. Every answer has a standard
    deviation and an interval.

    Guarantee: the budget's, by composition of the measurements.

    Source: Canonne, Kamath and Steinke (2020), Theorem 4; Dong, Roth and Su (2022), Theorem 1.
    """

    traits: ClassVar[Traits] = Traits(
        name="gaussian",
        answers=ANY_QUERIES,
        shapes=("table", "baskets"),
        currencies=(Currency.ZCDP, Currency.GDP),
        rows=False,
        mostly_gaussian=True,
        recommended_for="a few queries, each with its own error bar",
    )

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        if terms.budget.currency is Currency.PURE:
            raise ConfigError("mechanism gaussian has privacy.delta 0; want delta such as 1e-6, or mechanism: laplace")
        return _plan(terms, workload)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        return _run(private, workload, progress)


def _run(private: PrivateStatistics, workload: Workload, progress: Progress) -> Release:
    parts = _parts(private.terms, workload)
    private.expect(workload.queries)
    measured = measure_parts(private, parts, progress)
    return Release(workload, of_measurements(measured), None, tuple(measured))


def measure_parts(
    private: PrivateStatistics, parts: Sequence[tuple[Measurable, Fraction]], progress: Progress
) -> list[Measurement]:
    """Measures queries one after another, and reports progress in measured values of all of them.

    parts: The queries of each call, and their share of the whole budget.
    """
    measured: list[Measurement] = []
    done, total = 0, sum(queries.size for queries, _ in parts)
    for queries, share in parts:
        report = partial(_report_within_part, progress, done, total)
        measured.append(private.measure(queries, share, report))  # MEASURE
        done += queries.size
        progress(done, total)
    return measured


def _report_within_part(progress: Progress, before: int, total: int, done: int, part_size: int) -> None:
    """Reports progress within a part as measured values of all parts.

    The end of a part is left out: the caller reports it, also for a part that is replayed from the journal.
    """
    if done < part_size:
        progress(before + done, total)


def _parts(terms: PrivacyTerms, workload: Workload) -> list[tuple[Queries, Fraction]]:
    """The parts of the workload that are measured separately, each with its share of the budget."""
    queries = workload.queries
    if isinstance(queries, Conjunctions | Parities):
        return [(queries, Fraction(1))]
    parts: list[Queries]
    if isinstance(queries, Marginals):
        parts, weights = [queries.only([clique]) for clique in queries.cliques], workload.weights
    else:
        parts = [Products(queries.domain, (term,)) for term in queries.terms]
        # At equal shares the noise of a term is proportional to its sensitivity, which therefore multiplies its weight.
        weights = workload.weights / workload.weights.max() * [terms.measure_scale(part, Fraction(1)) for part in parts]
    shares = weighted_shares(np.array(part_sizes(queries)), weights, terms.noise)
    return list(zip(parts, shares, strict=True))


def _plan(terms: PrivacyTerms, workload: Workload) -> Plan:
    size = workload.queries.size
    if size > LARGEST_ANSWERS:
        advice = (
            "choose a smaller workload (max_cells leaves out large marginals), or a mechanism that answers from a "
            "model: independent, mwem, dual_query"
        )
        raise DomainTooLargeError("the workload", size, LARGEST_ANSWERS, advice)
    parts = _parts(terms, workload)
    scales = [terms.measure_scale(queries, share) for queries, share in parts]
    steps = tuple(
        Step(f"measure {queries.description}", float(share), 1, noise_stddev(terms.noise, scale))
        for (queries, share), scale in zip(parts, scales, strict=True)
    )
    total_error = sum(
        queries.size * mean_absolute_noise(terms.noise, scale)
        for (queries, _), scale in zip(parts, scales, strict=True)
    )
    events = tuple(terms.measured(share) for _, share in parts)
    return Plan(steps, 0, 24 * size, total_error / size, events=events)
