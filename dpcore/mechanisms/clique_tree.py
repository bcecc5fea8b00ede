"""A one-shot mechanism: noisy errors of the candidates, then the marginals that these errors select, then one fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Final, Literal, final

import numpy as np
from numpy.random import Generator

from dpcore.domain import Clique
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.estimation.graphical.fitting.work import WorkMeter
from dpcore.estimation.public_table import PublicTable
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.shared.bounded_work import DEFAULT_MAX_WORK, BoundedWork, check_max_work
from dpcore.mechanisms.shared.marginal_selection import (
    Design,
    expected_l1_error,
    noisy_errors,
    noisy_errors_of_forest,
    select_marginals,
    work_of_forest,
)
from dpcore.mechanisms.shared.pgm_common import (
    CELLS_IN_MB,
    COPIES,
    check_model_size,
    rows_of,
    stddev_of,
    table_marginals,
    uniform_note,
)
from dpcore.mechanisms.shared.predicted_seconds import (
    FROM_NOTHING,
    FitShape,
    answer_seconds,
    choice_seconds,
    limit_notes,
    run_seconds,
    small_tree,
)
from dpcore.mechanisms.shared.public_model import Comparison, is_accepted, public_model
from dpcore.mechanisms.shared.spanning_forest import edges_of_forest
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

_CHOSEN: Final = 0.9  # Of the progress, per share of the budget that is spent before the batch.
_FITTED: Final = 0.9  # Of the progress, if the last fit comes to its limit.
_FIT: Final = 0.25  # Part of the remaining work that a fit of one-way marginals, or a forest, may take.


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
    public_part: Part of the largest model that the model of a public table may take.
    comparison: How that model is compared with the private data.
    """

    start_share: float = 0.06
    start_error: float = 0.03
    max_start_share: float = 0.4
    errors_share: float = 0.1
    prior_scale: float = 5.0
    public_part: float = 0.5
    comparison: Comparison = field(default=Comparison())


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
        cliques. Errors of pairs are requested if their noise is below 30 % of the number of rows, and then, with 3,
        errors of triples if theirs is below 5 %. If all pairs have too much noise, but the pairs of a spanning forest
        would have less than 15 %, a forest is selected as by ``mst``, and errors of its pairs alone are requested; not
        so with an accepted public table.
    max_work: Limit of the work of a run, in units of 2^30 cells that are read; a unit takes about a second. Fits stop
        there, perhaps further from their optimum.

    With a public table (``with_public``), a model of its rows is compared with the private pairs, by noisy errors of
    both. If it is closer than independent attributes, it takes their place: noisy errors tell where it is wrong, and
    the model keeps to it where nothing was measured. How far measured marginals are drawn towards it is learnt from
    them.

    Guarantee: the budget's, by adaptive composition of the kernel's selections and measurements. A public table is
    fixed: it is the same for neighbouring datasets.

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
    max_work: float = DEFAULT_MAX_WORK
    public: PublicTable | None = field(default=None, init=False, repr=False)
    constants: CliqueTreeConstants = field(default=CliqueTreeConstants(), init=False, repr=False)

    retired: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("start_share", "start_error", "most_start_share", "errors_share", "strength"),
        "it is a constant now; leave it out",
    )

    def with_public(self, table: PublicTable) -> CliqueTree:
        """The same mechanism with a public table of the domain of its workloads."""
        mechanism = replace(self)
        object.__setattr__(mechanism, "public", table)
        return mechanism

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        design = self._design(workload)
        start_share, errors_share = self.constants.start_share, self.constants.errors_share
        shares = design.one_way_shares(Fraction(start_share))
        max_stddev = max(stddev_of(terms, design.marginal(clique), share) for clique, share in shares)
        start = Step("measure one-way marginals", start_share, len(design.one_way), max_stddev)
        errors = Step("measure errors of pairs and triples", errors_share, self.order - 1)
        memory = 40 * design.cells + int(COPIES * 8 * self.max_model_mb * CELLS_IN_MB)
        notes = (
            "the noisy errors decide how many cliques are measured; if noise would prevail, they are those of a "
            "spanning forest of pairs, which takes as many selections, or there are none",
            *uniform_note(design.queries),
        )
        seconds, limited = self._predicted(design, workload)
        notes += limited
        if self.public is None:
            rest = Step("measure the selected cliques", 1 - start_share - errors_share, 1)
            return Plan((start, errors, rest), 0, memory, None, notes, cpu_seconds=seconds)
        compare_share = 2 * self.constants.comparison.max_share
        compare = Step("compare with the public table, at most", compare_share, 2)
        rest = Step("measure the selected cliques", 1 - start_share - errors_share - compare_share, 1)
        note = (
            f"a public table of {self.public.rows:,} rows is prior knowledge, as far as a noisy comparison of pairs "
            "says that it is right"
        )
        memory += self.public.codes.nbytes + int(
            COPIES * 8 * self.constants.public_part * self.max_model_mb * CELLS_IN_MB
        )
        return Plan((start, compare, errors, rest), 0, memory, None, (note, *notes), cpu_seconds=seconds)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        design = self._design(workload)
        private.expect(design.queries.only([*design.one_way, *design.candidates]))
        work = BoundedWork(self.max_work, progress)
        public = self._public_model(design, work)
        meter = work.enter("one-way marginals")
        measured, fit = self._measure_one_way(private, design, meter)
        if public is not None:
            informed = self._fit(private.terms, design, measured, meter.part(_FIT), public)  # ESTIMATE
            models, comparison = (informed, fit), self.constants.comparison
            if is_accepted(private, design, measured, models, public, self.max_model_mb, comparison):  # MEASURE
                fit = informed
            else:
                public = None
        meter = work.enter("choice of a batch of marginals")
        errors_share = Fraction(self.constants.errors_share)
        errors = noisy_errors(private, design, fit, errors_share)  # MEASURE
        if not errors and public is None:
            errors = noisy_errors_of_forest(private, design, fit, errors_share, meter.part(_FIT))  # SELECT
        work.report(_CHOSEN * (1 - float(private.remaining_share)))
        budget = private.remaining_share
        nodes = () if public is None else public.tree.nodes
        terms, max_mb = private.terms, self.max_model_mb
        selected = select_marginals(terms, design, measured, fit, errors, budget, max_mb, nodes)  # SELECT
        measured += [private.measure(queries, share) for queries, share in selected]  # MEASURE
        meter = work.enter(f"fit of {len(selected):,} marginals", until=_FITTED)
        model = self._fit(private.terms, design, measured, meter, public, final=True).model  # ESTIMATE
        work.enter("answers")
        release = Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))
        work.report(1.0)
        return release

    def _predicted(self, design: Design, workload: Workload) -> tuple[float, tuple[str, ...]]:
        """CPU seconds of a run, and notes about its limit.

        Noise decides whether a forest limits the choice; what takes longer is predicted.
        """
        queries, max_cells = design.queries, self.max_model_mb * CELLS_IN_MB
        tree = small_tree(queries.domain, queries.cliques, max_cells)
        every = _costs(design, workload, design.candidates, max_cells if tree is None else tree.cells)
        costs = [every]
        if self.public is None and (selections := work_of_forest(design)):
            edges = design.pairs[: edges_of_forest(design.pairs)]
            fits, other = _costs(design, workload, edges, int(design.sizes(edges).sum()))
            costs.append((fits + selections, other))
        seconds = max(run_seconds(fits, other, self.max_work) for fits, other in costs)
        return seconds, limit_notes(*every, self.max_work)

    def _measure_one_way(
        self, private: PrivateStatistics, design: Design, meter: WorkMeter
    ) -> tuple[list[Measurement], GraphicalFit]:
        """Measures the one-way marginals, and measures them again if their expected errors are large.

        The noise falls with the square root of the share, so the second share grows with the square of the error.
        """
        first_share = Fraction(self.constants.start_share)
        measured = _measure_each_one_way(private, design, first_share)  # MEASURE
        fit = self._fit(private.terms, design, measured, meter.part(_FIT))  # ESTIMATE
        errors = [
            expected_l1_error(fit, clique, measurement.stddev)
            for clique, measurement in zip(design.one_way, measured, strict=True)
        ]
        relative_error = float(np.mean(errors)) / (fit.total * self.constants.start_error)
        target_share = first_share * Fraction(relative_error) ** 2
        second_share = min(Fraction(self.constants.max_start_share), target_share) - first_share
        if second_share > 0:
            measured += _measure_each_one_way(private, design, second_share)  # MEASURE
            fit = self._fit(private.terms, design, measured, meter.part(_FIT))  # ESTIMATE
        return measured, fit

    def _public_model(self, design: Design, work: BoundedWork) -> GraphicalFit | None:
        if self.public is None:
            return None
        meter = work.enter("model of the public table")
        return public_model(design, self.public, self.constants.public_part * self.max_model_mb, meter.part(_FIT))

    def _fit(
        self,
        terms: PrivacyTerms,
        design: Design,
        measured: Sequence[Measurement],
        meter: WorkMeter,
        public: GraphicalFit | None = None,
        final: bool = False,
    ) -> GraphicalFit:
        """Fits the model: roughly before the selection, more precisely at the end.

        The last fit replaces one-way counts by their posterior medians, and each pair has a prior scale of its own.

        public: The model of the public table, if it takes the place of independent attributes. How far each measured
            pair or triple lies from it is then learnt, so that a poor public table costs little.
        """
        prior_scale = self.constants.prior_scale if public is None else None
        settings = FitSettings(prior_scale, 1e-2, 300)
        if final:
            settings = FitSettings(prior_scale, 1e-3, 1000, empirical_bayes=True, patience=10)
        domain = design.queries.domain
        return fit_model(domain, measured, rows_of(terms, domain, measured), settings, meter=meter, public=public)

    def _design(self, workload: Workload) -> Design:
        """The one-way marginals and the candidates, from public facts alone. Raises ConfigError for bad settings."""
        check_model_size(self.max_model_mb)
        check_max_work(self.max_work)
        if self.order not in (2, 3):
            raise ConfigError(f"mechanism.order is {self.order}; want 2 or 3")
        return Design(table_marginals(workload, "clique_tree"), workload, self.order)


def _costs(design: Design, workload: Workload, candidates: Sequence[Clique], cells: float) -> tuple[float, float]:
    """The work of the fits in reads, and the seconds of all else, if the choice is among these candidates.

    cells: Of the largest model.
    """
    queries = design.queries
    shape = FitShape.of_selection(queries.domain, candidates or design.one_way, cells)
    cells_of_choice = int(design.sizes([*design.one_way, *candidates]).sum())
    other = shape.setup_seconds + choice_seconds(len(candidates), len(design.one_way), cells_of_choice)
    return shape.reads(FROM_NOTHING), other + answer_seconds(len(queries.cliques), workload.queries.size, cells)


def _measure_each_one_way(private: PrivateStatistics, design: Design, share: Fraction) -> list[Measurement]:
    return [private.measure(design.marginal(clique), part) for clique, part in design.one_way_shares(share)]
