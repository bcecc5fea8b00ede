"""MST: a maximum spanning tree of noisy pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import ClassVar, Final, final

import numpy as np
from numpy.random import Generator

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.estimation.graphical.fitting.work import WorkMeter
from dpcore.kernel.events import Event
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.shared.bounded_work import DEFAULT_MAX_WORK, BoundedWork, check_max_work
from dpcore.mechanisms.shared.pgm_common import (
    CELLS_IN_MB,
    COPIES,
    check_model_size,
    modelled,
    rows_of,
    stddev_of,
    table_marginals,
    uniform_note,
)
from dpcore.mechanisms.shared.predicted_seconds import (
    ROUGH,
    FitShape,
    answer_seconds,
    limit_notes,
    run_seconds,
)
from dpcore.mechanisms.shared.spanning_forest import edges_of_forest, select_forest
from dpcore.queries import Marginals
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

_MAX_CANDIDATE_CELLS: Final = 1 << 26  # Cells of all candidate pairs together.
_FIT: Final = 0.25  # Part of the remaining work that the fit of the one-way marginals may take.


@dataclass(frozen=True)
class MstConstants:
    """How ``Mst`` divides its budget, in thirds as published. Shares are parts of the whole budget.

    one_way_share: Share of the one-way marginals, each of which gets an equal part.
    select_share: Share of the selections, each of which gets an equal part. The selected pairs get the rest.
    """

    one_way_share: float = 1 / 3
    select_share: float = 1 / 3


@final
@dataclass(frozen=True)
class Mst:
    """Measures all one-way marginals, then the pairs of a spanning tree of strongly dependent attributes.

    The tree grows as in Kruskal's algorithm. In each round the exponential mechanism selects a pair that joins two
    components of the forest; the score is the L1 error of the independent model of the one-way marginals on that pair.
    Then every selected pair is measured, and one graphical model is fitted to all measurements. Of the workload the
    mechanism uses the attributes alone, not the cliques or their weights.

    If the candidate pairs already form a forest, nothing is selected: all of them are measured, and they get
    this share as well.

    max_model_mb: Maximum size of the model's junction tree, in MiB. A pair is a candidate only if it has at most
        1 / (d - 1) of that many cells, where d is the number of attributes; the tree may therefore become a forest. The
        default is MAX-SIZE of McKenna's thesis, as for AIM.
    max_work: Limit of the work of a run, in units of 2^30 cells that are read; a unit takes about a second. Fits stop
        there, perhaps further from their optimum.

    Guarantee: the budget's, by adaptive composition of the kernel's selections and measurements.

    Source: McKenna, Miklau and Sheldon, "Winning the NIST Contest" (2021), section 4, with thirds of the budget as
    published. Rare values are not merged; instead the last fit has a prior that attributes are independent, and
    replaces one-way counts by their posterior medians.
    """

    traits: ClassVar[Traits] = Traits(
        name="mst",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        graphical=True,
        mostly_gaussian=True,
        recommended_for="synthetic rows from pairs of attributes, quickly",
    )

    max_model_mb: float = 80.0
    max_work: float = DEFAULT_MAX_WORK
    constants: MstConstants = field(default=MstConstants(), init=False, repr=False)

    retired: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("one_way_share", "select_share"), "it is a third as published; leave it out"
    )

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        design = self._design(workload)
        steps = [design.one_way.measure_step("measure one-way marginals", terms)]
        if design.select.calls:
            steps.append(Step("select pairs", float(design.select.share), design.select.calls))
        if design.measure.calls:
            steps.append(design.measure.measure_step("measure pairs", terms))
        candidate_cells = sum(map(design.queries.domain.size, design.pairs))
        memory = 32 * candidate_cells + COPIES * 8 * design.max_model_cells
        fits, other = self._predicted(design, workload)
        seconds = run_seconds(fits, other, self.max_work)
        notes = ("all pairs count equally, whatever the weights of the workload", *design.notes)
        notes = (*notes, *limit_notes(fits, other, self.max_work))
        return Plan(tuple(steps), design.select.calls, memory, None, notes, design.events(terms), seconds)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        design = self._design(workload)
        queries, domain = design.queries, design.queries.domain
        private.expect(queries.only([*design.one_way.cliques, *design.pairs]))
        measured = [
            private.measure(queries.only([clique]), design.one_way.share_per_call)  # MEASURE
            for clique in design.one_way.cliques
        ]
        work = BoundedWork(self.max_work, progress)
        independent = _fit(private.terms, domain, measured, work.enter("one-way marginals").part(_FIT))  # ESTIMATE
        ticks = design.measure.calls + 1
        work.enter("choice of pairs")
        tree: Sequence[Clique] = design.pairs
        if design.select.calls:
            tree = select_forest(private, queries, design.pairs, independent, design.select.share_per_call)  # SELECT
        for done, pair in enumerate(tree):
            progress(done + 1, ticks)
            measured.append(private.measure(queries.only([pair]), design.measure.share_per_call))  # MEASURE
        model = _fit(private.terms, domain, measured, work.enter("fit of pairs"), independent).model  # ESTIMATE
        progress(ticks, ticks)
        return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))

    def _predicted(self, design: _Design, workload: Workload) -> tuple[float, float]:
        """The work of all fits in reads, and the CPU seconds of everything else."""
        candidates = sum(map(design.queries.domain.size, design.pairs))
        cells, edges = design.max_model_cells, design.measure.calls
        mean_cells = candidates / max(1, len(design.pairs))
        shape = FitShape(cells / 2, edges + 1, edges + 1, 3 * edges + 1, edges * mean_cells)
        scores = edges * (len(design.pairs) * 1e-5 + candidates * 3e-8)
        size, cliques = workload.queries.size, design.queries.cliques
        return shape.reads(ROUGH), scores + shape.setup_seconds + answer_seconds(len(cliques), size, cells)

    def _design(self, workload: Workload) -> _Design:
        """All kernel calls, from public facts alone; plan and run share it."""
        check_model_size(self.max_model_mb)
        check_max_work(self.max_work)
        queries = table_marginals(workload, "mst")
        names = modelled(queries)
        all_pairs = list(combinations(names, 2))
        max_pair_cells = int(self.max_model_mb * CELLS_IN_MB) // max(1, len(names) - 1)
        pairs = _small_pairs(queries.domain, all_pairs, max_pair_cells)
        edges = edges_of_forest(pairs)
        one_way_share = Fraction(self.constants.one_way_share) if edges else Fraction(1)
        select_share = Fraction(self.constants.select_share) if len(pairs) > edges else Fraction(0)
        excluded = len(all_pairs) - len(pairs)
        notes = (f"{excluded} of {len(all_pairs)} pairs have too many cells to be candidates",) if excluded else ()
        return _Design(
            queries,
            pairs,
            _Phase(queries, one_way_share, len(names), tuple((name,) for name in names)),
            _Phase(queries, select_share, edges if select_share else 0),
            _Phase(queries, 1 - one_way_share - select_share, edges, pairs[:1]),
            (*notes, *uniform_note(queries)),
        )


@dataclass(frozen=True)
class _Phase:
    """Kernel calls of one kind that get equal shares of the budget.

    share: Share of the whole budget that all calls get together.
    calls: Number of calls.
    cliques: The cliques to measure, or one of them if answers decide which ones are measured.
    """

    queries: Marginals
    share: Fraction
    calls: int
    cliques: tuple[Clique, ...] = ()

    @property
    def share_per_call(self) -> Fraction:
        return self.share / self.calls

    def measure_step(self, label: str, terms: PrivacyTerms) -> Step:
        stddev = stddev_of(terms, self.queries.only(self.cliques[:1]), self.share_per_call)
        return Step(label, float(self.share), self.calls, stddev)


@dataclass(frozen=True)
class _Design:
    """All kernel calls, from public facts alone.

    queries: The marginals of the workload.
    pairs: The candidates.
    one_way, select, measure: The three phases.
    notes: Sentences of the plan.
    """

    queries: Marginals
    pairs: tuple[Clique, ...]
    one_way: _Phase
    select: _Phase
    measure: _Phase
    notes: tuple[str, ...]

    @property
    def max_model_cells(self) -> int:
        """An upper bound on the number of cells of the final model."""
        pair_sizes = sorted(map(self.queries.domain.size, self.pairs), reverse=True)
        one_way_sizes = map(self.queries.domain.size, self.one_way.cliques)
        return sum(pair_sizes[: self.measure.calls]) + sum(one_way_sizes)

    def events(self, terms: PrivacyTerms) -> tuple[Event, ...]:
        """All kernel calls. Their number and shares are fixed; answers decide only which pairs are measured."""
        phases = (self.one_way, self.measure)
        events = [terms.measured(phase.share_per_call, phase.calls) for phase in phases if phase.calls]
        if self.select.calls:
            events.append(terms.selected(self.select.share_per_call, self.select.calls))
        return tuple(events)


def _small_pairs(domain: Domain, pairs: Sequence[Clique], max_cells: int) -> tuple[Clique, ...]:
    """The pairs with at most ``max_cells`` cells, in order; the largest are left out if all exceed the memory limit."""
    sizes = np.array([domain.size(pair) for pair in pairs], dtype=np.float64)
    small_first = np.argsort(sizes, kind="stable")
    fits = (sizes[small_first] <= max_cells) & (np.cumsum(sizes[small_first]) <= _MAX_CANDIDATE_CELLS)
    return tuple(pairs[index] for index in sorted(small_first[fits].tolist()))


def _fit(
    terms: PrivacyTerms,
    domain: Domain,
    measured: Sequence[Measurement],
    meter: WorkMeter,
    independent: GraphicalFit | None = None,
) -> GraphicalFit:
    """Fits a model; the last one, which starts from that of the one-way marginals, with priors that are learnt."""
    settings = FitSettings(empirical_bayes=independent is not None)
    return fit_model(domain, measured, rows_of(terms, domain, measured), settings, independent, meter=meter)
