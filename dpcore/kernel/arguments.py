"""What a mechanism hands to a verb, taken only where it is plain. TRUSTED.

Mechanisms are not trusted. A number or a query that answers differently when it is asked twice could be charged as one
thing and drawn as another, so a verb takes the exact types whose values cannot change, and copies arrays.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from dpcore.domain import BinaryView, Domain
from dpcore.queries import (
    ClippedSums,
    Conjunctions,
    Marginals,
    Measurable,
    Parities,
    Products,
    SatisfactionHistogram,
    SymmetricQueries,
    UnitCount,
)

_QUERIES: Final = (
    Marginals,
    Conjunctions,
    Parities,
    Products,
    SymmetricQueries,
    UnitCount,
    SatisfactionHistogram,
    ClippedSums,
)


def plain_fraction(name: str, value: Fraction) -> Fraction:
    """An exact number. Raises TypeError for a float or a subclass of Fraction."""
    if type(value) not in (Fraction, int):
        raise TypeError(f"{name} is a {type(value).__name__}; want a Fraction")
    return Fraction(value)


def plain_integer(name: str, value: int) -> int:
    """An integer of Python. Raises TypeError for every other type, bool and numpy's integers among them."""
    if type(value) is not int:
        raise TypeError(f"{name} is a {type(value).__name__}; want an int")
    return value


def check_queries(queries: Measurable) -> None:
    """Raises TypeError for a subclass of a query or of what it speaks of: its digest could name other queries."""
    if type(queries) not in _QUERIES:
        raise TypeError(f"queries of type {type(queries).__name__}; want one of the closed union, no subclass")
    if isinstance(queries, SatisfactionHistogram | ClippedSums):
        if type(queries.queries) is not Conjunctions:
            raise TypeError("a request about a subclass of Conjunctions; want Conjunctions")
        check_queries(queries.queries)
    if isinstance(queries, Conjunctions | Parities) and type(queries.view) is not BinaryView:
        raise TypeError("queries over a subclass of BinaryView; want a BinaryView")
    if isinstance(queries, Marginals | Products | SymmetricQueries) and type(queries.domain) is not Domain:
        raise TypeError("marginals over a subclass of Domain; want a Domain")
