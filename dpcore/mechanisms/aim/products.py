"""Linear queries that AIM may measure for a workload of products."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from dpcore.mechanisms.aim.marginals import sizes_that_fit, used_domain
from dpcore.mechanisms.shared.totals import public_total
from dpcore.queries import Marginals, Product, Products
from dpcore.strategies.kronecker.union_of_products import TermStrategy, union_of_products
from dpcore.workload import LARGEST_CLOSURE, Workload, relative

_WIDE: Final = Fraction(1, 1 << 10)  # Discrete noise is then wide enough to follow the share.


@dataclass(frozen=True, eq=False)
class _Candidate:
    """One term and what is measured for it.

    stddevs: float64 [term.size], of each answer as it is read off what was measured for the share _WIDE.
    asked: Whether the workload asks it itself.
    """

    term: Product
    strategy: Marginals | Products
    stddevs: NDArray[np.float64]
    weight: float
    asked: bool


@final
@dataclass(frozen=True, eq=False)
class ProductCandidates:
    """The terms of a workload, and those restricted to some of their attributes, with weights; see ``Candidates``.

    A term W_1 x ... x W_k on a clique s gives a candidate for each part r of s, the product of the matrices of r. What
    is measured for it is the best strategy for each matrix (``union_of_products``).

    weights: With a_i, the mean L1 norm of a column of a term's matrix for attribute i, a term has the size
        a_s = prod over i in s of a_i, the number of answers in which a row counts. An error of one row in a candidate,
        a_r in its answers, is one of a_s in the answers of a term s that contains it, so that

            w_r = sum over terms s of c_s |r intersected with s| a_s / a_r

        generalises line 8 of Algorithm 6: for marginals all a are 1.
    """

    domain: Domain
    full: Domain
    parts: tuple[_Candidate, ...]

    @classmethod
    def of(cls, workload: Workload, terms: PrivacyTerms) -> ProductCandidates:
        """The largest candidates are left out where all of them would not fit in memory.

        Raises ConfigError where an attribute is too large to optimise for, or no measurement determines the number of
        rows.
        """
        queries = workload.queries
        assert isinstance(queries, Products)
        closure = list(_closure(queries))
        largest = [max(term.size, queries.domain.size(term.clique)) for term, _ in closure]
        cliques = [term.clique for term, _ in closure]
        _, fits = sizes_that_fit(largest, cliques)
        kept = [pair for pair, fit in zip(closure, fits.tolist(), strict=True) if fit]
        try:
            strategies = union_of_products(Products(queries.domain, tuple(term for term, _ in kept)), terms.noise)
        except ValueError as error:
            raise ConfigError(f"mechanism aim: {error}") from error
        weights = _weights(workload, [term for term, _ in kept])
        parts = tuple(
            _Candidate(term, strategy.queries, _stddevs(terms, strategy), weight, asked)
            for (term, asked), strategy, weight in zip(kept, strategies, weights, strict=True)
        )
        _check_total(terms, parts)
        return cls(used_domain(queries.domain, cliques), queries.domain, parts)

    def only(self, kept: NDArray[np.bool_]) -> ProductCandidates:
        parts = tuple(part for part, keep in zip(self.parts, kept.tolist(), strict=True) if keep)
        return ProductCandidates(self.domain, self.full, parts)

    def one_way(self) -> ProductCandidates:
        return self.only(np.array([len(clique) == 1 for clique in self.cliques]))

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
    def asked(self) -> NDArray[np.bool_]:
        return np.array([part.asked for part in self.parts])

    @property
    def queries(self) -> Products:
        return Products(self.full, tuple(part.term for part in self.parts))

    @property
    def noisiness(self) -> NDArray[np.float64]:
        return np.array([float(part.stddevs.sum()) for part in self.parts])

    @property
    def cells(self) -> int:
        return int(self.sizes.sum()) + sum(map(self.full.size, set(self.cliques)))

    def answers(self, fit: GraphicalFit) -> NDArray[np.float64]:
        return answers_of_products(self.queries, lambda asked: fit.total * fit.calibrated.vector(asked.cliques))

    def score(self, estimate: NDArray[np.float64], penalties: NDArray[np.float64]) -> LinearL1Error:
        return LinearL1Error(estimate, self.weights, penalties)

    def strategy(self, index: int) -> Marginals | Products:
        return self.parts[index].strategy

    def stddevs(self, terms: PrivacyTerms, share: Fraction) -> NDArray[np.float64]:
        marginal = Marginals(
            self.full, self.cliques[:1]
        )  # Noise of other queries follows the share as that of a marginal.
        more = terms.measure_scale(marginal, share) / terms.measure_scale(marginal, _WIDE)
        return np.asarray(more * np.concatenate([part.stddevs for part in self.parts]))

    def value_stddev(self, terms: PrivacyTerms, share: Fraction) -> float | None:
        terms_of_closure = {_value_stddev(terms, part.strategy, share) for part in self.parts}
        return terms_of_closure.pop() if len(terms_of_closure) == 1 else None


def _closure(queries: Products) -> Iterator[tuple[Product, bool]]:
    """Every term and its restrictions to some attributes, small ones first, each once; whether it is a term itself."""
    asked = {_key(term) for term in queries.terms}
    terms_of_closure: dict[tuple[object, ...], Product] = {}
    for term in queries.terms:
        pairs = list(zip(term.clique, term.matrices, strict=True))
        for size in range(1, len(pairs) + 1):
            for chosen in combinations(pairs, size):
                part = Product(tuple(name for name, _ in chosen), tuple(matrix for _, matrix in chosen))
                terms_of_closure.setdefault(_key(part), part)
        if len(terms_of_closure) > LARGEST_CLOSURE:
            raise ConfigError(f"the workload has more than {LARGEST_CLOSURE:,} parts of terms; want a lower order")
    order = sorted(terms_of_closure, key=lambda key: (len(terms_of_closure[key].clique), terms_of_closure[key].clique))
    return ((terms_of_closure[key], key in asked) for key in order)


def _key(term: Product) -> tuple[object, ...]:
    return (term.clique, *(hashlib.sha256(matrix.tobytes()).digest() for matrix in term.matrices))


def _weights(workload: Workload, candidates: Sequence[Product]) -> list[float]:
    """w_r as parts of the largest."""
    assert isinstance(workload.queries, Products)
    of_attribute = dict.fromkeys(workload.queries.domain.names, 0.0)
    for term, weight in zip(workload.queries.terms, relative(workload.weights).tolist(), strict=True):
        for name in term.clique:
            of_attribute[name] += weight * _answers_a_row(term)
    weights = [sum(of_attribute[name] for name in term.clique) / _answers_a_row(term) for term in candidates]
    return list(relative(np.array(weights)).tolist())


def _answers_a_row(term: Product) -> float:
    """a_s: how many answers a row of a uniform table counts in."""
    return math.prod(float(np.abs(matrix).sum(axis=0).mean()) for matrix in term.matrices)


def _stddevs(terms: PrivacyTerms, strategy: TermStrategy) -> NDArray[np.float64]:
    norms = [np.sqrt((factor**2).sum(axis=1)) for factor in strategy.reconstruction]
    of_one = _value_stddev(terms, strategy.queries, _WIDE)
    return np.asarray(of_one * reduce(np.multiply.outer, norms, np.ones(())).ravel())


def _value_stddev(terms: PrivacyTerms, queries: Marginals | Products, share: Fraction) -> float:
    steps = queries.denominator if isinstance(queries, Products) else 1
    return noise_stddev(terms.noise, terms.measure_scale(queries, share)) / steps


def _check_total(terms: PrivacyTerms, parts: Sequence[_Candidate]) -> None:
    """The start measures all candidates of one attribute."""
    single = [part.strategy for part in parts if len(part.term.clique) == 1]
    if public_total(terms) is None and all(total_factors(queries) is None for queries in single):
        raise ConfigError(
            "mechanism aim cannot give the number of rows from these ranges; want one of all values among them, or "
            "privacy.units: N"
        )
