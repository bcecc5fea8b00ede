"""Gaussian+PGM: measures all marginals of a workload once and fits one graphical model to the measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, final

import numpy as np
from numpy.random import Generator

from dpcore.errors import DomainTooLargeError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.confidence.intervals import answers_with_intervals
from dpcore.estimation.graphical.fitting.fit import FitSettings, fit_model
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, mean_absolute_noise
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.shared.bounded_work import DEFAULT_MAX_WORK, BoundedWork, check_max_work
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
from dpcore.mechanisms.shared.predicted_seconds import (
    FROM_NOTHING,
    LEARNING,
    FitShape,
    answer_seconds,
    limit_notes,
    run_seconds,
)
from dpcore.mechanisms.shared.totals import public_total
from dpcore.queries import Marginals, Products
from dpcore.strategies.allocation import weighted_shares
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

# The prior is learnt, as is sound for marginals that no answer selected. The fit stops once the optimality gap is far
# below the noise, or after 1000 calls of the marginal oracle.
_FIT_SETTINGS: Final = FitSettings(prior_scale=None, tolerance=1e-3, iterations=1000, empirical_bayes=True, patience=10)
_MEASURED: Final = 0.3  # Of the progress, once everything is measured.
_FITTED: Final = 0.9  # Of the progress, if the fit comes to its limit.
_ADVICE: Final = (
    "choose cliques that overlap less, a smaller workload.marginals.max_cells, which leaves out large marginals, a "
    "larger max_model_mb, or mechanism aim or clique_tree"
)


@final
@dataclass(frozen=True)
class GaussianPgm:
    """Measures all marginals of the workload at once and fits one graphical model to them.

    Under Gaussian noise the mechanism measures the residuals of the marginals in one call, with the precisions that
    minimise the weighted sum of absolute errors; what several marginals have in common is thus measured once. Under
    pure DP, or if an attribute has too many values for residuals, it measures the marginals one by one, with the same
    values as ``laplace`` or ``gaussian``. The model's answers are consistent and non-negative, and there are synthetic
    rows. The junction tree contains every marginal of the workload, so that workloads whose cliques overlap too much
    are refused. Products are computed from the model's marginals.

    Answers of marginals have 95 % intervals around the least-squares estimate; ``Release`` describes how to get
    intervals for further marginals.

    max_model_mb: Maximum size of the tables of the model's junction tree, in MiB. The default is MAX-SIZE of McKenna's
        thesis, as for AIM.
    max_work: Limit of the work of a run, in units of 2^30 cells that are read; a unit takes about a second. The fit
        stops there, perhaps further from its optimum.

    Guarantee: the budget's, by composition of the kernel's measurements.

    Source: thesis of McKenna (2022), Table 5.1; Xiao, He, Zhang and Kifer (2023) for residuals. Where marginals are
    measured one by one, the split of the budget minimises the weighted squared error of the measured values.
    """

    traits: ClassVar[Traits] = Traits(
        name="gaussian_pgm",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        graphical=True,
        mostly_gaussian=True,
        recommended_for="a whole workload of marginals with few cells, measured at once",
    )

    max_model_mb: float = 80.0
    max_work: float = DEFAULT_MAX_WORK

    retired: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("tolerance", "iterations"), "it is a constant now; leave it out"
    )

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        design = self._design(terms, workload)
        note = f"the measured values alone have an expected absolute error of {design.error:,.3g} counts per cell"
        size = sum(queries.size for queries, _ in design.parts)
        memory = 32 * size + 8 * workload.queries.size + COPIES * 8 * design.tree.cells
        events = tuple(terms.measured(share) for _, share in design.parts)
        domain, cliques, cells = design.marginals.domain, design.marginals.cliques, workload.queries.size
        shape = FitShape.of_cliques(domain, cliques, design.tree.cells, len(design.tree.nodes))
        fits = shape.reads(LEARNING) + shape.reads(FROM_NOTHING)
        other = shape.setup_seconds + 2 * answer_seconds(len(cliques), cells, shape.cells)
        seconds = run_seconds(fits, other, self.max_work)
        notes = (note, *uniform_note(design.marginals), *limit_notes(fits, other, self.max_work))
        return Plan(design.steps, 0, memory, None, notes, events, seconds)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        design = self._design(private.terms, workload)
        if len(design.parts) > 1:  # All residuals are one call, which needs no announcement to read the data once.
            private.expect(design.marginals)
        measured, work = list[Measurement](), BoundedWork(self.max_work, progress)
        for queries, share in design.parts:
            measured.append(private.measure(queries, share))  # MEASURE
            work.report(_MEASURED * len(measured) / len(design.parts))
        domain = design.marginals.domain
        rows = rows_of(private.terms, domain, measured)
        meter = work.enter(f"fit of {len(design.marginals.cliques):,} marginals", until=_FITTED)
        model = fit_model(domain, measured, rows, _FIT_SETTINGS, meter=meter).model  # ESTIMATE
        work.enter("answers and their intervals")
        release = self._release(private.terms, workload, model, measured)
        work.report(1.0)
        return release

    def _release(
        self, terms: PrivacyTerms, workload: Workload, model: GraphicalModel, measured: list[Measurement]
    ) -> Release:
        """The answers of the model; those of marginals have intervals."""
        if not isinstance(workload.queries, Marginals):
            return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))
        public, batch = public_total(terms), (0, len(measured))
        answers = answers_with_intervals(
            model, measured, (), workload.queries, rows=None if public is None else round(public), batch=batch
        )
        return Release(workload, answers, model, tuple(measured), batch=batch)

    def _design(self, terms: PrivacyTerms, workload: Workload) -> _Design:
        """What to measure, from public facts alone: residuals where possible, else the marginals one by one.

        Raises DomainTooLargeError if the marginals or the model have too many cells.
        """
        check_model_size(self.max_model_mb)
        check_max_work(self.max_work)
        queries = table_marginals(workload, "gaussian_pgm")
        if queries.size > LARGEST_ANSWERS:
            raise DomainTooLargeError("the marginals of mechanism gaussian_pgm", queries.size, LARGEST_ANSWERS, _ADVICE)
        max_cells = int(self.max_model_mb * CELLS_IN_MB)
        tree = JunctionTree.of(queries.domain, queries.cliques)
        if tree.cells > max_cells:
            raise DomainTooLargeError("the model of mechanism gaussian_pgm", tree.cells, max_cells, _ADVICE)
        weighted = Workload(queries, clique_weights(workload, queries))
        residuals = MeasuredResiduals.of(terms, weighted, error="absolute")
        if residuals is not None:
            part = (residuals.queries, Fraction(1))
            return _Design(queries, (part,), (residuals.step(terms),), residuals.absolute_error(terms), tree)
        shares = weighted_shares(np.array(queries.sizes), weighted.weights, terms.noise)
        parts = [(queries.only([clique]), share) for clique, share in zip(queries.cliques, shares, strict=True)]
        errors = [mean_absolute_noise(terms.noise, terms.measure_scale(marginal, share)) for marginal, share in parts]
        steps = [
            Step(f"measure {marginal.description}", float(share), 1, stddev_of(terms, marginal, share))
            for marginal, share in parts
        ]
        return _Design(queries, tuple(parts), tuple(steps), float(np.average(errors, weights=queries.sizes)), tree)


@dataclass(frozen=True)
class _Design:
    """The measurements and their consequences, from public facts alone.

    marginals: The marginals of the workload, each once.
    parts: The queries of each measurement, with its share of the budget.
    steps: The steps of the plan, one per measurement.
    error: Expected absolute error of a cell of the marginals, in counts, by least squares from the measured values.
    tree: The model's junction tree.
    """

    marginals: Marginals
    parts: tuple[tuple[Marginals | Products, Fraction], ...]
    steps: tuple[Step, ...]
    error: float
    tree: JunctionTree
