"""What ``hdmm`` measures for a union of products about few attributes under Gaussian noise: the best queries at all."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.least_squares import unit_quantile
from dpcore.estimation.linear_answers import answers_of_products
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Noise, noise_stddev
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS
from dpcore.mechanisms.api import Plan, Progress, Release, Step
from dpcore.mechanisms.hdmm.strategy_key import AskedProducts
from dpcore.queries import Marginals, Products, SymmetricQueries
from dpcore.strategies.symmetric.optimum import symmetric_optimum
from dpcore.strategies.symmetric.strategy import SymmetricStrategy, symmetric_strategy
from dpcore.strategies.symmetric.symmetry import SymmetricGram
from dpcore.strategies.symmetric.variances import answer_variances
from dpcore.uncertainty import Answers
from dpcore.workload import Workload

Real = NDArray[np.float64]

LARGEST_CELLS: Final = 1 << 21  # Of the attributes that are asked for, together.
LARGEST_SIZE: Final = 1 << 10  # Values of one attribute.
LARGEST_ORBITS: Final = 1 << 10  # Choices of a class for each attribute: more would take minutes.
LARGEST_GRAMS: Final = 1 << 26  # Entries of the Gram matrices of all terms: 512 MiB.
_GAP: Final = 1e-4  # Of the squared error: less is not worth the time.
_STEPS: Final = 400  # Of the search, where a block has no more than so many orbits:
_ORBITS: Final = 256
_BITS: Final = 20  # Of the strategy's weights, or fewer where entries are larger than
_LARGEST_ENTRY: Final = 1 << 20  # this: answers about 2^32 rows, in steps of the noise's grid, stay within 2^62.


@final
@dataclass(frozen=True, eq=False)
class MeasuredSymmetric:
    """Products asked of few attributes: the optimum through the symmetry of their values, with a certificate.

    workload: A workload of products, of two terms or more.
    queries: The queries that are measured.
    selected: The strategy, with its errors.

    Source: thesis of McKenna (2022), Definition 13, for the problem; its solution by blocks is this project's.
    """

    workload: Workload
    queries: SymmetricQueries
    selected: _Selected

    @classmethod
    def of(cls, terms: PrivacyTerms, workload: Workload) -> MeasuredSymmetric | None:
        """From public facts alone; None for other queries or noise, one term, attributes of too many cells, too many
        values that no other is like, and noise of too many bits.

        Kept for the last few workloads, so that a run does not choose again what its plan chose.
        """
        queries = workload.queries
        if terms.noise is Noise.LAPLACE or not isinstance(queries, Products) or len(queries.terms) < 2:
            return None
        named = queries.domain.canonical({name for term in queries.terms for name in term.clique})
        if not named or max(queries.domain.shape(named)) > LARGEST_SIZE or queries.size > LARGEST_ANSWERS:
            return None
        grams = sum(size**2 for term in queries.terms for size in queries.domain.shape(term.clique))
        if queries.domain.size(named) > LARGEST_CELLS or grams > LARGEST_GRAMS:
            return None
        projected = Products(queries.domain.project(named), queries.terms)
        selected = _selected(AskedProducts.of(projected, workload))
        if selected is None:
            return None
        measured = cls(workload, replace(selected.strategy.queries, domain=queries.domain), selected)
        try:
            measured._stddev(terms)
        except ValueError:
            return None
        return measured

    def weighted_error(self, terms: PrivacyTerms) -> float:
        """Expected sum over the answers of (weight * error)^2."""
        return (self._stddev(terms) * float(self.workload.weights.max())) ** 2 * self.selected.strategy.variance

    def of_release(self, terms: PrivacyTerms) -> Plan:
        stddev = self._stddev(terms)
        step = Step(f"measure {self.queries.description}", 1.0, 1, stddev)
        memory = 32 * self._queries.size + 16 * self.queries.size + 32 * math.prod(self.queries.read_shape)
        notes: tuple[str, ...] = ()
        if not terms.unit.replaced:  # The bound is of rows that are added or removed.
            beyond = math.sqrt(1 + max(self.selected.strategy.gap, 0.0)) - 1
            notes = (f"at most {beyond:.2%} above the least weighted error of linear queries with Gaussian noise",)
        absolute = math.sqrt(2 / math.pi) * stddev * float(self.selected.norms.mean())
        return Plan((step,), 0, memory, absolute, notes, (terms.measured(Fraction(1)),))

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        measured = private.measure(self.queries, Fraction(1), progress)  # MEASURE
        table = self.selected.strategy.estimate(measured.values)  # ESTIMATE
        values = answers_of_products(self._queries, lambda marginals: self._marginals(table, marginals))
        stddev = measured.stddev * self.selected.norms
        # What a step of the noise's grid in one value of each block can move an answer is added on each side.
        steps = math.sqrt(len(self.queries.blocks)) * self.selected.norms
        widths = unit_quantile(measured.noise) * stddev + steps
        answers = Answers(values, stddev, values - widths, values + widths, measured=True)
        return Release(self.workload, answers, None, (measured,))

    def _marginals(self, table: Real, marginals: Marginals) -> Real:
        """Sums of the table's cells; () is the sum of all."""
        clique = self.queries.clique
        cells = table.reshape(self.queries.domain.shape(clique))
        axes = [tuple(axis for axis, name in enumerate(clique) if name not in one) for one in marginals.cliques]
        return np.concatenate([np.ravel(cells.sum(axis=each)) for each in axes])

    @property
    def _queries(self) -> Products:
        assert isinstance(self.workload.queries, Products)
        return self.workload.queries

    def _stddev(self, terms: PrivacyTerms) -> float:
        """Of the noise in one integer answer."""
        return noise_stddev(terms.noise, terms.measure_scale(self.queries, Fraction(1)))


@dataclass(frozen=True, eq=False)
class _Selected:
    """norms: |w A^+| of each answer w, float64 [answers]: its standard deviation at noise of variance 1."""

    strategy: SymmetricStrategy
    norms: Real


@lru_cache(maxsize=4)
def _selected(clique_weights: AskedProducts) -> _Selected | None:
    """Found once for a plan and its run; None where there is none."""
    try:
        gram = SymmetricGram.of(clique_weights.queries, clique_weights.squared_weights)
    except ValueError:
        return None
    if len(gram.sizes) > LARGEST_ORBITS:
        return None
    steps = max(20, min(_STEPS, int(_STEPS * (_ORBITS / len(gram.sizes)) ** 3)))
    optimum = symmetric_optimum(gram, _GAP, steps)
    bits = _BITS
    try:
        strategy = symmetric_strategy(clique_weights.queries, optimum, bits)
        while strategy.queries.largest > _LARGEST_ENTRY:
            bits -= (strategy.queries.largest // _LARGEST_ENTRY).bit_length()
            strategy = symmetric_strategy(clique_weights.queries, optimum, bits)
    except (ValueError, np.linalg.LinAlgError):
        return None
    return _Selected(strategy, np.sqrt(answer_variances(strategy, clique_weights.queries)))
