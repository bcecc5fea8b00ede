"""Measures a workload of marginals by its residuals in two calls; the first one tells where the second is needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Final, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.estimation.reconstruction.scale_mixture import SIZES
from dpcore.estimation.reconstruction.shrunken import LARGEST_CLOSURE, residual_sizes, shrunken_answers
from dpcore.kernel.budget import Currency
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.aim.aim import Aim
from dpcore.mechanisms.aim.marginals import MANY_CANDIDATES
from dpcore.mechanisms.api import Mechanism, Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.clique_tree import CliqueTree
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.mechanisms.shared.pgm_common import check_names_attribute, clique_weights, table_marginals
from dpcore.mechanisms.shared.totals import public_total, row_total, total_share
from dpcore.queries import Marginals
from dpcore.strategies.residual_planning.remaining_error import PossibleSizes
from dpcore.uncertainty import Answers
from dpcore.workload import Workload, downward_closure

_MAX_CELLS: Final = 20_000_000  # Cells of all subsets of the marginals; each takes a few microseconds.
_MAX_CANDIDATES: Final = MANY_CANDIDATES  # Of AIM, where noise would prevail.
# Of the estimates and what they come from: for each cell, and for each subset of a marginal's attributes. Measured.
_BYTES_PER_CELL, _BYTES_PER_SUBSET = 160, 5_000
_SECONDS: Final = (0.3, 2.2e-3, 1.6e-5)  # CPU seconds of the estimates: in any case, per subset, and per cell.
_STEPS: Final = 5  # Of the progress: counted, measured, estimated, measured again, estimated again.


@dataclass(frozen=True)
class AdaptiveConstants:
    """How the budget is divided.

    total_share: Share of the number of rows, where it is private.
    first_share: Part of the rest that the first call gets.
    decay: In the first call, each attribute of a residual after the first multiplies its share by this: large sets
        often have nothing to tell.
    max_noise: Limit of the noise that unbiased answers would have: the expected L1 error of a marginal over the noisy
        number of rows, both public. Above it, rounds that select marginals are better than measuring everything.
    """

    total_share: float = 0.01
    first_share: float = 0.5
    decay: float = 0.5
    max_noise: float = 0.3


@final
@dataclass(frozen=True)
class AdaptiveResiduals:
    """Measures the residuals of all marginals, then once more where it helps, and estimates by empirical Bayes.

    Choose it for answers of marginals whenever no synthetic rows are wanted. The residual of a set of attributes is
    what its marginal adds to smaller marginals. A first call measures all of them. Each is then shrunk towards the
    table of maximum entropy that smaller marginals imply; how far is learnt from all residuals with as many attributes.
    The second call spends the other half of the budget where it lowers the expected error of these estimates the most:
    residuals that are surely small get nothing, those far above their noise get much. The answers are consistent and
    non-negative. No junction tree limits which marginals can be answered, but there is no model, and so there are no
    synthetic rows.

    If the noisy number of rows shows that noise would prevail, ``aim`` selects marginals in place of measuring all of
    them, or ``clique_tree`` if there are too many.

    Intervals are those of the least-squares answers from both calls, extended to the estimate where it lies outside.
    What the second call measures depends on the noise of the first; this is not in the intervals, which therefore hold
    approximately (``dpcore/decisions/shrinkage.md`` has their coverage).

    Guarantee: the budget's, by adaptive composition of the kernel's measurements; the rest is post-processing.

    Source: Xiao, He, Zhang and Kifer (2023) for residuals; this project for the estimates
    (``dpcore.estimation.reconstruction.shrunken``) and for the second call
    (``dpcore.strategies.residual_planning.remaining_error``).
    """

    traits: ClassVar[Traits] = Traits(
        name="adaptive_residuals",
        answers=("marginals",),
        shapes=("table",),
        currencies=(Currency.ZCDP, Currency.GDP),
        rows=False,
        mostly_gaussian=True,
        recommended_for="answers of marginals, if no synthetic rows are wanted",
    )

    constants: AdaptiveConstants = field(default=AdaptiveConstants(), init=False, repr=False)

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        design, bytes_of_estimates = self._design(terms, workload)
        rows, (selection, chosen) = public_total(terms), _selection(terms, workload)
        name = selection.traits.name
        limit = f"{self.constants.max_noise:.0%} of the rows"
        if rows is not None and self._noise(terms, design, rows) > self.constants.max_noise:
            return replace(chosen, notes=(*chosen.notes, f"the noise of a marginal exceeds {limit}: {name} answers"))
        seconds, plan = _seconds(table_marginals(workload, "adaptive_residuals")), design.release_plan(terms)
        notes: tuple[str, ...] = (
            f"unbiased answers of the same budget have an expected error of {plan.predicted_error:,.3g} counts; "
            "shrinking lowers it by as much as the data let it",
        )
        shares = self._shares(terms)
        for queries, share in ((design.favouring_small(self.constants.decay), shares[1]), (design.queries, shares[2])):
            terms.measure_scale(queries, share)  # Raises ScaleError before anything is charged.
        steps = [
            replace(design.step(terms), share=float(shares[1]), stddev=None),
            Step("measure again where it lowers the expected error the most", float(shares[2]), 1, weighted_sums=True),
        ]
        memory = plan.memory_bytes + bytes_of_estimates
        if rows is None:
            steps.insert(0, Step("measure the number of rows", float(shares[0]), 1))
            notes = (*notes, f"if the noise of a marginal exceeds {limit}, {name} answers with the remaining budget")
            # Noise decides which of the two is done.
            seconds = math.sqrt(seconds * max(1.0, chosen.cpu_seconds or 1.0))
            memory = max(memory, chosen.memory_bytes)
        return Plan(tuple(steps), 0, memory, None, notes, cpu_seconds=seconds)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        terms, queries, (design, _) = private.terms, workload.queries, self._design(private.terms, workload)
        assert isinstance(queries, Marginals)
        private.expect(design.queries)
        total, shares = public_total(terms), self._shares(terms)
        rows, counted = row_total(private, queries.domain, shares[0])  # MEASURE
        if self._noise(terms, design, rows) > self.constants.max_noise:
            return _selected(private, workload, counted, generator, progress)
        progress(1, _STEPS)
        first = private.measure(design.favouring_small(self.constants.decay), shares[1])  # MEASURE
        progress(2, _STEPS)
        residuals = Residuals([first])
        sizes = PossibleSizes(SIZES, residual_sizes(residuals, queries, total))  # ESTIMATE
        progress(3, _STEPS)
        second = private.measure(  # MEASURE
            design.next_queries(terms, residuals, sizes, private.remaining_share), private.remaining_share
        )
        progress(4, _STEPS)
        residuals = Residuals([first, second])
        values = shrunken_answers(residuals, queries, total)  # ESTIMATE
        progress(_STEPS, _STEPS)
        answers = _with_intervals(values, residuals.answers(queries))
        return Release(workload, answers, None, (*counted, first, second))

    def _shares(self, terms: PrivacyTerms) -> tuple[Fraction, Fraction, Fraction]:
        """Of the number of rows, 0 where it is public, and of the two calls."""
        rows = total_share(terms, Fraction(self.constants.total_share))
        first = (1 - rows) * Fraction(self.constants.first_share)
        return rows, first, 1 - rows - first

    def _noise(self, terms: PrivacyTerms, design: MeasuredResiduals, rows: float) -> float:
        """Expected L1 error of an unbiased marginal, as a part of the rows."""
        queries = design.workload.queries
        assert isinstance(queries, Marginals)
        return design.absolute_error(terms) * queries.size / len(queries.cliques) / rows

    def _design(self, terms: PrivacyTerms, workload: Workload) -> tuple[MeasuredResiduals, int]:
        """The residuals to measure, and the memory of the estimates in bytes, from public facts alone.

        Raises ConfigError for other queries than marginals and for pure DP, and DomainTooLargeError.
        """
        if not isinstance(workload.queries, Marginals):
            raise ConfigError(
                "mechanism adaptive_residuals answers marginals of a table; want workload.marginals, or mechanism hdmm "
                "for products"
            )
        queries = table_marginals(workload, "adaptive_residuals")
        check_names_attribute(queries.cliques, "adaptive_residuals")
        if terms.noise is Noise.LAPLACE:
            raise ConfigError(
                "mechanism adaptive_residuals adds Gaussian noise, and privacy.delta is 0; want delta such as 1e-6, or "
                "mechanism hdmm"
            )
        bytes_of_estimates = _bytes_of_estimates(queries)
        weighted = Workload(queries, clique_weights(workload, queries))
        design = MeasuredResiduals.of(terms, weighted, error="absolute")
        try:
            if design is not None:
                design.favouring_small(self.constants.decay)
                return design, bytes_of_estimates
        except ValueError:  # The weights of the marginals differ too much.
            pass
        raise ConfigError(
            "mechanism adaptive_residuals cannot measure an attribute of so many values, or with such different "
            "weights; want mechanism aim, or weights that are alike"
        )


def _selection(terms: PrivacyTerms, workload: Workload) -> tuple[Mechanism, Plan]:
    """The mechanism that answers where noise would prevail, with its plan."""
    queries, aim, clique_tree = table_marginals(workload, "adaptive_residuals"), Aim(), CliqueTree()
    if len(downward_closure(queries.cliques, LARGEST_CLOSURE)) <= _MAX_CANDIDATES:
        try:
            return aim, aim.plan(terms, workload)
        except ConfigError:  # Too many cells for its rounds.
            pass
    return clique_tree, clique_tree.plan(terms, workload)


def _selected(
    private: PrivateStatistics,
    workload: Workload,
    counted: Sequence[Measurement],
    generator: Generator,
    progress: Progress,
) -> Release:
    """The release of the mechanism that selects, with what remains of the budget."""
    selection, _ = _selection(private.terms, workload)
    release = selection.run(private, workload, generator=generator, progress=progress)
    answers = replace(release.answers, measured=True)  # Of no model that is released.
    measurements = (*counted, *release.measurements)
    return replace(release, answers=answers, model=None, measurements=measurements, rounds=(), horizon=None, batch=None)


def _seconds(queries: Marginals) -> float:
    """Predicted CPU seconds of the estimates (``dpcore/decisions/work.md``)."""
    always, per_subset, per_cell = _SECONDS
    return always + per_subset * len(downward_closure(queries.cliques, LARGEST_CLOSURE)) + per_cell * queries.size


def _bytes_of_estimates(queries: Marginals) -> int:
    """Memory of the estimates. Raises ConfigError for too many subsets of the cliques, and DomainTooLargeError."""
    subsets = downward_closure(queries.cliques, LARGEST_CLOSURE)
    cells = sum(map(queries.domain.size, subsets))
    if cells > _MAX_CELLS:
        advice = "choose fewer or smaller marginals, or mechanism aim or clique_tree"
        raise DomainTooLargeError("the marginals of mechanism adaptive_residuals", cells, _MAX_CELLS, advice)
    return _BYTES_PER_CELL * cells + _BYTES_PER_SUBSET * len(subsets)


def _with_intervals(values: NDArray[np.float64], unbiased: Answers) -> Answers:
    """The estimates with the intervals of the unbiased answers, extended to them."""
    lower = np.minimum(np.maximum(unbiased.lower, 0.0), values)
    return Answers(values, np.full(len(values), np.nan), lower, np.maximum(unbiased.upper, values), measured=True)
