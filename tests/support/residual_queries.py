"""The residual of one clique as queries of its own, to be measured apart from others."""

from __future__ import annotations

import math

from dpcore.domain import Clique, Domain
from dpcore.queries import Product, Products
from dpcore.queries.residual_matrices import residual_matrix


def residual_queries(domain: Domain, clique: Clique) -> Products:
    """The residual of one clique, as products of one term: the Kronecker product of its attributes' matrices.

    clique: Attributes of two values or more; () for the number of rows.

    Every column has squared norm C^2 p_a, with C the product of the scales and p_a that of (n - 1) / n: noise of
    variance C^2 s_a in the integer answers costs p_a / s_a, exactly. The denominator is the product of the sizes that
    are no powers of two.

    Raises ValueError as ``residual_matrix`` does, and for an unknown or repeated attribute.
    """
    names = domain.canonical(clique)
    term = Product(names, tuple(map(residual_matrix, domain.shape(names))))
    return Products(domain, (term,), math.prod(size for size in domain.shape(names) if size & (size - 1)))
