"""Continual counts: running totals, windows and single steps of a series, under one budget for all steps."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, final

from numpy.random import Generator

from dpcore.errors import ConfigError
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.continual.series import Series
from dpcore.strategies.continual.planning import Choice
from dpcore.strategies.continual.strategy import ContinualStrategy
from dpcore.workload import Workload


@final
@dataclass(frozen=True)
class Continual:
    """Measures a strategy over the steps of a series, and answers each query from the steps up to its end.

    The strategy has a triangular shape: what is measured at a step reads that step and earlier ones. An answer never
    uses what is measured after the last step that it reads, so it could have been given at that step, and it is the
    same as if the series ended there.

    A release has all steps, or one of them (``at_step``): a series of releases, one for each step in order, gives the
    same answers as one release of all steps from the same noise, and ``dpcore.kernel.series`` proves that all of them
    together cost one budget, under its three conditions, which ``jobs`` enforces.

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
    step: int | None = field(default=None, init=False)
    earlier: tuple[Measurement, ...] = field(default=(), init=False, repr=False, compare=False)
    recorded: ContinualStrategy | None = field(default=None, init=False, repr=False, compare=False)

    def at_step(
        self, step: int, earlier: tuple[Measurement, ...] = (), recorded: ContinualStrategy | None = None
    ) -> Continual:
        """The same mechanism for one step alone.

        step: The step, from 0.
        earlier: What all earlier steps have measured, in their order (``measure_step``); only a run needs them.
        recorded: The strategy with which the series began; by default it is planned, as for step 0.

        ``run`` then answers the queries of the workload that end at this step, and returns them as its workload.
        """
        mechanism = replace(self)
        object.__setattr__(mechanism, "step", step)
        object.__setattr__(mechanism, "earlier", earlier)
        object.__setattr__(mechanism, "recorded", recorded)
        return mechanism

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        series = self._series(terms, workload)
        measured, strategy = series.measured, series.plan.strategy
        scale = terms.measure_scale(measured, Fraction(1))
        stddev = noise_stddev(terms.noise, scale) / strategy.denominator
        answered = workload if self.step is None else series.queries_at(self.step)
        label = f"measure {measured.description}"
        if self.step is not None:
            label = (
                f"measure step {self.step + 1} of {strategy.steps:,} of a series, which is charged once for all steps"
            )
        memory = 32 * answered.queries.size + 32 * measured.size
        note = (
            f"strategy {series.plan.name} over {strategy.steps:,} steps of {self.attribute}: its root-mean-square "
            f"error is {max(0.0, series.plan.gap):.2%} above a lower bound for all strategies"
        )
        error = series.mean_error(terms, scale, self.step)
        return Plan((Step(label, 1.0, 1, stddev),), 0, memory, error, (note,), (terms.measured(Fraction(1)),))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        series = self._series(private.terms, workload)  # SELECT
        if self.step is None:
            measured = private.measure(series.measured, Fraction(1), progress)  # MEASURE
            return Release(workload, series.answers(measured, None), None, (measured,))  # ESTIMATE
        answered = series.queries_at(self.step)
        if len(self.earlier) != self.step:
            raise ValueError(f"{len(self.earlier)} earlier measurements; want those of {self.step} earlier steps")
        if self.earlier:
            series.joined(self.earlier)  # Measurements of another series are refused before anything is charged.
        measured = self.measure_step(private, workload, progress)  # MEASURE
        so_far = series.joined((*self.earlier, measured))
        return Release(answered, series.answers(so_far, self.step), None, (measured,))  # ESTIMATE

    def measure_step(self, private: PrivateStatistics, workload: Workload, progress: Progress = silent) -> Measurement:
        """Measures one step, without an estimate. Raises ValueError unless ``at_step`` has set it."""
        if self.step is None:
            raise ValueError("a mechanism for all steps; want one of at_step")
        series = self._series(private.terms, workload)
        rows = series.plan.strategy.rows_of(self.step)
        return private.measure_rows(series.measured, self.attribute, self.step, rows, Fraction(1), progress)

    def series_digest(self, terms: PrivacyTerms, workload: Workload) -> str:
        """SHA-256 of what every step of the series measures, and with which noise: the same for all its steps.

        Two programs that plan another strategy for the same settings, or another scale, have another digest.
        """
        measured = self._series(terms, workload).measured
        scale = terms.measure_scale(measured, Fraction(1))
        content = json.dumps([measured.digest(), self.attribute, terms.noise.value, scale.hex()])
        return hashlib.sha256(content.encode()).hexdigest()

    def planned_strategy(self, terms: PrivacyTerms, workload: Workload) -> ContinualStrategy:
        """The strategy over all steps."""
        return self._series(terms, workload).plan.strategy

    def _series(self, terms: PrivacyTerms, workload: Workload) -> Series:
        """Raises ConfigError for a workload without a series, and for a step that it does not have."""
        series = Series.of(terms, workload, self.attribute, self.strategy, self.recorded)
        steps = series.plan.strategy.steps
        if self.step is not None and not 0 <= self.step < steps:
            raise ConfigError(f"step {self.step + 1} of a series of {steps:,} steps; want 1 to {steps:,}")
        return series
