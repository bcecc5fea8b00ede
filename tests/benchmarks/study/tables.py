"""Families of tables: generated ones from independent to deterministic, and parts of real ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.exact_statistics import Contribution, Request, Shape
from pipelines.aggregators.contingency import Contingency
from pipelines.aggregators.protocol import TableBlock
from pipelines.aggregators.units import Units
from tests.support.datasets import folder

Codes = NDArray[np.uint16]
Sizes = tuple[int, ...]
_BLOCK: Final = 4  # Attributes of a dependent block.
_PROTOTYPES: Final = 40  # Different rows that a sparse table repeats.
_ROWS_AT_ONCE: Final = 1_000_000


@dataclass(frozen=True, eq=False)
class CodedTable:
    """Exact statistics of rows in memory, one per unit. SENSITIVE.

    codes: uint16 [attributes, rows], in the order of the domain.
    """

    domain: Domain
    codes: Codes

    @property
    def contribution(self) -> Contribution:
        return Contribution(Shape.TABLE, 1)

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        queries = getattr(request, "queries", None)
        aggregator = Units(1) if queries is None else Contingency.of(queries, self.domain, 1)
        counts = aggregator.create()
        for start in range(0, self.codes.shape[1], _ROWS_AT_ONCE):
            codes = np.ascontiguousarray(self.codes[:, start : start + _ROWS_AT_ONCE])
            counts = aggregator.add(counts, TableBlock(codes, codes.shape[1]))
        return aggregator.extract(counts)


def drawn(probabilities: NDArray[np.float64], rows: int, generator: np.random.Generator) -> Codes:
    """Independent draws from one distribution, uint16 [rows]."""
    codes = np.searchsorted(np.cumsum(probabilities)[:-1], generator.random(rows), side="right")
    return codes.astype(np.uint16)


def drawn_given(parents: Codes, tables: NDArray[np.float64], generator: np.random.Generator) -> Codes:
    """A draw for each row from the distribution of its parent's value.

    tables: One distribution per value of the parent, float64 [values of the parent, values].
    """
    codes = np.empty(len(parents), dtype=np.uint16)
    order = np.argsort(parents, kind="stable")
    stops = np.cumsum(np.bincount(parents, minlength=len(tables)))
    for table, rows in zip(tables, np.split(order, stops[:-1]), strict=True):
        codes[rows] = drawn(table, len(rows), generator)
    return codes


def _distribution(size: int, generator: np.random.Generator) -> NDArray[np.float64]:
    return generator.dirichlet(np.full(size, generator.choice([0.3, 1.0, 5.0])))


def _conditional(parent: int, size: int, strength: float, generator: np.random.Generator) -> NDArray[np.float64]:
    """Distributions given the value of a parent: equal ones at strength 0, a function at 1."""
    images = np.zeros((parent, size))
    images[np.arange(parent), generator.integers(0, size, parent)] = 1
    return strength * images + (1 - strength) * _distribution(size, generator)


def independent(sizes: Sizes, rows: int, strength: float, generator: np.random.Generator) -> Codes:
    """No dependence, whatever the strength."""
    return np.stack([drawn(_distribution(size, generator), rows, generator) for size in sizes])


def _from_parents(
    sizes: Sizes, rows: int, strength: float, generator: np.random.Generator, parent: Callable[[int], int]
) -> Codes:
    codes = np.empty((len(sizes), rows), dtype=np.uint16)
    codes[0] = drawn(_distribution(sizes[0], generator), rows, generator)
    for axis in range(1, len(sizes)):
        origin = parent(axis)
        weakened = generator.uniform(0.5, 1) if strength < 1 else 1.0
        tables = _conditional(sizes[origin], sizes[axis], strength * weakened, generator)
        codes[axis] = drawn_given(codes[origin], tables, generator)
    return codes


def chain(sizes: Sizes, rows: int, strength: float, generator: np.random.Generator) -> Codes:
    """Each attribute depends on the one before it."""
    return _from_parents(sizes, rows, strength, generator, lambda axis: axis - 1)


def tree(sizes: Sizes, rows: int, strength: float, generator: np.random.Generator) -> Codes:
    """Each attribute depends on an earlier one, chosen at random."""
    return _from_parents(sizes, rows, strength, generator, lambda axis: int(generator.integers(0, axis)))


def mixture(sizes: Sizes, rows: int, strength: float, generator: np.random.Generator) -> Codes:
    """Attributes are independent given a hidden class: all pairs depend on each other, and triples too."""
    classes = int(generator.integers(2, 21))
    hidden = drawn(_distribution(classes, generator), rows, generator)
    tables = [
        strength * generator.dirichlet(np.full(size, 0.3), classes) + (1 - strength) * _distribution(size, generator)
        for size in sizes
    ]
    return np.stack([drawn_given(hidden, table, generator) for table in tables])


def blocks(sizes: Sizes, rows: int, strength: float, generator: np.random.Generator) -> Codes:
    """Independent blocks of four attributes; in a block, rows share one of a few combinations at ``strength``."""
    codes = independent(sizes, rows, strength, generator)
    for start in range(0, len(sizes), _BLOCK):
        inner = sizes[start : start + _BLOCK]
        combinations = generator.integers(0, inner, (int(generator.integers(4, 60)), len(inner)))
        chosen = drawn(_distribution(len(combinations), generator), rows, generator)
        kept = generator.random(rows) < strength
        codes[start : start + _BLOCK] = np.where(kept, combinations[chosen].T, codes[start : start + _BLOCK])
    return codes


def functions(sizes: Sizes, rows: int, strength: float, generator: np.random.Generator) -> Codes:
    """Half of the attributes are functions of two others, sums modulo their size or random tables, in a part
    ``strength`` of the rows.
    """
    codes = independent(sizes, rows, strength, generator)
    roots = max(2, len(sizes) // 2)
    for axis in range(roots, len(sizes)):
        first, second = generator.choice(roots, size=2, replace=False)
        if generator.random() < 0.5:
            image = (codes[first].astype(np.int64) + codes[second]) % sizes[axis]
        else:
            table = generator.integers(0, sizes[axis], (sizes[first], sizes[second]))
            image = table[codes[first], codes[second]]
        codes[axis] = np.where(generator.random(rows) < strength, image, codes[axis])
    return codes


def ordered(sizes: Sizes, rows: int, strength: float, generator: np.random.Generator) -> Codes:
    """Bins of correlated normal numbers, with Zipf margins: the first value of an attribute has the largest part."""
    factors = generator.standard_normal((2, rows))
    codes = np.empty((len(sizes), rows), dtype=np.uint16)
    for axis, size in enumerate(sizes):
        loads = generator.standard_normal(2)
        common = loads / np.linalg.norm(loads) @ factors
        values = np.sqrt(strength) * common + np.sqrt(1 - strength) * generator.standard_normal(rows)
        masses = np.arange(1, size + 1) ** -generator.uniform(0, 1.5)
        limits = np.quantile(values, np.cumsum(masses / masses.sum())[:-1])
        codes[axis] = np.searchsorted(limits, values, side="right")
    return codes


def sparse(sizes: Sizes, rows: int, strength: float, generator: np.random.Generator) -> Codes:
    """Copies of a few rows by Zipf's law, in which each value is drawn again with probability (1 - strength) / 2."""
    prototypes = np.stack([generator.integers(0, size, _PROTOTYPES) for size in sizes])
    weights = 1 / np.arange(1, _PROTOTYPES + 1)
    chosen = drawn(weights / weights.sum(), rows, generator)
    again = generator.random((len(sizes), rows)) < (1 - strength) / 2
    return np.where(again, independent(sizes, rows, strength, generator), prototypes[:, chosen]).astype(np.uint16)


GENERATED: Final[dict[str, Callable[[Sizes, int, float, np.random.Generator], Codes]]] = {
    "independent": independent,
    "chain": chain,
    "tree": tree,
    "mixture": mixture,
    "blocks": blocks,
    "functions": functions,
    "ordered": ordered,
    "sparse": sparse,
}
REAL: Final = ("adult", "titanic", "nltcs", "msnbc", "loans")


def real_sizes(name: str) -> dict[str, int]:
    """The numbers of values of a shared table's attributes."""
    sizes: dict[str, int] = json.loads((folder() / "tabular" / name / "domain.json").read_text())
    return sizes


def real(name: str, domain: Domain, rows: int, generator: np.random.Generator) -> Codes:
    """Some attributes of different rows of a shared table.

    domain: The attributes. Where one has fewer values than in the table, neighbouring values are merged.
    """
    sizes = real_sizes(name)
    files = sorted((folder() / "tabular" / name).glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(file, columns=list(domain.names)) for file in files])
    kept = np.sort(generator.choice(table.num_rows, size=rows, replace=False))
    columns = [table.column(column).to_numpy()[kept].astype(np.int64) for column in domain.names]
    merged = [
        codes * domain.size((column,)) // sizes[column] for column, codes in zip(domain.names, columns, strict=True)
    ]
    return np.stack(merged).astype(np.uint16)
