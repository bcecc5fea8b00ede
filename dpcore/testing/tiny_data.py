"""All kinds of workloads, each with two neighbouring tiny datasets, on which the laws of mechanisms are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from dpcore.domain import BinaryView, Domain
from dpcore.exact_statistics import Statistics
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.queries import Itemsets
from dpcore.queries.generation import all_parities, random_conjunctions
from dpcore.queries.ranges import all_ranges, prefix, range_marginals
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive, explicit, frequent, linear

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2})
CODES = np.random.default_rng(0).integers(0, DOMAIN.sizes, (40, 3))
ONE_HOT, ITEMS = BinaryView.one_hot(DOMAIN), BinaryView(6)
BITS = np.random.default_rng(1).random((40, 6)) < 0.4
BINARY = Domain.of({"p": 2, "q": 2, "r": 2, "s": 2})
BITS[:, 0] |= ~BITS.any(axis=1)


def _conjunctions(view: BinaryView, negate: bool = True) -> Workload:
    """Eight random conjunctions of two literals."""
    return conjunctive(random_conjunctions(view, 8, 2, np.random.default_rng(2), negate=negate))


@dataclass(frozen=True)
class Data:
    """A workload, with two neighbouring datasets that have the same number of units."""

    workload: Workload
    statistics: Statistics
    neighbour: Statistics


def _table(codes: np.ndarray[tuple[int, int], np.dtype[np.int64]], bound: int = 1) -> TinyTable:
    return TinyTable(DOMAIN, codes, bound)


def _bits(matrix: np.ndarray[tuple[int, int], np.dtype[np.bool_]], bound: int = 1) -> TinyTable:
    return TinyTable(BINARY, matrix[:, :4].astype(np.int64), bound)


OTHER_CODES, OTHER_BITS = CODES.copy(), BITS.copy()
OTHER_CODES[0] = (CODES[0] + 1) % DOMAIN.sizes
OTHER_BITS[0] = ~BITS[0]
DATA: Final = {
    "marginals": Data(all_k_way(DOMAIN, 2), _table(CODES), _table(OTHER_CODES)),
    "weighted marginals": Data(
        explicit(DOMAIN, {("a",): 5.0, ("a", "b", "c"): 1.0, ("c", "b"): 0.1}), _table(CODES), _table(OTHER_CODES)
    ),
    "marginals of several rows a unit": Data(all_k_way(DOMAIN, 1), _table(CODES, 2), _table(OTHER_CODES, 2)),
    "conjunctions of a table": Data(_conjunctions(ONE_HOT), _table(CODES), _table(OTHER_CODES)),
    "conjunctions of baskets": Data(
        _conjunctions(ITEMS), TinyBaskets(ITEMS, BITS, 6), TinyBaskets(ITEMS, OTHER_BITS, 6)
    ),
    "itemsets of baskets": Data(
        frequent(Itemsets(ITEMS, 3, top=4)), TinyBaskets(ITEMS, BITS, 6), TinyBaskets(ITEMS, OTHER_BITS, 6)
    ),
    "positive conjunctions of a table": Data(_conjunctions(ONE_HOT, False), _table(CODES), _table(OTHER_CODES)),
    "positive conjunctions of baskets": Data(
        _conjunctions(ITEMS, False), TinyBaskets(ITEMS, BITS, 6), TinyBaskets(ITEMS, OTHER_BITS, 6)
    ),
    "products": Data(
        Workload(
            range_marginals(DOMAIN, [("b",), ("a", "b"), ("c", "a")], {"a": all_ranges(2), "b": prefix(3)}),
            np.array([4.0, 1.0, 0.5]),
        ),
        _table(CODES),
        _table(OTHER_CODES),
    ),
    "products of several rows a unit": Data(
        linear(range_marginals(DOMAIN, [("a", "b")], {"b": all_ranges(3, 2)})), _table(CODES, 2), _table(OTHER_CODES, 2)
    ),
    "marginals of bits": Data(all_k_way(BINARY, 2), _bits(BITS), _bits(OTHER_BITS)),
    "products of bits": Data(
        linear(range_marginals(BINARY, [("p", "r"), ("q",)], {"r": prefix(2)})), _bits(BITS, 2), _bits(OTHER_BITS, 2)
    ),
    "parities of a table": Data(conjunctive(all_parities(ONE_HOT, 3)), _table(CODES), _table(OTHER_CODES)),
}
"""By name, every kind of workload that mechanisms distinguish."""

MARGINALS = ("marginals", "weighted marginals", "marginals of several rows a unit")
POSITIVE = ("positive conjunctions of a table", "positive conjunctions of baskets")
CONJUNCTIONS = ("conjunctions of a table", "conjunctions of baskets", *POSITIVE)
ITEMSETS = ("itemsets of baskets",)
PARITIES = ("parities of a table",)
PRODUCTS = ("products", "products of several rows a unit")
OF_BITS = ("marginals of bits", "products of bits")
EVERY = MARGINALS + PRODUCTS + CONJUNCTIONS + PARITIES
ONE_RECORD = ("marginals", "weighted marginals", *CONJUNCTIONS, *PARITIES)  # Kinds with one record per unit.
EPSILON, DELTA = 2.5, 1e-6
PURE, ZCDP, GDP = BUDGETS = (
    budget_of(EPSILON, 0.0, Currency.PURE),
    budget_of(EPSILON, DELTA, Currency.ZCDP),
    budget_of(EPSILON, DELTA, Currency.GDP),
)
