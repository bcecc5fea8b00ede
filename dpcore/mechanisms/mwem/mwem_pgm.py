"""MWEM+PGM: the exponential mechanism selects marginals, and a graphical model follows their measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import Clique
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.graphical.fitting.expected_error import expected_errors
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.estimation.graphical.structure.triangulation import Triangulation
from dpcore.kernel.events import Event
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import L1Error
from dpcore.measurement import Measurement, mean_absolute_noise, noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.shared.pgm_common import (
    CELLS_IN_MB,
    COPIES,
    LARGEST_PENALTY,
    LAST_WORK,
    ROUND_WORK,
    check_model_size,
    check_shares,
    clique_weights,
    modelled,
    stddev_of,
    table_marginals,
    uniform_note,
)
from dpcore.mechanisms.shared.totals import row_total, total_share
from dpcore.queries import Marginals
from dpcore.uncertainty import of_model
from dpcore.workload import Workload, relative


@final
@dataclass(frozen=True)
class MwemPgm:
    """Selects the worst answered marginal of the workload, measures it, fits a graphical model to all measurements.

    rounds: T, selections and measurements; None for the number of modelled attributes, as published code has it. Twice
        as many err less where the workload has many marginals, and more where it has few.
    start: What the first selection compares with: the "uniform" distribution, as printed, or the model of noisy
        "one_way" marginals.
    start_share: Share of the budget for those.
    total_share: Share for the number of rows where it is private.
    select_share: Part of each round that selects; the rest measures. 1/2 as printed: epsilon^2 / 8 = 1 / (2 sigma^2).
    size_penalty: Taken off a marginal's score: its number of "cells", as printed, the "noise" that its measurement is
        expected to have, cells times mean absolute noise, or what the fit is "expected" to leave of that.
    max_model_mb: Largest junction tree, in MiB. As printed nothing bounds the model; here marginals with which it would
        pass this size are no candidates.
    strength: How far fits lean towards independent attributes, 1 / prior_scale of ``FitSettings``. Near 0 they minimise
        the squared loss, as printed and as MWEM's multiplicative weights do, but where noise makes values contradict
        each other they trust those more that independent attributes expect to be large. 1e-3 is near enough; far below
        it fits may end before they converge.

    Source: McKenna (2022), section 4.5 and Algorithm 5. The number of rows, which Algorithm 5 takes as known, is public
    or measured first. Products are answered from the marginals that they are read off.
    """

    traits: ClassVar[Traits] = Traits(
        name="mwem_pgm",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        mostly_gaussian=True,
        recommended_for="comparison with the published mechanism",
    )

    rounds: int | None = None
    start: Literal["uniform", "one_way"] = "one_way"
    start_share: float = 0.2
    total_share: float = 0.02
    select_share: float = 0.5
    size_penalty: Literal["cells", "noise", "expected"] = "expected"
    max_model_mb: float = 80.0
    strength: float = 0.2

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        self._check()
        queries, shares = table_marginals(workload, "mwem_pgm"), self._shares(terms, workload)
        rounds, first = shares.rounds, self._first(queries)
        _candidates(queries, Triangulation.of(queries.domain, first), self._largest)
        part = queries.only(queries.cliques[:1])
        steps = [
            Step("select", float(shares.select * rounds), rounds),
            Step("measure", float(shares.measure * rounds), rounds, stddev_of(terms, part, shares.measure)),
        ]
        if first:
            each = shares.start / len(first)
            stddev = stddev_of(terms, queries.only(first[:1]), each)
            steps.insert(0, Step("measure one-way marginals", float(shares.start), len(first), stddev))
        if shares.total:
            stddev = stddev_of(terms, queries.only([()]), shares.total)
            steps.insert(0, Step("measure rows", float(shares.total), 1, stddev))
        memory = 40 * queries.size + int(COPIES * 8 * self._largest)
        return Plan(tuple(steps), rounds, memory, None, uniform_note(queries), shares.events(terms, len(first)))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        queries, shares = table_marginals(workload, "mwem_pgm"), self._shares(private.terms, workload)
        first, weights = self._first(queries), clique_weights(workload, queries)
        private.expect(queries.only([*queries.cliques, *first, ()]))
        total, total_measured = row_total(private, queries.domain, shares.total or Fraction(1))
        measured = [private.measure(queries.only([clique]), shares.start / len(first)) for clique in first]
        structure = Triangulation.of(queries.domain, first)
        fit = self._fitted(queries, measured, total, None) if measured else None
        for done in range(shares.rounds):
            indices = _candidates(queries, structure, self._largest)
            candidates = queries.only([queries.cliques[index] for index in indices])
            estimate = _estimate(candidates, fit, total)
            penalties = self._penalties(private.terms, candidates, shares, estimate)
            score = L1Error(estimate, relative(weights[indices]), penalties)
            clique = candidates.cliques[private.select(candidates, score, shares.select)]  # SELECT
            measured.append(private.measure(queries.only([clique]), shares.measure))  # MEASURE
            structure = structure.with_clique(clique)
            fit = self._fitted(queries, measured, total, fit, last=done + 1 == shares.rounds)  # ESTIMATE
            progress(done + 1, shares.rounds)
        assert fit is not None
        return Release(workload, of_model(fit.model.answer(workload.queries)), fit.model, (*total_measured, *measured))

    @property
    def _largest(self) -> float:
        """Cells of the largest junction tree."""
        return self.max_model_mb * CELLS_IN_MB

    def _first(self, queries: Marginals) -> list[Clique]:
        """What is measured to start from."""
        return [] if self.start == "uniform" else [(name,) for name in modelled(queries)]

    def _penalties(
        self, terms: PrivacyTerms, candidates: Marginals, shares: _Shares, estimate: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Float64 [candidates], in counts."""
        cells = np.array(candidates.sizes, dtype=np.float64)
        if self.size_penalty == "cells":
            return cells
        scale = terms.measure_scale(candidates.only(candidates.cliques[:1]), shares.measure)
        if self.size_penalty == "noise":
            return np.minimum(cells * mean_absolute_noise(terms.noise, scale), LARGEST_PENALTY)
        left = expected_errors(estimate, noise_stddev(terms.noise, scale))
        starts = np.cumsum([0, *candidates.sizes[:-1]])
        return np.minimum(np.add.reduceat(left, starts), LARGEST_PENALTY)

    def _fitted(
        self,
        queries: Marginals,
        measured: Sequence[Measurement],
        total: float,
        warm: GraphicalFit | None,
        last: bool = False,
    ) -> GraphicalFit:
        prior_scale = 1 / self.strength
        tolerance, iterations, work = (1e-3, 1000, LAST_WORK) if last else (1e-2, 300, ROUND_WORK)
        settings = FitSettings(prior_scale, tolerance, iterations, work)
        return fit_model(queries.domain, measured, total, settings, warm)

    def _shares(self, terms: PrivacyTerms, workload: Workload) -> _Shares:
        queries = table_marginals(workload, "mwem_pgm")
        rounds = len(modelled(queries)) if self.rounds is None else self.rounds
        total = total_share(terms, Fraction(self.total_share))
        start = Fraction(self.start_share) if self.start == "one_way" else Fraction(0)
        a_round = (1 - total - start) / rounds
        select = a_round * Fraction(self.select_share)
        return _Shares(rounds, total, start, select, a_round - select)

    def _check(self) -> None:
        check_model_size(self.max_model_mb)
        check_shares([("start_share", self.start_share), ("total_share", self.total_share)])
        if self.rounds is not None and self.rounds < 1:
            raise ConfigError(f"mechanism.rounds is {self.rounds}; want rounds >= 1")
        if not (0 < self.select_share < 1 and self.strength > 0):
            given = f"mechanism.select_share {self.select_share:g}, strength {self.strength:g}"
            raise ConfigError(f"{given}; want 0 < select_share < 1, strength > 0")


@dataclass(frozen=True)
class _Shares:
    """Shares of the whole budget for each kernel call, but for ``start``, which all its calls take together."""

    rounds: int
    total: Fraction
    start: Fraction
    select: Fraction
    measure: Fraction

    def events(self, terms: PrivacyTerms, starts: int) -> tuple[Event, ...]:
        """All kernel calls; only which marginal is measured depends on answers."""
        events = [terms.selected(self.select, self.rounds), terms.measured(self.measure, self.rounds)]
        if starts:
            events.append(terms.measured(self.start / starts, starts))
        if self.total:
            events.append(terms.measured(self.total))
        return tuple(events)


def _candidates(queries: Marginals, structure: Triangulation, cells: float) -> list[int]:
    """Places of the marginals with which the junction tree has at most so many cells: a public choice.

    One that was measured stays a candidate. Raises DomainTooLargeError where there is none, which only the structure
    that a run starts from can lead to.
    """
    fitting = [index for index, clique in enumerate(queries.cliques) if structure.cells_with(clique) <= cells]
    if not fitting:
        least = min(structure.cells_with(clique) for clique in queries.cliques)
        advice = "choose a workload with smaller marginals, or a larger max_model_mb"
        raise DomainTooLargeError("the model of mechanism mwem_pgm", least, int(cells), advice)
    return fitting


def _estimate(candidates: Marginals, fit: GraphicalFit | None, total: float) -> NDArray[np.float64]:
    """What the model, or the uniform distribution, expects in each cell."""
    if fit is not None:
        return total * fit.calibrated.vector(candidates.cliques)
    sizes = np.array(candidates.sizes)
    return np.repeat(total / sizes, sizes)
