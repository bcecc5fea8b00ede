"""Continual counts: running totals, windows and single steps of a series, under one budget for all steps."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from numpy.random import Generator

from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.continual.series import Series
from dpcore.strategies.continual.planning import Choice
from dpcore.workload import Workload


@final
@dataclass(frozen=True)
class Continual:
    """Measures a strategy over the steps of a series, and answers each query from the steps up to its end.

    The strategy has a triangular shape: what is measured at a step reads that step and earlier ones. An answer never
    uses what is measured after the last step that it reads, so it could have been given at that step, and it is the
    same as if the series ended there.

    attribute: The attribute whose values, in the order of the schema, are the steps. Codes of null and of other values
        come after the last step, and count as steps too.
    strategy: What is measured. "best" has the least expected weighted squared error: under Gaussian noise it is the
        certified optimum of all strategies. "square_root" (of the matrix of running totals), "tree" (sums of 2^h
        steps) and "daily" (every step by itself) fix it.

    Guarantee: the budget's, for all steps together (``dpcore.kernel.series`` for data that arrive step by step).

    Source: Denisov, McMahan, Rush, Smith and Thakurta (2022) for the matrix mechanism of series; McKenna (2022),
    Definition 13, for the optimum.
    """

    traits: ClassVar[Traits] = Traits(
        name="continual",
        answers=("products",),
        shapes=("table",),
        rows=False,
        mostly_gaussian=True,
        recommended_for="counts over days or other steps: running totals, windows and single steps",
    )

    attribute: str = "day"
    strategy: Choice = "best"

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        series = Series.of(terms, workload, self.attribute, self.strategy)
        scale = terms.measure_scale(series.measured, Fraction(1))
        denominator = series.plan.strategy.denominator
        stddev = noise_stddev(terms.noise, scale) / denominator
        steps = (Step(f"measure {series.measured.description}", 1.0, 1, stddev),)
        memory = 32 * workload.queries.size + 32 * series.measured.size
        note = (
            f"strategy {series.plan.name} over {series.plan.strategy.steps:,} steps of {self.attribute}: its root-mean-"
            f"square error is {series.plan.gap:.2%} above a lower bound for all strategies"
        )
        error = series.mean_error(terms, scale, None)
        return Plan(steps, 0, memory, error, (note,), (terms.measured(Fraction(1)),))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        series = Series.of(private.terms, workload, self.attribute, self.strategy)  # SELECT
        measured = private.measure(series.measured, Fraction(1), progress)  # MEASURE
        return Release(workload, series.answers(measured, None), None, (measured,))  # ESTIMATE
