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
    """The parities chi_T(x) = (-1)^(number of attributes in T with their second value in x), for all T inside cliques.

    domain: The domain. Every attribute of a clique has two values.
    cliques: The cliques whose subsets T have a parity.
    total: Whether to put the parity of the empty set, which counts the rows, first.

    A row changes each answer by exactly 1, so m parities have the L1 sensitivity m and the squared L2 sensitivity m.
    The 2^k parities below a clique of k attributes are its marginal in another basis.

    Returns products with one term and one answer per set, small sets first.

    Raises ValueError if a clique has an attribute that is not binary, and if there is no parity.
    Raises ConfigError for more than ``workload.LARGEST_CLOSURE`` sets.

    Source: Barak, Chaudhuri, Dwork, Kale, McSherry and Talwar (2007).
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
