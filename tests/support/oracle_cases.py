"""Random best-response problems for the laws that every oracle keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.oracles.clauses import SignedClauses, signed_clauses
from dpcore.queries import Conjunctions
from dpcore.queries.generation import random_conjunctions
from dpcore.queries.mixed_orders import random_mixed_conjunctions

BASKETS = BinaryView(12)
TABLE = BinaryView.one_hot(Domain.of({"a": 3, "b": 2, "c": 4, "d": 3}))
KINDS = {
    "baskets": (BASKETS, False),
    "baskets, negated": (BASKETS, True),
    "table": (TABLE, False),
    "table, negated": (TABLE, True),
    "baskets, mixed orders": (BASKETS, True),
    "table, mixed orders": (TABLE, True),
}
GAINED = {f"{kind}, gains": setting for kind, setting in KINDS.items()}  # Every column of the view has one.
ALL_KINDS = KINDS | GAINED


@dataclass(frozen=True, eq=False)
class Problem:
    queries: Conjunctions
    samples: NDArray[np.int64]
    clauses: SignedClauses
    preferences: NDArray[np.float64]
    gains: NDArray[np.int64]  # Of each column of the view.


def problem(kind: str, seed: int) -> Problem:
    """A problem over 12 columns, with 2 or 3 literals a query (1 to 3 in mixed orders) and few to many samples."""
    view, negate = ALL_KINDS[kind]
    generator = np.random.default_rng(seed)
    if "mixed" in kind:
        queries = random_mixed_conjunctions(view, 40, range(1, 3 + seed % 2), generator, negate=negate)
    else:
        queries = random_conjunctions(view, 40, 2 + seed % 2, generator, negate=negate)
    samples = generator.integers(0, 2 * queries.size, size=int(generator.integers(1, 120)))
    preferences = generator.standard_normal(view.columns)
    clauses, gains = signed_clauses(queries, samples), np.zeros(view.columns, dtype=np.int64)
    if kind in GAINED:
        gains = generator.integers(-8, 9, size=view.columns)
    return Problem(queries, samples, with_gains(clauses, gains), preferences, gains)


def with_gains(clauses: SignedClauses, gains: NDArray[np.int64]) -> SignedClauses:
    """The objective with further gains; columns with a gain that occur in no clause are added.

    gains: int64 [view.columns].
    """
    columns = np.union1d(clauses.columns, np.flatnonzero(gains)).astype(np.int32)
    position = np.searchsorted(columns, clauses.columns).astype(np.int32)
    summed = gains[columns].astype(np.int64)
    summed[position] += clauses.gains
    literals = position[clauses.literals] if clauses.literals.size else clauses.literals
    return replace(clauses, columns=columns, literals=literals, gains=summed)


def worth(case: Problem, record: NDArray[np.bool_]) -> int:
    """How many sampled queries the record satisfies, one by one, and the gains of its columns."""
    count = int(case.gains[record].sum())
    for sample in case.samples:
        query = sample % case.queries.size
        holds = bool((record[case.queries.columns[query]] != case.queries.negated[query]).all())
        count += holds != (sample >= case.queries.size)
    return count
