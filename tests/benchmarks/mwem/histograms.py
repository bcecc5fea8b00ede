"""The datasets of the MWEM paper as dense tables in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.exact_statistics import Contribution, QueryAnswers, Request, Shape
from dpcore.queries import Marginals
from tests.benchmarks.figures.runs import Remembered
from tests.support.datasets import folder

# The stored file names its columns recency, frequency, monetary, time, class, and holds the class first: each column
# stands under the name of the next one. It has 747 of the 748 rows.
RFM = {
    "recency": "frequency_times", "frequency": "monetary_cc", "monetary": "time_months",
}  # fmt: skip
CUBE = ("workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "income")


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of all cells of a domain, one row a unit. SENSITIVE. counts: int64 [cells], C order."""

    domain: Domain
    counts: NDArray[np.int64]

    @property
    def units(self) -> int:
        return int(self.counts.sum())

    @property
    def contribution(self) -> Contribution:
        return Contribution(Shape.TABLE, 1)

    @cached_property
    def statistics(self) -> Remembered:
        return Remembered(self)

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        if not (isinstance(request, QueryAnswers) and isinstance(request.queries, Marginals)):
            raise TypeError("a histogram answers marginals alone")
        return np.concatenate([self.table(clique).ravel() for clique in request.queries.cliques])

    def table(self, clique: Sequence[str]) -> NDArray[np.int64]:
        """The marginal of a clique in the order of the domain."""
        away = tuple(axis for axis, name in enumerate(self.domain.names) if name not in clique)
        return np.asarray(self.counts.reshape(self.domain.sizes).sum(axis=away, dtype=np.int64))


def of_codes(codes: Mapping[str, NDArray[np.int64]], sizes: Mapping[str, int]) -> Histogram:
    domain = Domain.of(sizes)
    cells = np.ravel_multi_index([codes[name] for name in domain.names], domain.sizes)
    return Histogram(domain, np.bincount(cells, minlength=domain.size()).astype(np.int64))


def paths() -> dict[str, Path]:
    names = (
        "raw/adult",
        "raw/transfusion",
        "tabular/nltcs",
        "tables/mildew.csv",
        "tables/czech_autoworkers_reinis.csv",
    )
    return {name: folder() / name for name in (*names, "histograms/ADULTFRANK.n4096.npy")}


def capital_loss(path: Path, values: int) -> Histogram:
    """4,096 bins of the attribute, merged into as many."""
    counts = np.load(path).astype(np.int64).reshape(values, -1).sum(axis=1)
    return Histogram(Domain.of({"capital loss": values}), counts)


def age_hours(path: Path) -> Histogram:
    age, hours = _columns(path, ("age", "hours_per_week"))
    return of_codes({"age": age - 17, "hours": hours - 1}, {"age": 74, "hours": 99})


def recency_frequency(path: Path) -> Histogram:
    recency, frequency = _columns(path, (RFM["recency"], RFM["frequency"]))
    return of_codes({"recency": recency, "frequency": frequency}, {"recency": 75, "frequency": 50})


def monetary(path: Path) -> Histogram:
    """In steps of 250 cc, one donation each."""
    (volume,) = _columns(path, (RFM["monetary"],))
    return of_codes({"monetary": volume // 250 - 1}, {"monetary": 50})


def contingency(path: Path) -> Histogram:
    """A file of one line a cell with its count; every attribute is binary."""
    read = pyarrow.csv.read_csv(path)
    names = [name for name in read.column_names if name != "count"]
    codes = [np.unique(read[name].to_numpy(zero_copy_only=False), return_inverse=True)[1] for name in names]
    domain = Domain.of(dict.fromkeys(names, 2))
    counts = np.zeros(domain.size(), dtype=np.int64)
    np.add.at(counts, np.ravel_multi_index(codes, domain.sizes), read["count"].to_numpy().astype(np.int64))
    return Histogram(domain, counts)


def nltcs(path: Path) -> Histogram:
    rows = pq.read_table(sorted(path.glob("*.parquet")))
    codes = {name: rows[name].to_numpy().astype(np.int64) for name in rows.column_names}
    return of_codes(codes, dict.fromkeys(codes, 2))


def adult_cube(path: Path) -> Histogram:
    """Eight categorical attributes, a missing value as a value of its own."""
    codes, sizes = {}, {}
    rows = pq.read_table(sorted(path.glob("*.parquet")), columns=list(CUBE))
    for name in CUBE:
        values = ["?" if value is None else str(value) for value in rows[name].to_pylist()]
        known, found = np.unique(values, return_inverse=True)
        codes[name], sizes[name] = found.astype(np.int64), len(known)
    return of_codes(codes, sizes)


def _columns(path: Path, names: Sequence[str]) -> list[NDArray[np.int64]]:
    rows = pq.read_table(sorted(path.glob("*.parquet")), columns=list(names))
    return [rows[name].to_numpy().astype(np.int64) for name in names]
