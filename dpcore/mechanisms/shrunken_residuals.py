"""Measures a whole workload of marginals by its residuals, and shrinks each towards what smaller marginals imply."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Final, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.estimation.reconstruction.shrunken import LARGEST_CLOSURE, shrunken_answers
from dpcore.kernel.budget import Currency
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Noise, noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.clique_tree import CliqueTree
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.mechanisms.shared.pgm_common import check_names_attribute, clique_weights, table_marginals
from dpcore.mechanisms.shared.totals import public_total, row_total, total_share
from dpcore.queries import Marginals
from dpcore.uncertainty import Answers
from dpcore.workload import Workload, downward_closure

_MAX_CELLS: Final = 20_000_000  # Cells of all subsets of the marginals; each takes a microsecond or two.
# Of the estimates and what they come from: for each cell, and for each subset of a marginal's attributes. Measured.
_BYTES_PER_CELL, _BYTES_PER_SUBSET = 160, 5_000
_FALLBACK: Final = CliqueTree()
_SECONDS: Final = (0.3, 6e-4, 2e-6)  # CPU seconds of the estimates: in any case, per subset, and per cell.
_STEPS: Final = 3  # Of the progress: planned, measured, estimated.


@dataclass(frozen=True)
class ShrunkenConstants:
    """How the budget is divided, by the noise that unbiased answers would have.

    That noise is the expected L1 error of a marginal over the noisy number of rows, both public.

    total_share: Share of the number of rows, where it is private.
    max_noise: With more noise the selection of ``clique_tree`` is better than measuring everything.
    decays: (limit, factor), rising limits: up to this noise, each attribute of a residual after the first multiplies
        its share by the factor. The more noise there is, the less is known of large sets after shrinking, and the more
        it helps to know the small ones. ``dpcore/decisions/shrinkage.md`` has the measurements.
    """

    total_share: float = 0.01
    max_noise: float = 0.3
    decays: tuple[tuple[float, float], ...] = ((0.004, 1.0), (0.03, 0.7), (math.inf, 0.5))


@final
@dataclass(frozen=True)
class ShrunkenResiduals:
    """Measures the residuals of all marginals once, and estimates the marginals by empirical Bayes.

    Choose it for many marginals of few cells, such as all triples of twenty or more binary attributes, whose graphical
    model would be too large. The residual of a set of attributes is what its marginal adds to smaller marginals. All
    are measured in one call, with the precisions that minimise the weighted sum of absolute errors. Each is then shrunk
    towards the table of maximum entropy that smaller marginals imply; how far is learnt from all residuals with as many
    attributes. Where there are few interactions, most of the noise disappears; interactions far above the noise stay as
    measured. The answers are consistent and non-negative. No junction tree limits which marginals can be answered, but
    there is no model, and so there are no synthetic rows. If the noisy number of rows shows that noise would prevail,
    ``clique_tree`` measures a selection in place of everything.

    Intervals are those of the unbiased least-squares answers, extended to the estimate where it lies outside.

    Guarantee: the budget's, by adaptive composition of the kernel's measurements; the rest is post-processing.

    Source: Xiao, He, Zhang and Kifer (2023) for residuals; the reconstruction is this project's
    (``dpcore.estimation.reconstruction.shrunken``).
    """

    traits: ClassVar[Traits] = Traits(
        name="shrunken_residuals",
        answers=("marginals",),
        shapes=("table",),
        currencies=(Currency.ZCDP, Currency.GDP),
        rows=False,
        mostly_gaussian=True,
        recommended_for="many small marginals whose graphical model would be too large",
    )

    constants: ShrunkenConstants = field(default=ShrunkenConstants(), init=False, repr=False)

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        design, bytes_of_estimates = self._design(terms, workload)
        rows = public_total(terms)
        tree = _FALLBACK.plan(terms, workload)
        if rows is not None and self._noise(terms, design, rows) > self.constants.max_noise:
            note = f"the noise of a marginal exceeds {self.constants.max_noise:.0%} of the rows: clique_tree answers"
            return replace(tree, notes=(*tree.notes, note))
        seconds, plan = _seconds(table_marginals(workload, "shrunken_residuals")), design.release_plan(terms)
        memory = max(plan.memory_bytes + bytes_of_estimates, tree.memory_bytes)
        note = (
            f"unbiased answers of the same budget have an expected error of {plan.predicted_error:,.3g} counts; "
            "shrinking lowers it by as much as the data let it"
        )
        if rows is not None:
            queries = design.favouring_small(self._decay(self._noise(terms, design, rows)))
            stddev = noise_stddev(terms.noise, terms.measure_scale(queries, Fraction(1)))
            step = replace(design.step(terms), stddev=stddev)
            return Plan((step,), 0, memory, None, (note,), cpu_seconds=seconds)
        share = self.constants.total_share
        steps = (
            Step("measure the number of rows", share, 1),
            replace(design.step(terms), share=1 - share, stddev=None),
        )
        fallback = (
            f"if the noise of a marginal exceeds {self.constants.max_noise:.0%} of the rows, clique_tree answers with "
            "the remaining budget"
        )
        # Noise decides which of the two estimates is made.
        return Plan(
            steps, 0, memory, None, (note, fallback), cpu_seconds=math.sqrt(seconds * (tree.cpu_seconds or 1.0))
        )

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        design, _ = self._design(private.terms, workload)
        queries = workload.queries
        assert isinstance(queries, Marginals)
        share = total_share(private.terms, Fraction(self.constants.total_share))
        rows, counted = row_total(private, queries.domain, share)  # MEASURE
        noise = self._noise(private.terms, design, rows)
        if noise > self.constants.max_noise:
            release = _FALLBACK.run(private, workload, generator=generator, progress=progress)
            answers = replace(release.answers, measured=True)  # Of no model that is released.
            return replace(release, answers=answers, model=None, measurements=(*counted, *release.measurements))
        progress(1, _STEPS)
        measured = private.measure(design.favouring_small(self._decay(noise)), private.remaining_share)  # MEASURE
        progress(2, _STEPS)
        residuals = Residuals([measured])
        values = shrunken_answers(residuals, queries, public_total(private.terms))  # ESTIMATE
        progress(_STEPS, _STEPS)
        return Release(workload, _with_intervals(values, residuals.answers(queries)), None, (*counted, measured))

    def _noise(self, terms: PrivacyTerms, design: MeasuredResiduals, rows: float) -> float:
        """Expected L1 error of an unbiased marginal, as a part of the rows."""
        queries = design.workload.queries
        assert isinstance(queries, Marginals)
        return design.absolute_error(terms) * queries.size / len(queries.cliques) / rows

    def _decay(self, noise: float) -> float:
        return next(decay for limit, decay in self.constants.decays if noise <= limit)

    def _design(self, terms: PrivacyTerms, workload: Workload) -> tuple[MeasuredResiduals, int]:
        """The residuals to measure, and the memory of the estimates in bytes, from public facts alone.

        Raises ConfigError for other queries than marginals and for pure DP, and DomainTooLargeError.
        """
        if not isinstance(workload.queries, Marginals):
            raise ConfigError(
                "mechanism shrunken_residuals answers marginals of a table; want workload.marginals, or mechanism hdmm "
                "for products"
            )
        queries = table_marginals(workload, "shrunken_residuals")
        check_names_attribute(queries.cliques, "shrunken_residuals")
        if terms.noise is Noise.LAPLACE:
            raise ConfigError(
                "mechanism shrunken_residuals adds Gaussian noise, and privacy.delta is 0; want delta such as 1e-6, or "
                "mechanism hdmm"
            )
        bytes_of_estimates = _bytes_of_estimates(queries)
        weighted = Workload(queries, clique_weights(workload, queries))
        design = MeasuredResiduals.of(terms, weighted, error="absolute")
        try:
            if design is not None:
                for _, decay in self.constants.decays:
                    design.favouring_small(decay)
                return design, bytes_of_estimates
        except ValueError:  # The weights of the marginals differ too much.
            pass
        raise ConfigError(
            "mechanism shrunken_residuals cannot measure an attribute of so many values, or with such different "
            "weights; want mechanism aim, or weights that are alike"
        )


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
        raise DomainTooLargeError("the marginals of mechanism shrunken_residuals", cells, _MAX_CELLS, advice)
    return _BYTES_PER_CELL * cells + _BYTES_PER_SUBSET * len(subsets)


def _with_intervals(values: NDArray[np.float64], unbiased: Answers) -> Answers:
    """The estimates with the intervals of the unbiased answers, extended to them."""
    lower = np.minimum(np.maximum(unbiased.lower, 0.0), values)
    return Answers(values, np.full(len(values), np.nan), lower, np.maximum(unbiased.upper, values), measured=True)
