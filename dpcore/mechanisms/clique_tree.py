"""A one-shot mechanism: noisy errors of all candidates, then the marginals that these errors select, then one fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from dpcore.mechanisms.shared.marginal_selection import Design, expected_l1_error, noisy_errors, select_marginals
from dpcore.mechanisms.shared.pgm_common import (
    CELLS_IN_MB,
    COPIES,
    check_model_size,
    rows_of,
    stddev_of,
    table_marginals,
    uniform_note,
)
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

_TICKS: Final = 1000  # Progress is reported in thousandths.


@dataclass(frozen=True)
class CliqueTreeConstants:
    """How ``CliqueTree`` divides its budget, in parts of the whole, and how strongly it regularises its fits.

    The values are those of AIM's one-way marginals and batch; ``dpcore/decisions/aim.md`` and ``fits.md`` have the
    measurements.

    start_share: Share of the first measurement of all one-way marginals.
    start_error: The one-way marginals are measured a second time if their mean expected L1 error exceeds this fraction
        of the number of rows.
    max_start_share: Maximum share of both measurements of the one-way marginals together.
    errors_share: Share of the noisy errors; pairs and triples get half of it each where both are requested.
    prior_scale: Scale of the prior that draws a fit towards independent attributes, as in ``FitSettings``.
    """

    start_share: float = 0.06
    start_error: float = 0.03
    max_start_share: float = 0.4
    errors_share: float = 0.1
    prior_scale: float = 5.0


@final
@dataclass(frozen=True)
class CliqueTree:
    """Measures the marginals that noisy errors of all pairs and triples select, all at once, and fits one model.

    Choose it for thousands of marginals, or when run time matters: there are no adaptive rounds. First it measures all
    one-way marginals. Then it requests noisy errors once, which estimate how far each pair and triple is from
    independence. It measures the cliques that lower the expected error of the workload most, and fits one graphical
    model to all measurements. Thousands of candidates over a hundred attributes take minutes.

    max_model_mb: Maximum size of the junction tree of the selected cliques, in MiB. A larger model is slightly more
        accurate and takes longer to fit.
    order: Maximum number of attributes of a candidate, 2 or 3; the candidates are the subsets of the workload's
        cliques. With 3, errors of triples are requested if their noise is below 5 % of the number of rows, and errors
        of pairs if it is below 30 %.

    Guarantee: the budget's, by adaptive composition of the kernel's measurements.

    Source: this project. The outline (noisy errors of all candidates, then a closed-form split of the budget) is that
    of SWIFT in dpsynth; ``choose_cliques`` has the selection and the split.
    """

    traits: ClassVar[Traits] = Traits(
        name="clique_tree",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        graphical=True,
        mostly_gaussian=True,
        recommended_for="thousands of marginals, or when run time matters",
    )

    max_model_mb: float = 8.0
    order: Literal[2, 3] = 3
    constants: CliqueTreeConstants = field(default=CliqueTreeConstants(), init=False, repr=False)

    retired: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("start_share", "start_error", "most_start_share", "errors_share", "strength"),
        "it is a constant now; leave it out",
    )

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        design = self._design(workload)
        start_share, errors_share = self.constants.start_share, self.constants.errors_share
        shares = design.one_way_shares(Fraction(start_share))
        max_stddev = max(stddev_of(terms, design.marginal(clique), share) for clique, share in shares)
        start = Step("measure one-way marginals", start_share, len(design.one_way), max_stddev)
        errors = Step("measure errors of pairs and triples", errors_share, self.order - 1)
        rest = Step("measure the selected cliques", 1 - start_share - errors_share, 1)
        memory = 40 * design.cells + int(COPIES * 8 * self.max_model_mb * CELLS_IN_MB)
        notes = ("the noisy errors decide how many cliques are measured", *uniform_note(design.queries))
        return Plan((start, errors, rest), 0, memory, None, notes)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        design = self._design(workload)
        private.expect(design.queries.only([*design.one_way, *design.candidates]))
        measured, fit = self._measure_one_way(private, design)
        errors = noisy_errors(private, design, fit, Fraction(self.constants.errors_share))  # MEASURE
        progress(_ticks_spent(private), _TICKS)
        budget = private.remaining_share
        selected = select_marginals(private.terms, design, measured, fit, errors, budget, self.max_model_mb)  # SELECT
        measured += [private.measure(queries, share) for queries, share in selected]  # MEASURE
        model = self._fit(private.terms, design, measured, final=True).model  # ESTIMATE
        progress(_TICKS, _TICKS)
        return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))

    def _measure_one_way(self, private: PrivateStatistics, design: Design) -> tuple[list[Measurement], GraphicalFit]:
        """Measures the one-way marginals, and measures them again if their expected errors are large.

        The noise falls with the square root of the share, so the second share grows with the square of the error.
        """
        first_share = Fraction(self.constants.start_share)
        measured = _measure_each_one_way(private, design, first_share)  # MEASURE
        fit = self._fit(private.terms, design, measured)  # ESTIMATE
        errors = [
            expected_l1_error(fit, clique, measurement.stddev)
            for clique, measurement in zip(design.one_way, measured, strict=True)
        ]
        relative_error = float(np.mean(errors)) / (fit.total * self.constants.start_error)
        target_share = first_share * Fraction(relative_error) ** 2
        second_share = min(Fraction(self.constants.max_start_share), target_share) - first_share
        if second_share > 0:
            measured += _measure_each_one_way(private, design, second_share)  # MEASURE
            fit = self._fit(private.terms, design, measured)  # ESTIMATE
        return measured, fit

    def _fit(
        self, terms: PrivacyTerms, design: Design, measured: Sequence[Measurement], final: bool = False
    ) -> GraphicalFit:
        """Fits the model: roughly before the selection, more precisely at the end."""
        tolerance, iterations = (1e-3, 1000) if final else (1e-2, 300)
        settings = FitSettings(self.constants.prior_scale, tolerance, iterations)
        domain = design.queries.domain
        return fit_model(domain, measured, rows_of(terms, domain, measured), settings)

    def _design(self, workload: Workload) -> Design:
        """The one-way marginals and the candidates, from public facts alone. Raises ConfigError for bad settings."""
        check_model_size(self.max_model_mb)
        if self.order not in (2, 3):
            raise ConfigError(f"mechanism.order is {self.order}; want 2 or 3")
        return Design(table_marginals(workload, "clique_tree"), workload, self.order)


def _measure_each_one_way(private: PrivateStatistics, design: Design, share: Fraction) -> list[Measurement]:
    return [private.measure(design.marginal(clique), part) for clique, part in design.one_way_shares(share)]


def _ticks_spent(private: PrivateStatistics) -> int:
    return int((_TICKS - 1) * (1 - private.remaining_share))
