"""Linear queries that AIM may measure for a workload of products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import combinations
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.least_squares import total_factors
from dpcore.estimation.linear_answers import answers_of_products
from dpcore.estimation.pgm.fit import GraphicalFit
from dpcore.kernel.scores import LinearL1Error
from dpcore.kernel.terms import Terms
from dpcore.measurement import noise_stddev
from dpcore.mechanisms.aim_marginals import relative, sizes_that_fit, used_domain
from dpcore.mechanisms.totals import public_total
from dpcore.queries import Marginals, Product, Products
from dpcore.strategies.union_of_products import TermStrategy, union_of_products
from dpcore.workload import Workload


@final
@dataclass(frozen=True, eq=False)
class _Candidate:
    """One term, what is measured for it, and standard deviations of its answers where that has noise of 1."""

    term: Product
    strategy: TermStrategy
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
    def of(cls, workload: Workload, terms: Terms) -> ProductCandidates:
        """The largest candidates are left out where all of them would not fit in memory.

        Raises ConfigError where an attribute is too large to optimise for, or no measurement tells the number of rows.
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
        parts = tuple(
            _Candidate(term, strategy, weight, asked)
            for (term, asked), strategy, weight in zip(kept, strategies, _weights(workload, kept), strict=True)
        )
        _check_total(terms, parts)
        return cls(used_domain(queries.domain, cliques), queries.domain, parts)

    def only(self, kept: NDArray[np.bool_]) -> ProductCandidates:
        parts = tuple(part for part, keep in zip(self.parts, kept.tolist(), strict=True) if keep)
        return ProductCandidates(self.domain, self.full, parts)

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
        return self._noisiness
