"""The candidates of AIM for a workload of products: its terms, and these restricted to some of their attributes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import combinations
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.fitting.fit import GraphicalFit
from dpcore.estimation.least_squares import total_factors
from dpcore.estimation.linear_answers import answers_of_products
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.scores import LinearL1Error
from dpcore.measurement import noise_stddev
from dpcore.mechanisms.aim.marginals import sizes_that_fit
from dpcore.mechanisms.shared.totals import public_total
from dpcore.queries import Marginals, Product, Products
from dpcore.strategies.kronecker.union_of_products import TermStrategy, union_of_products
from dpcore.workload import LARGEST_CLOSURE, Workload, relative

_SMALL_SHARE: Final = Fraction(1, 1 << 10)  # Its noise is wide, so that rounding to whole steps hardly matters.


@dataclass(frozen=True, eq=False)
class _Candidate:
    """One candidate.

    term: Its queries.
    strategy: What is measured in order to answer them.
    stddevs: Standard deviation of each answer that is reconstructed from the strategy, measured for the share
        ``_SMALL_SHARE``; float64 [term.size].
    weight: Its weight, as in ``ProductCandidates``.
    term_weight: Its weight as a term of the workload, above 0; 0 if it is only a part of terms.
    """

    term: Product
    strategy: Marginals | Products
    stddevs: NDArray[np.float64]
    weight: float
    term_weight: float


@final
@dataclass(frozen=True, eq=False)
class ProductCandidates:
    """The terms of a workload, and these restricted to some of their attributes. Implements ``RoundCandidates``.

    A term W_1 x ... x W_k on a clique s gives one candidate for each nonempty subset r of s: the product of the
    matrices of r. A candidate is measured by the product of the best strategies for its matrices
    (``union_of_products``).

    weights: Let a_i be the mean L1 norm of a column of a term's matrix for attribute i, and a_s = prod over i in s of
        a_i. One row of the table then contributes to a_s answers of a term on s. An error of one row changes a_r
        answers of a candidate on r, and a_s answers of a term on s that contains r. Hence

            w_r = sum over terms s of c_s |r intersected with s| a_s / a_r

        generalises line 8 of Algorithm 6: for marginals all a are 1.
    parts: The candidates, by number of attributes.
    """

    domain: Domain
    full: Domain
    parts: tuple[_Candidate, ...]

    @classmethod
    def of(cls, workload: Workload, terms: PrivacyTerms) -> ProductCandidates:
        """The candidates of a workload, without the largest ones if all of them would not fit in memory.

        Raises: ConfigError if an attribute has too many values to optimise a strategy for, or if the number of rows is
            private and no measurement determines it.
        """
        queries = workload.queries
        assert isinstance(queries, Products)
        closure = list(_closure(queries, relative(workload.weights)))
        max_sizes = [max(term.size, queries.domain.size(term.clique)) for term, _ in closure]
        cliques = [term.clique for term, _ in closure]
        _, fits = sizes_that_fit(max_sizes, cliques)
        kept = [pair for pair, fit in zip(closure, fits.tolist(), strict=True) if fit]
        try:
            strategies = union_of_products(Products(queries.domain, tuple(term for term, _ in kept)), terms.noise)
        except ValueError as error:
            raise ConfigError(f"mechanism aim: {error}") from error
        weights = _weights(workload, [term for term, _ in kept])
        parts = tuple(
            _Candidate(term, strategy.queries, _stddevs(terms, strategy), weight, term_weight)
            for (term, term_weight), strategy, weight in zip(kept, strategies, weights, strict=True)
        )
        _check_total(terms, parts)
        return cls(queries.domain.project(queries.domain.named(cliques)), queries.domain, parts)

    def only(self, kept: NDArray[np.bool_]) -> ProductCandidates:
        parts = tuple(part for part, keep in zip(self.parts, kept.tolist(), strict=True) if keep)
        return ProductCandidates(self.domain, self.full, parts)

    def one_way(self) -> ProductCandidates:
        return self.only(np.array([len(clique) == 1 for clique in self.cliques]))

    def whole(self) -> ProductCandidates:
        terms = tuple(replace(part, weight=part.term_weight) for part in self.parts if part.term_weight > 0)
        return ProductCandidates(self.domain, self.full, terms)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return tuple(part.term.clique for part in self.parts)

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.array([part.term.size for part in self.parts], dtype=np.int64)

    @property
    def weights(self) -> NDArray[np.float64]:
        return np.array([part.weight for part in self.parts])

    @property
    def requested(self) -> NDArray[np.bool_]:
        return np.array([part.term_weight > 0 for part in self.parts])

    @property
    def queries(self) -> Products:
        return Products(self.full, tuple(part.term for part in self.parts))

    @property
    def total_noise(self) -> NDArray[np.float64]:
        return np.array([float(part.stddevs.sum()) for part in self.parts])

    @property
    def cells(self) -> int:
        return int(self.sizes.sum()) + sum(map(self.full.size, set(self.cliques)))

    def answers(self, fit: GraphicalFit) -> NDArray[np.float64]:
        return answers_of_products(self.queries, lambda marginals: fit.total * fit.calibrated.vector(marginals.cliques))

    def score(self, estimate: NDArray[np.float64], penalties: NDArray[np.float64]) -> LinearL1Error:
        return LinearL1Error(estimate, self.weights, penalties)

    def strategy(self, index: int) -> Marginals | Products:
        return self.parts[index].strategy

    def stddevs(self, terms: PrivacyTerms, share: Fraction) -> NDArray[np.float64]:
        # The noise of all queries depends on the share in the same way as that of any one marginal.
        marginal = Marginals(self.full, self.cliques[:1])
        ratio = terms.measure_scale(marginal, share) / terms.measure_scale(marginal, _SMALL_SHARE)
        return np.asarray(ratio * np.concatenate([part.stddevs for part in self.parts]))

    def value_stddev(self, terms: PrivacyTerms, share: Fraction) -> float | None:
        distinct = {_value_stddev(terms, part.strategy, share) for part in self.parts}
        return distinct.pop() if len(distinct) == 1 else None


def _closure(queries: Products, weights: NDArray[np.float64]) -> Iterator[tuple[Product, float]]:
    """Every term and its restrictions, each once, the ones of fewest attributes first; and its weight as a term."""
    term_weights: dict[tuple[object, ...], float] = {}
    for term, weight in zip(queries.terms, weights.tolist(), strict=True):
        term_weights[_key(term)] = term_weights.get(_key(term), 0.0) + weight
    closure: dict[tuple[object, ...], Product] = {}
    for term in queries.terms:
        pairs = list(zip(term.clique, term.matrices, strict=True))
        for size in range(1, len(pairs) + 1):
            for chosen in combinations(pairs, size):
                part = Product(tuple(name for name, _ in chosen), tuple(matrix for _, matrix in chosen))
                closure.setdefault(_key(part), part)
        if len(closure) > LARGEST_CLOSURE:
            raise ConfigError(f"the workload has more than {LARGEST_CLOSURE:,} parts of terms; want a lower order")
    order = sorted(closure, key=lambda key: (len(closure[key].clique), closure[key].clique))
    return ((closure[key], term_weights.get(key, 0.0)) for key in order)


def _key(term: Product) -> tuple[object, ...]:
    """A key that is equal for equal terms."""
    return (term.clique, *(hashlib.sha256(matrix.tobytes()).digest() for matrix in term.matrices))


def _weights(workload: Workload, candidates: Sequence[Product]) -> list[float]:
    """The weight w_r of each candidate, divided by the largest."""
    assert isinstance(workload.queries, Products)
    attribute_weights = dict.fromkeys(workload.queries.domain.names, 0.0)
    for term, weight in zip(workload.queries.terms, relative(workload.weights).tolist(), strict=True):
        for name in term.clique:
            attribute_weights[name] += weight * _answers_per_row(term)
    weights = [sum(attribute_weights[name] for name in term.clique) / _answers_per_row(term) for term in candidates]
    return list(relative(np.array(weights)).tolist())


def _answers_per_row(term: Product) -> float:
    """a_s: the mean number of answers to which one row contributes, over all possible rows."""
    return math.prod(float(np.abs(matrix).sum(axis=0).mean()) for matrix in term.matrices)


def _stddevs(terms: PrivacyTerms, strategy: TermStrategy) -> NDArray[np.float64]:
    """Standard deviation of each reconstructed answer for the share ``_SMALL_SHARE``, float64 [term.size]."""
    norms = [np.sqrt((factor**2).sum(axis=1)) for factor in strategy.reconstruction]
    value_stddev = _value_stddev(terms, strategy.queries, _SMALL_SHARE)
    return np.asarray(value_stddev * reduce(np.multiply.outer, norms, np.ones(())).ravel())


def _value_stddev(terms: PrivacyTerms, queries: Marginals | Products, share: Fraction) -> float:
    """Standard deviation of the noise in one measured value."""
    steps = queries.denominator if isinstance(queries, Products) else 1
    return noise_stddev(terms.noise, terms.measure_scale(queries, share)) / steps


def _check_total(terms: PrivacyTerms, parts: Sequence[_Candidate]) -> None:
    """Raises: ConfigError unless the number of rows is public or follows from the candidates of one attribute."""
    one_way = [part.strategy for part in parts if len(part.term.clique) == 1]
    if public_total(terms) is None and all(total_factors(queries) is None for queries in one_way):
        raise ConfigError(
            "mechanism aim cannot give the number of rows from these ranges; want one of all values among them, or "
            "privacy.units: N"
        )
