"""A one-shot mechanism: noisy errors of all candidates once, then the marginals that they select, then one fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Literal, final

import numpy as np
from numpy.random import Generator

from dpcore.errors import ConfigError
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.shared.marginal_selection import Design, expected, noisy_errors, select_marginals
from dpcore.mechanisms.shared.pgm_common import (
    CELLS_IN_MB,
    COPIES,
    check_model_size,
    check_shares,
    rows_of,
    stddev_of,
    table_marginals,
    uniform_note,
)
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

_TICKS: Final = 1000


@final
@dataclass(frozen=True)
class CliqueTree:
    """Measures the marginals that noisy errors of all pairs and triples select, all at once, and fits one model.

    The choice for thousands of marginals, or when run time matters: there are no rounds. One-way marginals are measured
    first; noisy errors, asked once, say how far all pairs and triples are from independence; those that lower the
    workload's error most are measured together. Thousands of candidates over a hundred attributes take minutes.

    max_model_mb: Largest size of the junction tree of the chosen cliques, in MiB. A larger model is a little more
        accurate and takes more time to fit.
    order: Largest number of attributes of a candidate, 2 or 3; candidates are the workload's cliques and their parts.
        With 3, triples are asked for where the noise of their errors is below 5 % of the rows, pairs where it is below
        30 %.
    start_share: Share of the budget for the first measurement of all one-way marginals.
    start_error: The one-way marginals are measured once more where their expected absolute error is above this fraction
        of the rows.
    most_start_share: Share of both measurements of the one-way marginals, at most.
    errors_share: Share of the budget for the noisy errors; where pairs and triples are asked, each gets half.
    strength: How strongly the fit leans towards independent attributes, 1 / prior_scale of ``FitSettings``.

    Source: this project; the outline, noisy errors of all candidates and a closed-form split of the budget, is that of
    SWIFT in dpsynth. ``choose_cliques`` has the choice and the split.
    """

    traits: ClassVar[Traits] = Traits(
        name="clique_tree",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        mostly_gaussian=True,
        recommended_for="thousands of marginals, or when run time matters",
    )

    max_model_mb: float = 8.0
    order: Literal[2, 3] = 3
    start_share: float = 0.06
    start_error: float = 0.03
    most_start_share: float = 0.4
    errors_share: float = 0.1
    strength: float = 0.2

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        design = self._design(workload)
        share = Fraction(self.start_share)
        first = max(stddev_of(terms, design.marginal(clique), share) for clique, share in design.starts(share))
        start = Step("measure one-way marginals", self.start_share, len(design.one_way), first)
        errors = Step("measure errors of pairs and triples", self.errors_share, self.order - 1)
        rest = Step("measure the selected cliques", 1 - self.start_share - self.errors_share, 1)
        memory = 40 * design.cells + int(COPIES * 8 * self.max_model_mb * CELLS_IN_MB)
        notes = ("how many cliques are measured follows from noisy errors", *uniform_note(design.queries))
        return Plan((start, errors, rest), 0, memory, None, notes)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        design = self._design(workload)
        private.expect(design.queries.only([*design.one_way, *design.candidates]))
        measured, fit = self._start(private, design)
        errors = noisy_errors(private, design, fit, Fraction(self.errors_share))
        progress(_told(private), _TICKS)
        budget = private.remaining_share
        chosen = select_marginals(private.terms, design, measured, fit, errors, budget, self.max_model_mb)  # SELECT
        measured += [private.measure(queries, share) for queries, share in chosen]  # MEASURE
        model = self._fitted(private.terms, design, measured, polish=True).model  # ESTIMATE
        progress(_TICKS, _TICKS)
        return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))

    def _start(self, private: PrivateStatistics, design: Design) -> tuple[list[Measurement], GraphicalFit]:
        """One-way marginals, once more where rows are few for their noise."""
        first = Fraction(self.start_share)
        measured = [private.measure(design.marginal(clique), share) for clique, share in design.starts(first)]
        fit = self._fitted(private.terms, design, measured)
        errors = [
            expected(fit, clique, measurement.stddev)
            for clique, measurement in zip(design.one_way, measured, strict=True)
        ]
        wanted = first * Fraction(float(np.mean(errors)) / (fit.total * self.start_error)) ** 2
        more = min(Fraction(self.most_start_share), wanted) - first
        if more > 0:
            measured += [private.measure(design.marginal(clique), share) for clique, share in design.starts(more)]
            fit = self._fitted(private.terms, design, measured)
        return measured, fit

    def _fitted(
        self, terms: PrivacyTerms, design: Design, measured: Sequence[Measurement], polish: bool = False
    ) -> GraphicalFit:
        tolerance, iterations = (1e-3, 1000) if polish else (1e-2, 300)
        fitting = FitSettings(prior_scale=1 / self.strength, tolerance=tolerance, iterations=iterations)
        domain = design.queries.domain
        return fit_model(domain, measured, rows_of(terms, domain, measured), fitting)

    def _design(self, workload: Workload) -> Design:
        """What may be asked, from public facts alone. Raises ConfigError for settings without a meaning."""
        check_model_size(self.max_model_mb)
        check_shares([("most_start_share", self.most_start_share), ("errors_share", self.errors_share)])
        if not 0 < self.start_share <= self.most_start_share:
            given = f"mechanism.start_share {self.start_share:g}, most_start_share {self.most_start_share:g}"
            raise ConfigError(f"{given}; want 0 < start_share <= most_start_share")
        if self.order not in (2, 3) or not (self.start_error > 0 and self.strength > 0):
            given = f"mechanism.order {self.order}, start_error {self.start_error:g}, strength {self.strength:g}"
            raise ConfigError(f"{given}; want order 2 or 3, start_error > 0, strength > 0")
        return Design(table_marginals(workload, "clique_tree"), workload, self.order)


def _told(private: PrivateStatistics) -> int:
    return int((_TICKS - 1) * (1 - private.remaining_share))
