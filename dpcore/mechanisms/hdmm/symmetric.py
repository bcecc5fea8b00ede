"""What ``hdmm`` measures for products over few attributes under Gaussian noise: the optimal symmetric queries."""

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
from dpcore.mechanisms.hdmm.strategy_key import ProductsKey
from dpcore.queries import Marginals, Products, SymmetricQueries
from dpcore.strategies.symmetric.optimum import symmetric_optimum
from dpcore.strategies.symmetric.strategy import SymmetricStrategy, symmetric_strategy
from dpcore.strategies.symmetric.symmetry import SymmetricGram
from dpcore.strategies.symmetric.variances import answer_variances
from dpcore.uncertainty import Answers
from dpcore.workload import Workload

Real = NDArray[np.float64]

MAX_CELLS: Final = 1 << 21  # Cells of all attributes of the workload together.
MAX_SIZE: Final = 1 << 10  # Values of one attribute.
MAX_ORBITS: Final = 1 << 10  # Orbits of exchangeable cells; the search for more would take minutes.
MAX_GRAM_ENTRIES: Final = 1 << 26  # Entries of the Gram matrices of all terms together, 512 MiB.
_STOPPING_GAP: Final = 1e-4  # Relative gap of the squared error at which the search stops.
_SEARCH_STEPS: Final = 400  # Steps of the search for up to _FULL_SEARCH_ORBITS orbits; fewer for more orbits.
_FULL_SEARCH_ORBITS: Final = 256
_WEIGHT_BITS: Final = 20  # Bits of the strategy's integer weights; fewer if an entry would exceed _MAX_ENTRY.
_MAX_ENTRY: Final = 1 << 20  # Answers about 2^32 rows, in steps of the noise's grid, then stay within 2^62.


@final
@dataclass(frozen=True, eq=False)
class MeasuredSymmetric:
    """The optimal strategy among those with the symmetries of the workload, with a certificate of its optimality.

    workload: A workload of products with two or more terms.
    queries: The queries that are measured, over the whole domain.
    selected: The strategy, with the norms of its reconstruction.

    Source: thesis of McKenna (2022), Definition 13, for the problem; its solution by blocks is this project's.
    """

    workload: Workload
    queries: SymmetricQueries
    selected: _StrategyWithNorms

    @classmethod
    def of(cls, terms: PrivacyTerms, workload: Workload) -> MeasuredSymmetric | None:
        """Searches for the strategy, from public facts alone.

        Returns None for other queries than products, for a single term, for Laplace noise, for attributes with too many
        values or cells, for too few exchangeable values, and if the noise has too many bits.

        The last few strategies are cached, so that a run does not search again for the strategy of its plan.
        """
        queries = workload.queries
        if terms.noise is Noise.LAPLACE or not isinstance(queries, Products) or len(queries.terms) < 2:
            return None
        names = queries.domain.canonical({name for product_term in queries.terms for name in product_term.clique})
        if not names or max(queries.domain.shape(names)) > MAX_SIZE or queries.size > LARGEST_ANSWERS:
            return None
        cliques = [product_term.clique for product_term in queries.terms]
        gram_entries = sum(size**2 for clique in cliques for size in queries.domain.shape(clique))
        if queries.domain.size(names) > MAX_CELLS or gram_entries > MAX_GRAM_ENTRIES:
            return None
        projected = Products(queries.domain.project(names), queries.terms)
        selected = _cached_strategy(ProductsKey.of(projected, workload))
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

    def release_plan(self, terms: PrivacyTerms) -> Plan:
        """The plan of a release that measures this strategy with the whole budget."""
        stddev = self._stddev(terms)
        step = Step(f"measure {self.queries.description}", 1.0, 1, stddev, weighted_sums=True)
        memory = 32 * self._queries.size + 16 * self.queries.size + 32 * math.prod(self.queries.read_shape)
        notes: tuple[str, ...] = ()
        if not terms.unit.replaced:  # The bound is proven for adding or removing a row only.
            excess = math.sqrt(1 + max(self.selected.strategy.gap, 0.0)) - 1
            notes = (f"at most {excess:.2%} above the minimum weighted error of linear queries with Gaussian noise",)
        error = math.sqrt(2 / math.pi) * stddev * float(self.selected.norms.mean())
        return Plan((step,), 0, memory, error, notes, (terms.measured(Fraction(1)),))

    def run(self, private: PrivateStatistics, progress: Progress) -> Release:
        """Measures the strategy with the whole budget and answers the workload by least squares."""
        measured = private.measure(self.queries, Fraction(1), progress)  # MEASURE
        table = self.selected.strategy.estimate(measured.values)  # ESTIMATE
        values = answers_of_products(self._queries, lambda marginals: self._marginals(table, marginals))
        stddev = measured.stddev * self.selected.norms
        # The interval is widened on each side by one step of the noise's grid in one value of each block.
        steps = math.sqrt(len(self.queries.blocks)) * self.selected.norms
        widths = unit_quantile(measured.noise) * stddev + steps
        answers = Answers(values, stddev, values - widths, values + widths, measured=True)
        return Release(self.workload, answers, None, (measured,))

    def _marginals(self, table: Real, marginals: Marginals) -> Real:
        """The marginals of an estimated table, concatenated; () is the sum of all cells."""
        names = self.queries.clique
        cells = table.reshape(self.queries.domain.shape(names))
        summed_axes = [
            tuple(axis for axis, name in enumerate(names) if name not in clique) for clique in marginals.cliques
        ]
        return np.concatenate([np.ravel(cells.sum(axis=axes)) for axes in summed_axes])

    @property
    def _queries(self) -> Products:
        assert isinstance(self.workload.queries, Products)
        return self.workload.queries

    def _stddev(self, terms: PrivacyTerms) -> float:
        """Standard deviation of the noise in one integer answer."""
        return noise_stddev(terms.noise, terms.measure_scale(self.queries, Fraction(1)))


@dataclass(frozen=True, eq=False)
class _StrategyWithNorms:
    """A strategy A for a workload.

    norms: |w A^+|_2 of each answer w, float64 [answers]: its standard deviation at noise of variance 1.
    """

    strategy: SymmetricStrategy
    norms: Real


@lru_cache(maxsize=4)
def _cached_strategy(key: ProductsKey) -> _StrategyWithNorms | None:
    """The strategy, or None if the workload has none that is small enough."""
    try:
        gram = SymmetricGram.of(key.queries, key.squared_weights)
    except ValueError:
        return None
    if len(gram.sizes) > MAX_ORBITS:
        return None
    steps = max(20, min(_SEARCH_STEPS, int(_SEARCH_STEPS * (_FULL_SEARCH_ORBITS / len(gram.sizes)) ** 3)))
    optimum = symmetric_optimum(gram, _STOPPING_GAP, steps)
    bits = _WEIGHT_BITS
    try:
        strategy = symmetric_strategy(key.queries, optimum, bits)
        while strategy.queries.largest > _MAX_ENTRY:
            bits -= (strategy.queries.largest // _MAX_ENTRY).bit_length()
            strategy = symmetric_strategy(key.queries, optimum, bits)
    except (ValueError, np.linalg.LinAlgError):
        return None
    return _StrategyWithNorms(strategy, np.sqrt(answer_variances(strategy, key.queries)))
