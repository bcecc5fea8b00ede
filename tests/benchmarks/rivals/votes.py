"""Votes of private rows for the nearest of some public records, as a one-way marginal that the kernel can measure.

A row votes for one record, which depends on this row alone. The votes are therefore the one-way marginal of one more
attribute, "the nearest of these records", of the same rows: a unit that is added or removed moves one vote for each of
its rows, and the kernel derives the sensitivity, the charge and the noise of that marginal as of any other. The records
are written into the attribute's name, so that the kernel's digest of a request, the charge and the journal depend on
them. ``VotingStatistics`` holds the exact rows. SENSITIVE; only benchmarks have them.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Domain
from dpcore.exact_statistics import Contribution, QueryAnswers, Request, Statistics
from dpcore.queries import Marginals

_PREFIX: Final = "nearest of "

Codes = NDArray[np.int16]


def nearest_of(records: Codes) -> Marginals:
    """The marginal whose cell r counts the rows whose nearest record is r.

    records: int16 [records, attributes], public. The distance is the number of attributes that differ; of different
        records at the same distance the first is the nearest. Equal records share their votes evenly, and the first of
        them get what remains, so that one more row is one more vote for one of them.
    """
    content = zlib.compress(np.ascontiguousarray(records, dtype="<i2").tobytes())
    domain = Domain.of({_PREFIX + base64.b85encode(content).decode(): len(records)})
    return Marginals(domain, (domain.names,))


@final
class VotingStatistics:
    """Statistics of a table that can also count votes. SENSITIVE. Implements Statistics.

    statistics: The statistics of the table, for every other request.
    codes: [rows, attributes], the rows of the same table, in the order of its domain.
    """

    def __init__(self, statistics: Statistics, codes: NDArray[np.integer]) -> None:
        self._statistics = statistics
        self._codes, self._counts = np.unique(codes.astype(np.int16), axis=0, return_counts=True)

    @property
    def contribution(self) -> Contribution:
        return self._statistics.contribution

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        if isinstance(request, QueryAnswers) and isinstance(request.queries, Marginals):
            (name, *more) = request.queries.domain.names
            if name.startswith(_PREFIX) and not more:
                return self._votes(name, request.queries.size)
        return self._statistics.aggregate(request)

    def _votes(self, name: str, size: int) -> NDArray[np.int64]:
        content = zlib.decompress(base64.b85decode(name.removeprefix(_PREFIX)))
        records = np.frombuffer(content, dtype="<i2").reshape(size, -1).astype(np.int16)
        return shared_votes(records, self._counted)

    def _counted(self, records: Codes) -> NDArray[np.int64]:
        """The votes for different records, int64 [records]."""
        nearest = _nearest(self._codes, np.ascontiguousarray(records.T))
        return np.bincount(nearest, weights=self._counts, minlength=len(records)).astype(np.int64)


def shared_votes(records: Codes, count: Callable[[Codes], NDArray[np.int64]]) -> NDArray[np.int64]:
    """The votes for records, of which some are equal.

    count: Gives the votes for different records, in their order.
    """
    _, first, group = np.unique(records, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    votes = np.empty(len(first), dtype=np.int64)
    votes[order] = count(records[first[order]])
    sizes = np.bincount(group)
    by_group = np.argsort(group, kind="stable")
    rank = np.empty(len(records), dtype=np.int64)
    rank[by_group] = np.arange(len(records)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return votes[group] // sizes[group] + (rank < votes[group] % sizes[group])


@compiled
def _nearest(codes: Codes, records: Codes) -> NDArray[np.int64]:
    """The nearest record of each row.

    codes: [rows, attributes]. records: [attributes, records].
    """
    nearest = np.empty(codes.shape[0], dtype=np.int64)
    distances = np.empty(records.shape[1], dtype=np.int16)
    for row in range(codes.shape[0]):
        distances[:] = 0
        for axis in range(codes.shape[1]):
            code, values = codes[row, axis], records[axis]
            for record in range(distances.size):
                distances[record] += np.int16(values[record] != code)
        smallest = np.int16(32767)
        for record in range(distances.size):
            smallest = min(smallest, distances[record])
        for record in range(distances.size):
            if distances[record] == smallest:
                nearest[row] = record
                break
    return nearest
