"""Gaussian+PGM: additive noise on the marginals of a workload, and one graphical model for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
from numpy.random import Generator

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.pgm.fit import Fitting, fit_model
from dpcore.estimation.pgm.junction_tree import JunctionTree
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.terms import Terms
from dpcore.measurement import Measurement, mean_absolute_noise
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS
from dpcore.mechanisms.api import Plan, Progress, Release, Step, silent
from dpcore.mechanisms.graphical import (
    CELLS_IN_MB,
    COPIES,
    check_model_size,
    clique_weights,
    rows_of,
    stddev_of,
    table_marginals,
    uniform_note,
)
from dpcore.queries import Marginals
from dpcore.strategies.allocation import weighted_shares
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

_ADVICE = "choose cliques that overlap less, a larger max_model_mb, or mechanism aim or clique_tree"


@final
@dataclass(frozen=True)
class GaussianPgm:
    """Adds noise to every marginal of the workload and fits one graphical model to all of them.

    The measured values are those of ``gaussian``, or under pure DP of ``laplace``; the model's answers agree with one
    another, none is negative, and there are synthetic rows. The junction tree holds every marginal of the workload, so
    that cliques that overlap much are refused. Products are answered from the marginals that they are read off.

    max_model_mb: Largest graphical model, in MiB of the tables of its junction tree.
    tolerance: How far from the optimum the fit may stop, in units a measured value whose own noise is worth 1/2.
    iterations: Most steps of the fit.

    Source: thesis of McKenna (2022), Table 5.1. The budget is split so that the weighted squared error of the measured
    values is least.
    """

    max_model_mb: float = 80.0
    tolerance: float = 1e-3
    iterations: int = 1000

    def plan(self, terms: Terms, workload: Workload) -> Plan:
        parts = list(self._parts(terms, workload))
        cells = self._cells(workload)
        steps = tuple(
            Step(f"measure {queries.description}", float(share), 1, stddev_of(terms, queries, share))
            for queries, share in parts
        )
        size = sum(queries.size for queries, _ in parts)
        absolute = sum(
            queries.size * mean_absolute_noise(terms.noise, terms.measure_scale(queries, share))
            for queries, share in parts
        )
        note = f"the measured values alone are off by {absolute / size:,.3g} counts a cell"
        notes = (note, *uniform_note(table_marginals(workload, "gaussian_pgm")))
        events = tuple(terms.measured(share) for _, share in parts)
        return Plan(steps, 0, 32 * size + 8 * workload.queries.size + COPIES * 8 * cells, None, notes, events)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        parts = list(self._parts(private.terms, workload))
        queries = table_marginals(workload, "gaussian_pgm")
        private.expect(queries)
        measured: list[Measurement] = []
        for part, share in parts:
            measured.append(private.measure(part, share))  # MEASURE
            progress(len(measured), len(parts) + 1)
        fitting = Fitting(spread=None, tolerance=self.tolerance, iterations=self.iterations)
        rows = rows_of(private.terms, queries.domain, measured)
        model = fit_model(queries.domain, measured, rows, fitting).model  # ESTIMATE
        progress(len(parts) + 1, len(parts) + 1)
        return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))

    def _parts(self, terms: Terms, workload: Workload) -> Iterator[tuple[Marginals, Fraction]]:
        """Each marginal with its share of the budget."""
        check_model_size(self.max_model_mb)
        if not (0 < self.tolerance <= 1 and self.iterations >= 1):
            asked = f"tolerance {self.tolerance:g}, iterations {self.iterations}"
            raise ConfigError(f"mechanism.{asked}; want 0 < tolerance <= 1, iterations >= 1")
        queries = table_marginals(workload, "gaussian_pgm")
        if queries.size > LARGEST_ANSWERS:
            raise DomainTooLargeError("the marginals of mechanism gaussian_pgm", queries.size, LARGEST_ANSWERS, _ADVICE)
        shares = weighted_shares(np.array(queries.sizes), clique_weights(workload, queries), terms.noise)
        for clique, share in zip(queries.cliques, shares, strict=True):
            yield queries.only([clique]), share

    def _cells(self, workload: Workload) -> int:
        """Cells of the model. Raises DomainTooLargeError where they are too many."""
        queries, largest = table_marginals(workload, "gaussian_pgm"), int(self.max_model_mb * CELLS_IN_MB)
        cells = JunctionTree.of(queries.domain, queries.cliques).cells
        if cells > largest:
            raise DomainTooLargeError("the model of mechanism gaussian_pgm", cells, largest, _ADVICE)
        return cells
