"""HDMM: the high-dimensional matrix mechanism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Literal, final

from numpy.random import Generator

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.graphical.fitting.fit import FitSettings, fit_model
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.least_squares import row_total, total_factors
from dpcore.estimation.reconstruction.nonnegative import nonnegative_consistent, nonnegative_products
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Plan, Progress, Release, Traits, silent
from dpcore.mechanisms.hdmm.joint_strategy import Loss, MeasuredStrategy, Strategy, best_joint_strategy
from dpcore.mechanisms.hdmm.parts import MeasuredParts, table_queries
from dpcore.mechanisms.shared.bounded_work import DEFAULT_MAX_WORK, BoundedWork, check_max_work
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB, COPIES, check_model_size
from dpcore.mechanisms.shared.predicted_seconds import (
    FROM_NOTHING,
    OF_PRODUCTS,
    FitShape,
    answer_seconds,
    limit_notes,
    run_seconds,
)
from dpcore.mechanisms.shared.totals import public_total
from dpcore.queries import Marginals, Products
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

_MIN_RELATIVE_GAIN: Final = 1e-6  # Relative decrease of the error for which a joint strategy replaces the parts.


@dataclass(frozen=True)
class HdmmConstants:
    """When the fit of reconstruction "graphical" stops.

    tolerance: Gap to the optimum, in units per measured value of which its noise is worth 1/2.
    iterations: Maximum number of marginal-oracle calls, ten times as many for small models. The less noise there is,
        the more calls a fit takes.
    """

    tolerance: float = 1e-3
    iterations: int = 2000


@final
@dataclass(frozen=True)
class Hdmm:
    """Measures integer queries that are optimised for the workload, and answers the workload by least squares.

    A part of the workload is a term of products or a clique of marginals. Either each part has a strategy of its own,
    and the split of the budget minimises the weighted squared error (``parts``), or one strategy serves all parts
    together. Under Gaussian noise a joint strategy measures residuals; for marginals their weighted squared error is
    the minimum possible (``shared.measured_residuals``, ``products``). Under Laplace noise it measures a few marginals
    or products from which all others follow (``marginals``, ``product_marginals``).

    reconstruction: "least_squares" answers from the measured values: the answers are unbiased, each with a standard
        deviation and an interval. Answers of a joint strategy are consistent; those of separate parts need not be.
        "graphical" fits one graphical model to the measurements of the separate parts (HDMM+PGM): the answers are
        consistent and non-negative, and there are synthetic rows, but there are no error bars. The default keeps the
        answers unbiased.
    strategy: What is measured. "best" takes the strategy with the smallest expected weighted squared error. The others
        fix it: "parts", "residuals", "marginals", "table" (queries over the whole table of a few attributes, for unions
        of products; ``symmetric``, ``kronecker``), or "clusters" (one product per cluster of terms; ``clusters``).
    loss: What the strategy minimises: the "total" weighted squared error, or the "largest" weighted variance of an
        answer. The latter is available for marginals by residuals.
    answers: "unbiased", or "nonnegative" for the nearest answers of a non-negative table, which are consistent if the
        workload is of marginals. Non-negative answers are usually closer to the truth, but they are biased and have no
        error bars. The released measurements are the same for both.
    max_model_mb: Maximum size of the tables of the junction tree of reconstruction "graphical", in MiB.
    max_work: Limit of the work of reconstruction "graphical", in units of 2^30 cells that are read; a unit takes about
        a second. The fit stops there, perhaps further from its optimum.

    Guarantee: the budget's, by composition of the kernel's measurements.

    Source: thesis of McKenna (2022), chapter 3: OPT_+ (Definition 21) with OPT_0 per attribute; section 3.9, case 3,
    and section 4.5 for the two reconstructions. Xiao, He, Zhang and Kifer (2023) for residuals.
    """

    traits: ClassVar[Traits] = Traits(
        name="hdmm",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        no_rows_where=("reconstruction", "least_squares"),
        mostly_gaussian=True,
        recommended_for="unbiased answers of marginals and ranges with a known error",
    )

    reconstruction: Literal["least_squares", "graphical"] = "least_squares"
    strategy: Strategy = "best"
    loss: Loss = "total"
    answers: Literal["unbiased", "nonnegative"] = "unbiased"
    max_model_mb: float = 1000.0
    max_work: float = DEFAULT_MAX_WORK
    constants: HdmmConstants = field(default=HdmmConstants(), init=False, repr=False)

    retired: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("tolerance", "iterations"), "it is a constant now; leave it out"
    )

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        plan = self._select(terms, workload).release_plan(terms)
        if self.reconstruction == "graphical":
            note = f"least squares from the same values has an expected error of {plan.predicted_error:,.3g} per answer"
            tree, queries = _junction_tree(workload), table_queries(workload)
            memory = plan.memory_bytes + COPIES * 8 * tree.cells
            cliques = (queries if isinstance(queries, Marginals) else queries.marginals).cliques
            shape = FitShape.of_cliques(queries.domain, cliques, tree.cells, len(tree.nodes))
            effort = FROM_NOTHING if isinstance(queries, Marginals) else OF_PRODUCTS
            fits, answers = shape.reads(effort), answer_seconds(len(cliques), queries.size, tree.cells)
            other = shape.setup_seconds + answers
            seconds = run_seconds(fits, other, self.max_work)
            notes = (note, *limit_notes(fits, other, self.max_work))
            return replace(plan, memory_bytes=memory, predicted_error=None, notes=notes, cpu_seconds=seconds)
        if self.answers == "nonnegative":
            return replace(plan, notes=(*plan.notes, "the expected error is that of the unbiased answers"))
        return plan

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        strategy = self._select(private.terms, workload)  # SELECT
        if self.reconstruction == "graphical":
            assert isinstance(strategy, MeasuredParts)
            measured = strategy.measure(private, progress)  # MEASURE
            work = BoundedWork(self.max_work, progress)
            return self._graphical_release(private.terms, workload, measured, work)  # ESTIMATE
        release = strategy.run(private, progress)  # MEASURE, ESTIMATE
        return release if self.answers == "unbiased" else _nonnegative(private.terms, release)  # ESTIMATE

    def _select(self, terms: PrivacyTerms, workload: Workload) -> MeasuredStrategy:
        """The strategy, from public facts alone; plan and run share it.

        Raises ConfigError for settings, workloads and privacy units that do not fit together.
        """
        check_model_size(self.max_model_mb)
        check_max_work(self.max_work)
        if self.answers == "nonnegative":
            _check_nonnegative(terms, table_queries(workload))
        parts = MeasuredParts.of(terms, workload)
        if self.reconstruction == "graphical":
            self._check_graphical(terms, workload, parts)
            return parts
        joint = best_joint_strategy(terms, workload, self.strategy, self.loss)
        if joint is None:
            return parts
        if (self.strategy, self.loss) == ("best", "total"):
            max_error = (1 - _MIN_RELATIVE_GAIN) * parts.weighted_error(terms)
            return joint if joint.weighted_error(terms) < max_error else parts
        return joint

    def _graphical_release(
        self, terms: PrivacyTerms, workload: Workload, measured: Sequence[Measurement], work: BoundedWork
    ) -> Release:
        rows = public_total(terms) or max(1.0, row_total(measured))
        constants = self.constants
        settings = FitSettings(tolerance=constants.tolerance, iterations=constants.iterations, patience=10)
        meter = work.enter(f"fit of {len(measured):,} measurements")
        model = fit_model(table_queries(workload).domain, measured, rows, settings, meter=meter).model
        return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))

    def _check_graphical(self, terms: PrivacyTerms, workload: Workload, parts: MeasuredParts) -> None:
        """Raises ConfigError for settings without a graphical reconstruction, a large model and an unknown total."""
        if self.strategy not in ("best", "parts") or self.loss != "total" or self.answers != "unbiased":
            raise ConfigError(
                f"mechanism.strategy {self.strategy}, loss {self.loss}, answers {self.answers} with reconstruction "
                "graphical; want strategy: best, loss: total, answers: unbiased, or reconstruction: least_squares"
            )
        max_cells, cells = int(self.max_model_mb * CELLS_IN_MB), _junction_tree(workload).cells
        if cells > max_cells:
            advice = "choose cliques that overlap less, a larger max_model_mb, or reconstruction: least_squares"
            raise DomainTooLargeError("the model of mechanism hdmm", cells, max_cells, advice)
        if public_total(terms) is None and all(total_factors(part.queries) is None for part in parts.parts):
            raise ConfigError(
                "mechanism.reconstruction graphical cannot give the number of rows from these ranges; want a range of "
                "all values among them, or privacy.units: N"
            )


def _nonnegative(terms: PrivacyTerms, release: Release) -> Release:
    """The release with the nearest answers of a non-negative table in place of the unbiased ones."""
    queries, unbiased, rows = table_queries(release.workload), release.answers, public_total(terms)
    if isinstance(queries, Marginals):
        values = nonnegative_consistent(queries, unbiased.values, unbiased.stddev, rows)
    else:
        values = nonnegative_products(queries, unbiased.values, unbiased.stddev, rows)
    return replace(release, answers=of_model(values))


def _check_nonnegative(terms: PrivacyTerms, queries: Marginals | Products) -> None:
    """Raises ConfigError for products with an empty query, which has no standard deviation, or an unknown total."""
    if isinstance(queries, Marginals):
        return
    if not all(matrix.any(axis=1).all() for product_term in queries.terms for matrix in product_term.matrices):
        raise ConfigError("mechanism.answers nonnegative: a query asks for no value; want one value or more in each")
    single_terms = (Products(queries.domain, (product_term,)) for product_term in queries.terms)
    if public_total(terms) is None and all(total_factors(single_term) is None for single_term in single_terms):
        raise ConfigError(
            "mechanism.answers nonnegative cannot give the number of rows from these queries; want a term that covers "
            "every value, privacy.units: N, or answers: unbiased"
        )


def _junction_tree(workload: Workload) -> JunctionTree:
    """The structure of the model: the measurements of a part concern the attributes of its clique alone."""
    queries = table_queries(workload)
    marginals = queries if isinstance(queries, Marginals) else queries.marginals
    return JunctionTree.of(marginals.domain, marginals.cliques)
