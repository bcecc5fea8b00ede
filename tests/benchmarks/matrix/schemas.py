"""Workloads over several attributes of Tables 3.4 and 3.5 of McKenna's thesis, on the schemas of its experiments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, combinations
from typing import Final

import numpy as np

from dpcore.domain import Clique, Domain
from dpcore.queries import Marginals, Product, Products
from dpcore.queries.ranges import identity, prefix, range_marginals
from dpcore.workload import Workload, explicit, linear
from tests.benchmarks.matrix import sf1

SF1, SF1_PLUS = "SF1", "SF1+"
CPS_MARGINALS, CPS_PREFIXES = "CPS all marginals", "CPS all prefix-marginals"
ADULT_MARGINALS, ADULT_PREFIXES = "Adult <= 3D marginals", "Adult 2D prefix-marginals"
LOANS_MARGINALS, LOANS_PREFIXES = "Loans small marginals", "Loans small prefix-marginals"

_SMALL: Final = 5_000  # Cells of a small marginal.


def _schema(*sizes: int) -> Domain:
    return Domain(tuple(f"x{place:02d}" for place in range(len(sizes))), sizes)


# The first attributes are binned numbers, asked for their prefixes where there are any: two, five and four of them.
CPS: Final = _schema(50, 100, 7, 4, 2)
ADULT: Final = _schema(100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
LOANS: Final = _schema(101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)
_NUMERIC: Final = {CPS: 2, ADULT: 5, LOANS: 4}


def _up_to(domain: Domain, order: int) -> Iterator[Clique]:
    return chain.from_iterable(combinations(domain.names, each) for each in range(order + 1))


def _small(domain: Domain) -> list[Clique]:
    every = _up_to(domain, len(domain.names))
    return [clique for clique in every if math.prod(domain.shape(clique)) <= _SMALL]


def _cps_prefixes() -> Workload:
    """One product: prefixes of both numbers, by the codes of each other attribute and by none of them."""
    numeric, others = CPS.sizes[: _NUMERIC[CPS]], CPS.sizes[_NUMERIC[CPS] :]
    codes = [np.vstack([identity(size), np.ones((1, size), dtype=np.int64)]) for size in others]
    return linear(Products(CPS, (Product(CPS.names, (*map(prefix, numeric), *codes)),)))


def _marginals(domain: Domain, cliques: list[Clique]) -> Workload:
    return explicit(domain, dict.fromkeys(cliques, 1.0))


def _prefixes(domain: Domain, cliques: list[Clique]) -> Workload:
    matrices = {name: prefix(domain.size((name,))) for name in domain.names[: _NUMERIC[domain]]}
    return linear(range_marginals(domain, cliques, matrices))


WORKLOADS: Final[Mapping[str, Callable[[], Workload]]] = {
    SF1: lambda: linear(sf1.sf1()),
    SF1_PLUS: lambda: linear(sf1.sf1_plus()),
    CPS_MARGINALS: lambda: _marginals(CPS, list(_up_to(CPS, len(CPS.names)))),
    CPS_PREFIXES: _cps_prefixes,
    ADULT_MARGINALS: lambda: _marginals(ADULT, list(_up_to(ADULT, 3))),
    ADULT_PREFIXES: lambda: _prefixes(ADULT, list(combinations(ADULT.names, 2))),
    LOANS_MARGINALS: lambda: _marginals(LOANS, _small(LOANS)),
    LOANS_PREFIXES: lambda: _prefixes(LOANS, _small(LOANS)),
}


def identity_error(queries: Marginals | Products) -> int:
    """Squared error of all answers from noise of variance 1 in every cell: the squared entries of the matrix W.

    An attribute that a term does not name is summed up: as many ones.
    """
    domain = queries.domain
    if isinstance(queries, Marginals):
        return len(queries.cliques) * math.prod(domain.sizes)
    total = 0
    for term in queries.terms:
        asked = math.prod(int(np.square(matrix).sum()) for matrix in term.matrices)
        total += term.weight**2 * asked * (math.prod(domain.sizes) // math.prod(domain.shape(term.clique)))
    return total


def term_sensitivities(queries: Marginals | Products) -> tuple[int, int]:
    """Sums over terms of their largest L1 and squared L2 norms of a column, as the printed figures have them.

    No column of all terms together has larger norms; where no one row is counted most by every term, as in SF1, it has
    smaller ones: 41 in place of 50.
    """
    if isinstance(queries, Marginals):
        return len(queries.cliques), len(queries.cliques)
    columns = [
        [(np.abs(one).sum(axis=0).max(), (one**2).sum(axis=0).max()) for one in t.matrices] for t in queries.terms
    ]
    pairs = list(zip(queries.terms, columns, strict=True))
    l1 = sum(term.weight * math.prod(int(norms[0]) for norms in each) for term, each in pairs)
    return l1, sum(term.weight**2 * math.prod(int(norms[1]) for norms in each) for term, each in pairs)
