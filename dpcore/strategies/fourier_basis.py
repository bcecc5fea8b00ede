"""Parities of binary attributes with values -1 and 1: the Fourier basis of contingency tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from dpcore.domain import Clique, Domain
from dpcore.queries import Product, Products
from dpcore.workload import downward_closure

_SIGNS: Final = np.array([[1, -1]])


def parities_below(domain: Domain, cliques: Iterable[Clique], *, total: bool) -> Products:
    """chi_T(x) = (-1)^(second values in x among T) for every set T within a clique: one term, one answer, a set.

    total: Whether the empty set, which counts the rows, comes first. Small sets come before large ones.

    A row moves each answer by exactly 1, so that m parities have L1 sensitivity m and squared L2 sensitivity m. Those
    below a clique of k attributes, 2^k with the total, are its marginal in another basis.

    Source: Barak, Chaudhuri, Dwork, Kale, McSherry and Talwar (2007).

    Raises ValueError for a clique with an attribute of other than two values, or where no parity is left; ConfigError
    for more than ``workload.LARGEST_CLOSURE`` sets.
    """
    sets = downward_closure(cliques)
    for clique in sets:
        for name, size in zip(clique, domain.shape(clique), strict=True):
            if size != 2:
                raise ValueError(f"attribute {name!r} has {size} values; want 2 for parities")
    if not sets:
        raise ValueError("the workload names no attribute; want one or more for parities")
    terms = [Product(clique, (_SIGNS,) * len(clique)) for clique in map(domain.canonical, sets)]
    return Products(domain, (Product((), ()), *terms) if total else tuple(terms))
