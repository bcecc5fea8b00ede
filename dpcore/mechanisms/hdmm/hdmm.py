"""HDMM: the high-dimensional matrix mechanism."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import ClassVar, Final, Literal, final

import numpy as np
from numpy.random import Generator

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.graphical.fitting.fit import FitSettings, fit_model
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.least_squares import local_least_squares, mean_absolute_error, row_total, total_factors
from dpcore.estimation.reconstruction.nonnegative import nonnegative_consistent, nonnegative_products
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, noise_stddev
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.hdmm.joint_strategy import Loss, Strategy, Together, measured_together
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB, COPIES
from dpcore.mechanisms.shared.totals import public_total
from dpcore.queries import Marginals, Products
from dpcore.strategies.allocation import weighted_shares
from dpcore.strategies.kronecker.union_of_products import TermStrategy, union_of_products
from dpcore.uncertainty import of_model
from dpcore.workload import Workload, part_sizes

_WORTH: Final = 1e-6  # What gains less is not worth measuring anything else.
_OF_PARTS: Final = {(strategy, "total", "unbiased") for strategy in ("best", "parts")}


@final
@dataclass(frozen=True)
class Hdmm:
    """Measures, for each part of a workload, the integer queries from which its answers come out with least error.

    A part is a term of products or a clique of marginals; the budget is split so that the weighted squared error of
    local least squares is least. All parts are measured together where that is possible and better: under Gaussian
    noise by residuals, of marginals with the minimum possible weighted squared error (``measured_residuals``,
    ``products``), under Laplace noise by marginals or products from which the others follow (``marginals``,
    ``terms``). Part by part a marginal is its own best strategy, so that the measured values are those of
    ``gaussian`` or ``laplace``.

    reconstruction: "least_squares" answers each part from its own measured values: unbiased, with a standard deviation
        and an interval for each answer; those of different parts need not agree, those measured together do.
        "graphical" fits one graphical model to the measured values of all parts (HDMM+PGM): answers agree, none is
        negative, and there are synthetic rows; no error bars.
    strategy: "best" by the expected weighted squared error, "parts", "residuals", "marginals" or, for unions of
        products about few attributes, queries about their whole "table" (``hdmm_symmetric``, ``hdmm_kronecker``), or
        about many, a product for each of some "clusters" of terms (``hdmm_clusters``).
    loss: What the queries are chosen for: the "total" weighted squared error, or, of marginals by residuals, the
        "largest" weighted variance of an answer.
    answers: "unbiased", or "nonnegative": the nearest ones that tables without negative cells have, which agree on
        shared attributes where the workload is of marginals. Mostly nearer to the truth, but biased, without error
        bars. The measured values are released alike.
    max_model_mb: Largest graphical model, in MiB of the tables of its junction tree.
    tolerance: How far from the optimum a fit may stop, in units a measured value whose own noise is worth 1/2. Answers
        that sum up many cells want a small one.
    iterations: Most steps of a fit; it takes the more, the less noise there is.

    Source: thesis of McKenna (2022), chapter 3: OPT_+ (Definition 21) with OPT_0 for each attribute, reconstruction as
    in section 3.9, case 3, or as in section 4.5; Xiao, He, Zhang and Kifer (2023) for residuals.
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
    tolerance: float = 1e-3
    iterations: int = 2000

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        together, parts = self._select(terms, workload)
        plan = self._of_parts(terms, workload, parts) if together is None else together.of_release(terms)
        if self.answers == "nonnegative":
            return replace(plan, notes=(*plan.notes, "the expected error is that of the unbiased answers"))
        return plan

    def _of_parts(self, terms: PrivacyTerms, workload: Workload, parts: list[_Part]) -> Plan:
        steps = tuple(
            Step(f"measure {part.queries.description}", float(part.share), 1, part.stddev(terms)) for part in parts
        )
        size, measured = workload.queries.size, sum(part.queries.size for part in parts)
        absolute = sum(part.absolute_error(terms) for part in parts) / size
        events = tuple(terms.measured(part.share) for part in parts)
        memory = 32 * size + 16 * measured
        if self.reconstruction == "least_squares":
            return Plan(steps, 0, memory, absolute, events=events)
        notes = (f"least squares from the same values would be off by {absolute:,.3g} counts an answer",)
        return Plan(steps, 0, memory + COPIES * 8 * _tree(workload).cells, None, notes, events)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        together, parts = self._select(private.terms, workload)  # SELECT
        if together is None:
            release = self._run_parts(private, workload, parts, progress)
        else:
            release = together.run(private, progress)
        return release if self.answers == "unbiased" else _nonnegative(private.terms, release)

    def _run_parts(
        self, private: PrivateStatistics, workload: Workload, parts: list[_Part], progress: Progress
    ) -> Release:
        private.expect(workload.queries)
        measured: list[Measurement] = []
        before, total = 0, sum(part.queries.size for part in parts)
        for part in parts:
            report = partial(_of_all, progress, before, total)
            measured.append(private.measure(part.queries, part.share, report))  # MEASURE
            before += part.queries.size
            progress(before, total)
        if self.reconstruction == "graphical":
            return self._graphical(private.terms, workload, measured)
        reconstructions = [part.strategy.reconstruction for part in parts]
        answers = local_least_squares(list(zip(measured, reconstructions, strict=True)))  # ESTIMATE
        return Release(workload, answers, None, tuple(measured))

    def _graphical(self, terms: PrivacyTerms, workload: Workload, measured: list[Measurement]) -> Release:
        rows = public_total(terms) or max(1.0, row_total(measured))
        domain = _table(workload).domain
        fitting = FitSettings(tolerance=self.tolerance, iterations=self.iterations)
        model = fit_model(domain, measured, rows, fitting).model  # ESTIMATE
        return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))

    def _select(self, terms: PrivacyTerms, workload: Workload) -> tuple[Together | None, list[_Part]]:
        """The strategy, from public facts alone: the same for a plan and for its run.

        What is measured together comes without parts.
        """
        if not (0 < self.max_model_mb < float("inf") and 0 < self.tolerance <= 1 and self.iterations >= 1):
            given = f"max_model_mb {self.max_model_mb:g}, tolerance {self.tolerance:g}, iterations {self.iterations}"
            raise ConfigError(f"mechanism.{given}; want 0 < max_model_mb < inf, 0 < tolerance <= 1, iterations >= 1")
        if self.answers == "nonnegative":
            _check_rows(terms, _table(workload))
        parts = _parts(terms, workload)
        if self.reconstruction == "graphical":
            if (self.strategy, self.loss, self.answers) not in _OF_PARTS:
                given = f"mechanism.strategy {self.strategy}, loss {self.loss}, answers {self.answers}"
                raise ConfigError(
                    f"{given} with reconstruction graphical; want strategy: best, loss: total, answers: unbiased, or "
                    "reconstruction: least_squares"
                )
            self._check_model(workload)
            if public_total(terms) is None and all(total_factors(part.queries) is None for part in parts):
                raise ConfigError(
                    "mechanism.reconstruction graphical cannot give the number of rows from these ranges; want one of "
                    "all values among them, or privacy.units: N"
                )
        elif (together := self._together(terms, workload, parts)) is not None:
            return together, []
        return None, parts

    def _together(self, terms: PrivacyTerms, workload: Workload, parts: list[_Part]) -> Together | None:
        """What is measured for all parts, where that is asked for or does better than the parts."""
        joint = measured_together(terms, workload, self.strategy, self.loss)
        if joint is None or self.strategy != "best" or self.loss != "total":
            return joint
        weighted = [
            weight**2 * part.strategy.error * part.stddev(terms) ** 2
            for weight, part in zip(workload.weights.tolist(), parts, strict=True)
        ]
        return joint if joint.weighted_error(terms) < (1 - _WORTH) * sum(weighted) else None

    def _check_model(self, workload: Workload) -> None:
        largest = int(self.max_model_mb * CELLS_IN_MB)
        cells = _tree(workload).cells
        if cells > largest:
            advice = "choose cliques that overlap less, a larger max_model_mb, or reconstruction: least_squares"
            raise DomainTooLargeError("the model of mechanism hdmm", cells, largest, advice)


@dataclass(frozen=True, eq=False)
class _Part:
    """What is measured for one part of the workload. size: Its answers. share: Of the whole budget."""

    strategy: TermStrategy
    size: int
    share: Fraction

    @property
    def queries(self) -> Marginals | Products:
        return self.strategy.queries

    def stddev(self, terms: PrivacyTerms) -> float:
        """Of the noise in one measured value."""
        return noise_stddev(terms.noise, terms.measure_scale(self.queries, self.share)) / _denominator(self.queries)

    def absolute_error(self, terms: PrivacyTerms) -> float:
        """Sum of the expected absolute errors of the part's answers."""
        scale = terms.measure_scale(self.queries, self.share)
        return self.size * mean_absolute_error(
            terms.noise, scale, _denominator(self.queries), self.strategy.reconstruction
        )


def _parts(terms: PrivacyTerms, workload: Workload) -> list[_Part]:
    queries = _table(workload)
    _check_size("the workload", queries.size)
    try:
        strategies = union_of_products(queries, terms.noise)
    except ValueError as error:
        raise ConfigError(f"mechanism hdmm: {error}") from error
    _check_size("the strategy of mechanism hdmm", sum(strategy.queries.size for strategy in strategies))
    sizes = np.array(part_sizes(queries))
    # Noise of one share is proportional to a strategy's sensitivity, which so multiplies the weight of its term.
    unit_scales = [terms.measure_scale(part.queries, Fraction(1)) / _denominator(part.queries) for part in strategies]
    a_value = np.sqrt(np.array([strategy.error for strategy in strategies]) / sizes)
    shares = weighted_shares(
        sizes, workload.weights * (np.array(unit_scales) / max(unit_scales)) * a_value, terms.noise
    )
    return [_Part(*part) for part in zip(strategies, sizes.tolist(), shares, strict=True)]


def _nonnegative(terms: PrivacyTerms, release: Release) -> Release:
    """With the nearest answers that no negative cell makes."""
    queries, given, rows = _table(release.workload), release.answers, public_total(terms)
    if isinstance(queries, Marginals):
        values = nonnegative_consistent(queries, given.values, given.stddev, rows)
    else:
        values = nonnegative_products(queries, given.values, given.stddev, rows)
    return replace(release, answers=of_model(values))


def _check_rows(terms: PrivacyTerms, queries: Marginals | Products) -> None:
    """Answers without negative cells need the number of rows, and every answer a standard deviation."""
    if isinstance(queries, Marginals):
        return
    if not all(matrix.any(axis=1).all() for term in queries.terms for matrix in term.matrices):
        raise ConfigError("mechanism.answers nonnegative, and a query that asks for no value; want one or more each")
    alone = (Products(queries.domain, (term,)) for term in queries.terms)
    if public_total(terms) is None and all(total_factors(term) is None for term in alone):
        raise ConfigError(
            "mechanism.answers nonnegative cannot give the number of rows from these queries; want a term that covers "
            "every value, privacy.units: N, or answers: unbiased"
        )


def _table(workload: Workload) -> Marginals | Products:
    if not isinstance(workload.queries, Marginals | Products):
        given = "mechanism hdmm answers marginals, prefixes and ranges of a table"
        raise ConfigError(f"{given}; want workload.marginals or workload.products")
    return workload.queries


def _tree(workload: Workload) -> JunctionTree:
    """The structure of the model: what is measured for a clique is about that clique alone."""
    queries = _table(workload)
    marginals = queries if isinstance(queries, Marginals) else queries.marginals
    return JunctionTree.of(marginals.domain, marginals.cliques)


def _denominator(queries: Marginals | Products) -> int:
    return queries.denominator if isinstance(queries, Products) else 1


def _check_size(what: str, size: int) -> None:
    if size > LARGEST_ANSWERS:
        advice = "choose a smaller workload, or a mechanism that answers from a model: independent, mwem, dual_query"
        raise DomainTooLargeError(what, size, LARGEST_ANSWERS, advice)


def _of_all(progress: Progress, before: int, total: int, done: int, part: int) -> None:
    """Progress inside one part, as values of all; its end is reported once, also where it is replayed."""
    if done < part:
        progress(before + done, total)
