"""Gaussian+PGM: noisy marginals of a whole workload, and one graphical model fitted to all of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

import numpy as np
from numpy.random import Generator

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.graphical.confidence.intervals import answers_with_intervals
from dpcore.estimation.graphical.fitting.fit import FitSettings, fit_model
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, mean_absolute_noise
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.mechanisms.shared.pgm_common import (
    CELLS_IN_MB,
    COPIES,
    check_model_size,
    clique_weights,
    rows_of,
    stddev_of,
    table_marginals,
    uniform_note,
)
from dpcore.mechanisms.shared.totals import public_total
from dpcore.queries import Marginals, Products
from dpcore.strategies.allocation import weighted_shares
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

_ADVICE = "choose cliques that overlap less, a larger max_model_mb, or mechanism aim or clique_tree"


@final
@dataclass(frozen=True)
class GaussianPgm:
    """Measures all marginals of the workload at once and fits one graphical model to them.

    Under Gaussian noise the residuals of the marginals are measured, in one call, with the least weighted sum of
    absolute errors that residuals can have: what marginals share is measured once. Under pure DP, or where an attribute
    has too many values for residuals, the measured values are those of ``laplace`` or ``gaussian``. The model's answers
    agree with one another, none is negative, and there are synthetic rows. The junction tree holds every marginal of
    the workload, so that cliques that overlap much are refused. Products are answered from the marginals that they are
    read off.

    Answers of marginals have intervals at 95 %, around the least-squares estimate; ``Release`` says how to ask for
    more.

    max_model_mb: Largest graphical model, in MiB of the tables of its junction tree.
    tolerance: How far from the optimum the fit may stop, in units a measured value whose own noise is worth 1/2.
    iterations: Most steps of the fit.

    Source: thesis of McKenna (2022), Table 5.1; Xiao, He, Zhang and Kifer (2023) for residuals. Marginals measured one
    by one split the budget so that the weighted squared error of the measured values is least.
    """

    traits: ClassVar[Traits] = Traits(
        name="gaussian_pgm",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        mostly_gaussian=True,
        recommended_for="a whole workload of marginals with few cells, measured at once",
    )

    max_model_mb: float = 80.0
    tolerance: float = 1e-3
    iterations: int = 1000

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        measured_queries = self._asked(terms, workload)
        note = f"the measured values alone are off by {measured_queries.error:,.3g} counts a cell"
        size = sum(queries.size for queries, _ in measured_queries.parts)
        memory = 32 * size + 8 * workload.queries.size + COPIES * 8 * measured_queries.cells
        events = tuple(terms.measured(share) for _, share in measured_queries.parts)
        return Plan(measured_queries.steps, 0, memory, None, (note, *uniform_note(measured_queries.marginals)), events)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        measured_queries = self._asked(private.terms, workload)
        if len(measured_queries.parts) > 1:  # Residuals are asked for in one pass as they are.
            private.expect(measured_queries.marginals)
        measured: list[Measurement] = []
        for queries, share in measured_queries.parts:
            measured.append(private.measure(queries, share))  # MEASURE
            progress(len(measured), len(measured_queries.parts) + 1)
        fitting = FitSettings(prior_scale=None, tolerance=self.tolerance, iterations=self.iterations)
        rows = rows_of(private.terms, measured_queries.marginals.domain, measured)
        model = fit_model(measured_queries.marginals.domain, measured, rows, fitting).model  # ESTIMATE
        progress(len(measured_queries.parts) + 1, len(measured_queries.parts) + 1)
        if not isinstance(workload.queries, Marginals):
            return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))
        public, batch = public_total(private.terms), (0, len(measured))
        answers = answers_with_intervals(
            model, measured, (), workload.queries, rows=None if public is None else round(public), batch=batch
        )
        return Release(workload, answers, model, tuple(measured), batch=batch)

    def _asked(self, terms: PrivacyTerms, workload: Workload) -> _Asked:
        """From public facts alone. Raises DomainTooLargeError where the answers or the model are too large."""
        check_model_size(self.max_model_mb)
        if not (0 < self.tolerance <= 1 and self.iterations >= 1):
            measured_queries = f"tolerance {self.tolerance:g}, iterations {self.iterations}"
            raise ConfigError(f"mechanism.{measured_queries}; want 0 < tolerance <= 1, iterations >= 1")
        queries = table_marginals(workload, "gaussian_pgm")
        if queries.size > LARGEST_ANSWERS:
            raise DomainTooLargeError("the marginals of mechanism gaussian_pgm", queries.size, LARGEST_ANSWERS, _ADVICE)
        largest, cells = int(self.max_model_mb * CELLS_IN_MB), JunctionTree.of(queries.domain, queries.cliques).cells
        if cells > largest:
            raise DomainTooLargeError("the model of mechanism gaussian_pgm", cells, largest, _ADVICE)
        weighted = Workload(queries, clique_weights(workload, queries))
        residuals = MeasuredResiduals.of(terms, weighted, error="absolute")
        if residuals is not None:
            whole = (residuals.queries, Fraction(1))
            return _Asked(queries, (whole,), (residuals.step(terms),), residuals.absolute_error(terms), cells)
        shares = weighted_shares(np.array(queries.sizes), weighted.weights, terms.noise)
        parts = [(queries.only([clique]), share) for clique, share in zip(queries.cliques, shares, strict=True)]
        noise = [mean_absolute_noise(terms.noise, terms.measure_scale(part, share)) for part, share in parts]
        steps = [
            Step(f"measure {part.description}", float(share), 1, stddev_of(terms, part, share)) for part, share in parts
        ]
        return _Asked(queries, tuple(parts), tuple(steps), float(np.average(noise, weights=queries.sizes)), cells)


@dataclass(frozen=True)
class _Asked:
    """What is measured, with shares of the budget.

    marginals: Those that are answered. steps: What a plan says of the parts.
    error: Expected absolute error of a cell of the marginals, by least squares from the measured values.
    cells: Of the model.
    """

    marginals: Marginals
    parts: tuple[tuple[Marginals | Products, Fraction], ...]
    steps: tuple[Step, ...]
    error: float
    cells: int
