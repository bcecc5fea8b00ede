"""MWEM+PGM: the exponential mechanism selects marginals, and a graphical model is fitted to their measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Literal, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.graphical.fitting.expected_error import expected_errors
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.estimation.graphical.fitting.work import SECONDS_PER_UNIT, UNIT, WorkMeter
from dpcore.estimation.graphical.structure.triangulation import Triangulation
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import L1Error
from dpcore.measurement import Measurement, mean_absolute_noise, noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Traits, check_profile, silent
from dpcore.mechanisms.mwem.profile import MWEM_PGM, MwemPgmProfile
from dpcore.mechanisms.mwem.shares import Shares
from dpcore.mechanisms.shared.bounded_work import DEFAULT_MAX_WORK, BoundedWork, check_max_work
from dpcore.mechanisms.shared.pgm_common import (
    CELLS_IN_MB,
    COPIES,
    LARGEST_PENALTY,
    LAST_WORK,
    ROUND_WORK,
    check_model_size,
    clique_weights,
    modelled,
    table_marginals,
    uniform_note,
)
from dpcore.mechanisms.shared.predicted_seconds import (
    FROM_NOTHING,
    IN_A_ROUND,
    FitShape,
    answer_seconds,
    limit_notes,
    reads_of,
    run_seconds,
    scoring_reads,
)
from dpcore.mechanisms.shared.totals import row_total
from dpcore.queries import Marginals
from dpcore.uncertainty import of_model
from dpcore.workload import Workload, relative

_ROUNDS: Final = 0.5  # Part of the work that all fits but the last may take.
_FIT: Final = 0.25  # Part of what then remains of it that one of these fits may take.


@final
@dataclass(frozen=True)
class MwemPgm:
    """Selects the marginal that the model answers worst, measures it, and fits a graphical model to all measurements.

    rounds: T in the thesis, the number of selections and measurements, at least 1. By default it is the number of
        attributes that the workload names, as in published code. Twice as many give smaller errors for workloads of
        many marginals, and larger ones for workloads of few.
    max_model_mb: Size limit of the junction tree in MiB, above 0. A marginal with which the tree would be larger is not
        a candidate. Algorithm 5 has no limit; the default is that of AIM.
    profile: "default", or "published" for Algorithm 5 as printed: a uniform start, scores that subtract the number of
        cells, and fits near the least squared error.
    max_work: Limit of the work of a run, in units of 2^30 cells that are read; a unit takes about a second. Fits stop
        there, perhaps further from their optimum, and the last fit gets at least half of it.

    Guarantee: the budget's, by adaptive composition of the kernel's selections and measurements.

    Source: McKenna (2022), section 4.5 and Algorithm 5. The number of rows, which Algorithm 5 takes as known, is public
    or measured first. Prefixes and ranges are answered from the marginals that contain them.
    """

    traits: ClassVar[Traits] = Traits(
        name="mwem_pgm",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        graphical=True,
        mostly_gaussian=True,
        recommended_for="comparison with the published mechanism",
    )

    rounds: int | None = None
    max_model_mb: float = 80.0
    profile: Literal["default", "published"] = "default"
    max_work: float = DEFAULT_MAX_WORK

    retired: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("start", "start_share", "total_share", "select_share", "size_penalty", "strength"),
        "it is a constant of a profile; leave it out, or write mechanism.profile: published",
    )

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        self._check()
        queries = table_marginals(workload, "mwem_pgm")
        shares, start_queries = self._shares(terms, queries), self._start_queries(queries)
        _candidates(queries, _start_structure(queries, start_queries), self._max_cells)
        candidate = queries.only(queries.cliques[:1])
        steps = shares.steps(terms, queries.domain, self._profile.start, start_queries, candidate)
        memory = 40 * queries.size + int(COPIES * 8 * self._max_cells)
        events = shares.events(terms, len(start_queries))
        fits, other = self._predicted(queries, shares.rounds)
        notes = (*uniform_note(queries), *limit_notes(fits, other, self.max_work))
        seconds = run_seconds(fits, other, self.max_work)
        return Plan(steps, shares.rounds, memory, None, notes, events, seconds)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        queries = table_marginals(workload, "mwem_pgm")
        shares, start_queries = self._shares(private.terms, queries), self._start_queries(queries)
        weights = clique_weights(workload, queries)
        private.expect(queries.only([*queries.cliques, *(part.cliques[0] for part in start_queries), ()]))
        total, total_measured = row_total(private, queries.domain, shares.total or Fraction(1))
        measured = [private.measure(part, shares.start / len(start_queries)) for part in start_queries]
        structure = _start_structure(queries, start_queries)
        work = BoundedWork(self.max_work, progress)
        meter, rounds_meter = work.enter("one-way marginals"), work.meter.part(_ROUNDS)
        fit = self._fit(queries, measured, total, rounds_meter.part(_FIT), None) if measured else None
        for done in range(shares.rounds):
            work.enter("rounds", f"{done:,} of {shares.rounds:,} done")
            indices = _candidates(queries, structure, self._max_cells)
            candidates = queries.only([queries.cliques[index] for index in indices])
            estimate = _estimate(candidates, fit, total)
            penalties = self._penalties(private.terms, candidates, shares, estimate)
            score = L1Error(estimate, relative(weights[indices]), penalties)
            clique = candidates.cliques[private.select(candidates, score, shares.select)]  # SELECT
            measured.append(private.measure(queries.only([clique]), shares.measure))  # MEASURE
            structure = structure.with_clique(clique)
            last = done + 1 == shares.rounds
            fit = self._fit(queries, measured, total, meter if last else rounds_meter.part(_FIT), fit, last)  # ESTIMATE
            progress(done + 1, shares.rounds)
        assert fit is not None
        return Release(workload, of_model(fit.model.answer(workload.queries)), fit.model, (*total_measured, *measured))

    def _predicted(self, queries: Marginals, rounds: int) -> tuple[float, float]:
        """The work of all fits in reads, and the CPU seconds of everything else."""
        names, mean_cells = len(modelled(queries)), queries.size / len(queries.cliques)
        # Each round adds a marginal to the tree, and late rounds add the cells of several.
        cells = min(self._max_cells, mean_cells * rounds**1.5)
        shape = FitShape(cells / 2, names, rounds, 2 * rounds + names, rounds * mean_cells)
        fits = rounds * shape.reads(IN_A_ROUND) + shape.reads(FROM_NOTHING)
        scored = scoring_reads(len(queries.cliques), queries.size, reads_of(cells / 2, names, rounds))
        other = rounds * (scored * SECONDS_PER_UNIT / UNIT + shape.setup_seconds)
        return fits, other + answer_seconds(len(queries.cliques), queries.size, cells)

    @property
    def _max_cells(self) -> float:
        """Size limit of the junction tree in cells."""
        return self.max_model_mb * CELLS_IN_MB

    def _start_queries(self, queries: Marginals) -> list[Marginals]:
        """What the start measures, one marginal each."""
        names = () if self._profile.start == "uniform" else modelled(queries)
        return [queries.only([(name,)]) for name in names]

    def _penalties(
        self, terms: PrivacyTerms, candidates: Marginals, shares: Shares, estimate: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """What the score of each candidate subtracts, float64 [candidates], in counts."""
        cells = np.array(candidates.sizes, dtype=np.float64)
        if self._profile.size_penalty == "cells":
            return cells
        scale = terms.measure_scale(candidates.only(candidates.cliques[:1]), shares.measure)
        if self._profile.size_penalty == "noise":
            return np.minimum(cells * mean_absolute_noise(terms.noise, scale), LARGEST_PENALTY)
        remaining_errors = expected_errors(estimate, noise_stddev(terms.noise, scale))
        starts = np.cumsum([0, *candidates.sizes[:-1]])
        return np.minimum(np.add.reduceat(remaining_errors, starts), LARGEST_PENALTY)

    def _fit(
        self,
        queries: Marginals,
        measured: Sequence[Measurement],
        total: float,
        meter: WorkMeter,
        warm: GraphicalFit | None,
        last: bool = False,
    ) -> GraphicalFit:
        """A model fitted to all measurements so far, starting from the last fit. The last one is closer."""
        settings = FitSettings(self._profile.prior_scale, 1e-2, 300, ROUND_WORK)
        if last:
            settings = FitSettings(self._profile.prior_scale, 1e-3, 1000, LAST_WORK, patience=10)
        return fit_model(queries.domain, measured, total, settings, warm, meter=meter)

    def _shares(self, terms: PrivacyTerms, queries: Marginals) -> Shares:
        rounds = len(modelled(queries)) if self.rounds is None else self.rounds
        return Shares.of(terms, rounds, self._profile)

    @property
    def _profile(self) -> MwemPgmProfile:
        return MWEM_PGM[self.profile]

    def _check(self) -> None:
        check_profile(self.profile, MWEM_PGM)
        if self.rounds is not None and self.rounds < 1:
            raise ConfigError(f"mechanism.rounds is {self.rounds}; want rounds >= 1")
        check_model_size(self.max_model_mb)
        check_max_work(self.max_work)


def _start_structure(queries: Marginals, start_queries: Sequence[Marginals]) -> Triangulation:
    """The triangulated graph of what the start measures."""
    return Triangulation.of(queries.domain, [part.cliques[0] for part in start_queries])


def _candidates(queries: Marginals, structure: Triangulation, max_cells: float) -> list[int]:
    """Indices of the marginals with which the junction tree has at most ``max_cells`` cells.

    They depend only on what was measured, never on a measured value. A marginal that was measured remains a candidate.

    Raises DomainTooLargeError where there is no candidate, which can happen only before the first round.
    """
    candidates = [index for index, clique in enumerate(queries.cliques) if structure.cells_with(clique) <= max_cells]
    if not candidates:
        min_cells = min(structure.cells_with(clique) for clique in queries.cliques)
        advice = "choose a workload with smaller marginals (a smaller max_cells), or a larger max_model_mb"
        raise DomainTooLargeError("the model of mechanism mwem_pgm", min_cells, int(max_cells), advice)
    return candidates


def _estimate(candidates: Marginals, fit: GraphicalFit | None, total: float) -> NDArray[np.float64]:
    """The expected counts of all candidates' cells, by the fitted model or else by the uniform distribution."""
    if fit is not None:
        return total * fit.calibrated.vector(candidates.cliques)
    sizes = np.array(candidates.sizes)
    return np.repeat(total / sizes, sizes)
