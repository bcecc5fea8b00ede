"""Checks that the arguments of a verb are of plain types. TRUSTED.

Mechanisms are not trusted. An object of a subclass could return one value while its call is charged and another value
while the answer is drawn. A verb therefore accepts only exact types whose values cannot change, and copies arrays.
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
    """Returns an exact number as a Fraction. Raises TypeError for a float or an instance of a subclass."""
    if type(value) not in (Fraction, int):
        raise TypeError(f"{name} is a {type(value).__name__}; want a Fraction")
    return Fraction(value)


def plain_integer(name: str, value: int) -> int:
    """Returns a Python integer. Raises TypeError for every other type, including bool and NumPy integers."""
    if type(value) is not int:
        raise TypeError(f"{name} is a {type(value).__name__}; want an int")
    return value


def check_queries(queries: Measurable) -> None:
    """Raises TypeError for a subclass of a query type, of its domain or of its view.

    A subclass could return a digest, which identifies the request in the journal, of other queries than it answers.
    """
    if type(queries) not in _QUERIES:
        raise TypeError(f"queries of type {type(queries).__name__}; want one of the closed union, no subclass")
    if isinstance(queries, SatisfactionHistogram | ClippedSums):
        if type(queries.queries) is not Conjunctions:
            raise TypeError("clipped answers about a subclass of Conjunctions; want Conjunctions")
        check_queries(queries.queries)
    if isinstance(queries, Conjunctions | Parities) and type(queries.view) is not BinaryView:
        raise TypeError("queries over a subclass of BinaryView; want a BinaryView")
    if isinstance(queries, Marginals | Products | SymmetricQueries) and type(queries.domain) is not Domain:
        raise TypeError("marginals over a subclass of Domain; want a Domain")
