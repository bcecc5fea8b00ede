"""What ``hdmm`` measures part by part: each term or clique of the workload by its own strategy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np

from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.least_squares import local_least_squares, mean_absolute_error
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, noise_stddev
from dpcore.mechanisms.additive_noise import measure_parts
from dpcore.mechanisms.api import Plan, Progress, Release, Step
from dpcore.queries import Marginals, Products
from dpcore.strategies.allocation import weighted_shares
from dpcore.strategies.kronecker.union_of_products import TermStrategy, union_of_products
from dpcore.workload import Workload, part_sizes

# Largest number of answers, and of measured values. They take up to 48 bytes each, 6 GiB; ``plan`` states the memory.
LARGEST_ANSWERS: Final = 1 << 26


@final
@dataclass(frozen=True, eq=False)
class MeasuredParts:
    """OPT_+ with OPT_0 per attribute: each part has its own strategy, and local least squares gives its answers.

    The split of the budget minimises the weighted squared error of all answers. A marginal is its own best strategy.

    workload: The workload, of marginals or products.
    parts: The measurement of each part, in the order of the workload.

    Source: thesis of McKenna (2022), Definition 21 with a part per term; section 3.9, case 3, for the reconstruction.
    """

    workload: Workload
    parts: tuple[MeasuredPart, ...]

    @classmethod
    def of(cls, terms: PrivacyTerms, workload: Workload) -> MeasuredParts:
        """Optimises the strategies and the split of the budget, from public facts alone.

        Raises DomainTooLargeError if there are too many answers or measured values, and ConfigError for queries that
        have no strategy.
        """
        queries = table_queries(workload)
        _check_size("the workload", queries.size)
        try:
            strategies = union_of_products(queries, terms.noise)
        except ValueError as error:
            raise ConfigError(f"mechanism hdmm: {error}") from error
        _check_size("the strategy of mechanism hdmm", sum(strategy.queries.size for strategy in strategies))
        sizes = np.array(part_sizes(queries))
        # With equal shares, the noise of a part is proportional to the sensitivity of its strategy.
        scales = np.array(
            [
                terms.measure_scale(strategy.queries, Fraction(1)) / _denominator(strategy.queries)
                for strategy in strategies
            ]
        )
        rms_errors = np.sqrt(np.array([strategy.error for strategy in strategies]) / sizes)
        shares = weighted_shares(sizes, workload.weights * (scales / max(scales)) * rms_errors, terms.noise)
        parts = [MeasuredPart(*part) for part in zip(strategies, sizes.tolist(), shares, strict=True)]
        return cls(workload, tuple(parts))

    def weighted_error(self, terms: PrivacyTerms) -> float:
        """Expected sum over the answers of (weight * error)^2."""
        errors = [
            weight**2 * part.strategy.error * part.stddev(terms) ** 2
            for weight, part in zip(self.workload.weights.tolist(), self.parts, strict=True)
        ]
        return float(sum(errors))

    def release_plan(self, terms: PrivacyTerms) -> Plan:
        """The plan of a release that measures the parts and answers them by local least squares."""
        steps = tuple(
            Step(f"measure {part.queries.description}", float(part.share), 1, part.stddev(terms)) for part in self.parts
        )
        answers, measured = self.workload.queries.size, sum(part.queries.size for part in self.parts)
        error = sum(part.absolute_error(terms) for part in self.parts) / answers
        events = tuple(terms.measured(part.share) for part in self.parts)
        return Plan(steps, 0, 32 * answers + 16 * measured, error, events=events)

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        """Measures the parts and answers them by local least squares."""
        measured = self.measure(private, progress)
        reconstructions = [part.strategy.reconstruction for part in self.parts]
        answers = local_least_squares(list(zip(measured, reconstructions, strict=True)))  # ESTIMATE
        return Release(self.workload, answers, None, tuple(measured))

    def measure(self, private: PrivateStatistics, progress: Progress) -> list[Measurement]:
        """Measures the parts one after another."""
        private.expect(self.workload.queries)
        return measure_parts(private, [(part.queries, part.share) for part in self.parts], progress)


@final
@dataclass(frozen=True, eq=False)
class MeasuredPart:
    """The measurement of one part of the workload.

    strategy: What is measured.
    size: Number of answers of the part.
    share: Share of the whole budget.
    """

    strategy: TermStrategy
    size: int
    share: Fraction

    @property
    def queries(self) -> Marginals | Products:
        return self.strategy.queries

    def stddev(self, terms: PrivacyTerms) -> float:
        """Standard deviation of the noise in one measured value, in counts."""
        return noise_stddev(terms.noise, terms.measure_scale(self.queries, self.share)) / _denominator(self.queries)

    def absolute_error(self, terms: PrivacyTerms) -> float:
        """Sum of the expected absolute errors of the part's answers, in counts."""
        scale = terms.measure_scale(self.queries, self.share)
        return self.size * mean_absolute_error(
            terms.noise, scale, _denominator(self.queries), self.strategy.reconstruction
        )


def table_queries(workload: Workload) -> Marginals | Products:
    """The queries of a workload of marginals or products. Raises ConfigError for other workloads."""
    if not isinstance(workload.queries, Marginals | Products):
        raise ConfigError(
            "mechanism hdmm answers marginals, prefixes and ranges of a table; want workload.marginals or "
            "workload.products"
        )
    return workload.queries


def _denominator(queries: Marginals | Products) -> int:
    return queries.denominator if isinstance(queries, Products) else 1


def _check_size(what: str, size: int) -> None:
    if size > LARGEST_ANSWERS:
        advice = (
            "choose a smaller workload (max_cells leaves out large marginals), or a mechanism that answers from a "
            "model: independent, mwem, dual_query"
        )
        raise DomainTooLargeError(what, size, LARGEST_ANSWERS, advice)
