"""The best response by enumeration of all records: slow and simple, the reference for the other oracles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.errors import ConfigError
from dpcore.oracles.clauses import SignedClauses
from dpcore.oracles.coordinate_ascent import NONE, blocks_of, improved_record
from dpcore.oracles.protocol import BestResponse

MAX_RECORDS = 1 << 20
_BLOCK = 1 << 14  # Number of records that are evaluated together.


def record_count(view: BinaryView) -> int:
    """The number of distinct records of a view."""
    return math.prod(stop - start for start, stop in view.groups) if view.groups else 2**view.columns


@final
@dataclass(frozen=True)
class Enumeration:
    """Evaluates every record of a view, which has at most 2^20 of them."""

    def check(self, view: BinaryView) -> None:
        """Raises ConfigError when there are too many records."""
        if record_count(view) > MAX_RECORDS:
            raise ConfigError(f"oracle 'enumerate' on more than {MAX_RECORDS:,} records; want oracle 'reductions'")

    def respond(self, clauses: SignedClauses, preferences: NDArray[np.float64]) -> BestResponse:
        """The optimum; see ``Oracle``. Raises ConfigError when there are too many records."""
        self.check(clauses.view)
        best, best_value = np.zeros(len(clauses.columns), dtype=np.bool_), None
        for start in range(0, record_count(clauses.view), _BLOCK):
            used = _records(clauses.view, start)[:, clauses.columns]
            values = _values(clauses, used)
            leader = int(values.argmax())
            if best_value is None or values[leader] > best_value:
                best, best_value = used[leader], int(values[leader])
        blocks = blocks_of(clauses, preferences)
        chosen = _chosen(best, blocks.bounds)
        used, record = improved_record(clauses, blocks, chosen, preferences)
        value = clauses.value(used)
        return BestResponse(record, value, value)


def _chosen(used: NDArray[np.bool_], bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The position of the 1 in each block, or NONE: int64 [blocks]."""
    return np.array(
        [next((i for i in range(start, stop) if used[i]), NONE) for start, stop in pairwise(bounds)], dtype=np.int64
    )


def _records(view: BinaryView, start: int) -> NDArray[np.bool_]:
    """The records from number ``start`` on, at most _BLOCK of them: bool [records, columns]."""
    numbers = np.arange(start, min(start + _BLOCK, record_count(view)))
    if not view.groups:
        return ((numbers[:, None] >> np.arange(view.columns)) & 1).astype(np.bool_)
    sizes = [stop - begin for begin, stop in view.groups]
    codes = np.stack(np.unravel_index(numbers, sizes), axis=1)
    return np.concatenate([codes[:, [group]] == np.arange(size) for group, size in enumerate(sizes)], axis=1)


def _values(clauses: SignedClauses, used: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The objective of each record: int64 [records]."""
    values = clauses.constant + used @ clauses.gains
    for literals, negated, weight in zip(clauses.literals, clauses.negated, clauses.weights, strict=True):
        values += weight * (used[:, literals] != negated).all(axis=1)
    return values
