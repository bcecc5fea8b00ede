"""Unions of Kronecker products: from the config's query matrix of each attribute to matrices of 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcore.frozen import frozen
from dpcore.queries import Product, Products
from dpcore.queries.ranges import LARGEST_MATRIX, all_ranges, identity, of_width, prefix, range_rows
from dpcore.workload import Workload
from jobs.config.section import check_key
from jobs.config.workload import Groups, ProductQueries, Width
from jobs.workload.value_groups import codes_of
from pipelines.attributes import Attribute
from pipelines.schema import Schema

Way = str | Width | Groups
"""How one attribute is queried: the name of a query matrix, ranges of one width, or groups of values."""


def number_of_answers(products: Sequence[ProductQueries], schema: Schema) -> int:
    """Number of answers of all products together.

    Raises: ValueError for an unknown attribute or a width that does not fit.
    """
    return sum(
        math.prod(_rows(_attribute(schema, name), way) for name, way in term.attributes.items()) for term in products
    )


def product_workload(products: Sequence[ProductQueries], schema: Schema) -> Workload:
    """One term per product, in their order. Attributes of ``total`` are left out of a term.

    products: The products of a config.
    schema: Public schema of the table, whose order the attributes of a term take.

    Raises: ValueError that names the product, the attribute and the value that does not fit.
    """
    domain = schema.domain
    matrices: dict[tuple[str, str], NDArray[np.int64]] = {}
    terms = []
    for number, term in enumerate(products, 1):
        ways = {name: way for name, way in term.attributes.items() if way != "total"}
        try:
            clique = domain.canonical(ways)
            for name in clique:
                key = (name, repr(ways[name]))
                if key not in matrices:  # Equal matrices are stored once.
                    matrices[key] = frozen(_matrix(_attribute(schema, name), ways[name]), np.int64)
        except ValueError as error:
            raise ValueError(f"product {number}: {error}") from error
        terms.append(Product(clique, tuple(matrices[name, repr(ways[name])] for name in clique)))
    return Workload(Products(domain, tuple(terms)), np.array([term.weight for term in products]))


def _attribute(schema: Schema, name: str) -> Attribute:
    known = {attribute.name: attribute for attribute in schema.attributes}
    check_key(name, list(known), "attribute")
    return known[name]


def _rows(attribute: Attribute, way: Way) -> int:
    """Rows of the attribute's query matrix."""
    size, ordered = attribute.size, attribute.known
    match way:
        case Width():
            if way.width > ordered:
                raise ValueError(
                    f"attribute {attribute.name!r}: ranges of {way.width} values; want at most {ordered}, its number "
                    "of ordered values"
                )
            return size - way.width + 1
        case Groups():
            return len(way.groups)
        case "total":
            return 1
        case "each_and_total":
            return size + 1
        case "ranges":
            return range_rows(size, ordered)
        case _:
            return size


def _matrix(attribute: Attribute, way: Way) -> NDArray[np.int64]:
    """The attribute's query matrix, int64 [rows, codes] of 0 and 1."""
    size, ordered = attribute.size, attribute.known
    rows = _rows(attribute, way)
    if rows * size > LARGEST_MATRIX:
        raise ValueError(
            f"attribute {attribute.name!r}: a matrix of {rows:,} rows for {size:,} codes; want at most "
            f"{LARGEST_MATRIX:,} entries: fewer codes"
        )
    match way:
        case Width():
            return of_width(size, ordered, way.width)
        case Groups():
            matrix = np.zeros((rows, size), dtype=np.int64)
            for row, group in zip(matrix, way.groups, strict=True):
                row[codes_of(attribute, group)] = 1
            return matrix
        case "prefix":
            return prefix(size, ordered)
        case "ranges":
            return all_ranges(size, ordered)
        case "each_and_total":
            return np.vstack([identity(size), np.ones((1, size), dtype=np.int64)])
        case _:
            return identity(size)
