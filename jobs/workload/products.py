"""Builds unions of Kronecker products: the config's choice for each attribute becomes a matrix of 0 and 1."""

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

MatrixChoice = str | Width | Groups
"""Query matrix of an attribute: a matrix with a name, all ranges of one width, or groups of values."""


def number_of_answers(products: Sequence[ProductQueries], schema: Schema) -> int:
    """Total number of answers of all products.

    Raises: ValueError for an unknown attribute, or a width that is too large.
    """
    return sum(
        math.prod(_rows(_attribute(schema, name), choice) for name, choice in term.attributes.items())
        for term in products
    )


def product_workload(products: Sequence[ProductQueries], schema: Schema) -> Workload:
    """Builds one term per product, in the same order. A term leaves out the attributes that are queried by ``total``.

    products: The products of a config.
    schema: Public schema of the table, which also gives the order of the attributes in a term.

    Raises: ValueError that names the product, the attribute and the value that does not fit.
    """
    domain = schema.domain
    matrices: dict[tuple[str, str], NDArray[np.int64]] = {}
    terms = []
    for number, term in enumerate(products, 1):
        choices = {name: choice for name, choice in term.attributes.items() if choice != "total"}
        try:
            clique = domain.canonical(choices)
            for name in clique:
                key = (name, repr(choices[name]))
                if key not in matrices:  # Equal matrices are stored once.
                    matrices[key] = frozen(_matrix(_attribute(schema, name), choices[name]), np.int64)
        except ValueError as error:
            raise ValueError(f"product {number}: {error}") from error
        terms.append(Product(clique, tuple(matrices[name, repr(choices[name])] for name in clique)))
    return Workload(Products(domain, tuple(terms)), np.array([term.weight for term in products]))


def _attribute(schema: Schema, name: str) -> Attribute:
    known = {attribute.name: attribute for attribute in schema.attributes}
    check_key(name, list(known), "attribute")
    return known[name]


def _rows(attribute: Attribute, choice: MatrixChoice) -> int:
    """Number of rows of the attribute's query matrix."""
    size, ordered = attribute.size, attribute.known
    match choice:
        case Width():
            if choice.width > ordered:
                raise ValueError(
                    f"attribute {attribute.name!r}: width is {choice.width}; want at most {ordered}, its number of "
                    "ordered values"
                )
            return size - choice.width + 1
        case Groups():
            return len(choice.groups)
        case "total":
            return 1
        case "each_and_total":
            return size + 1
        case "ranges":
            return range_rows(size, ordered)
        case _:
            return size


def _matrix(attribute: Attribute, choice: MatrixChoice) -> NDArray[np.int64]:
    """The attribute's query matrix, int64 [rows, codes] of 0 and 1."""
    size, ordered = attribute.size, attribute.known
    rows = _rows(attribute, choice)
    if rows * size > LARGEST_MATRIX:
        raise ValueError(
            f"attribute {attribute.name!r}: its query matrix has {rows:,} rows for {size:,} codes; want fewer codes, "
            f"so that it has at most {LARGEST_MATRIX:,} entries"
        )
    match choice:
        case Width():
            return of_width(size, ordered, choice.width)
        case Groups():
            matrix = np.zeros((rows, size), dtype=np.int64)
            for row, group in zip(matrix, choice.groups, strict=True):
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
