"""The settings of the study: a table of a family, a privacy budget and a workload, each drawn from its own seed."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import pyarrow.parquet as pq

from dpcore.domain import Domain
from dpcore.workload import Workload, all_k_way, explicit, target
from tests.benchmarks.study.tables import GENERATED, REAL, CodedTable, real, real_sizes
from tests.support.datasets import folder

GENERATED_OF_A_FAMILY: Final = 24
REAL_OF_A_FAMILY: Final = 12
FAMILIES: Final = (*GENERATED, *REAL)
KINDS: Final = ("pairs", "triples", "some triples", "target")
EPSILONS: Final = (0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 20.0)
# Numbers of rows, attributes, and (least, largest) domain sizes of generated tables, each with its probability.
ROWS: Final = {10**3: 0.15, 3 * 10**3: 0.15, 10**4: 0.2, 3 * 10**4: 0.2, 10**5: 0.2, 10**6: 0.07, 10**7: 0.03}
ATTRIBUTES: Final = {5: 0.14, 7: 0.14, 9: 0.14, 12: 0.14, 16: 0.12, 23: 0.1, 32: 0.08, 60: 0.08, 110: 0.06}
SIZES: Final = {(2, 2): 0.2, (2, 5): 0.2, (2, 16): 0.2, (2, 40): 0.18, (10, 100): 0.14, (50, 500): 0.08}
STRENGTHS: Final = (0.0, 0.2, 0.5, 0.8, 0.95, 1.0)
LARGEST_MARGINAL: Final = 250_000  # Cells; of 500 values by 500.
LARGEST_WORKLOAD: Final = 1_500_000  # Cells of all marginals.
MAX_MARGINALS: Final = 6_000
_LARGEST_TABLE: Final = 50_000_000  # Values of all rows.
_SOME: Final = 300
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Configuration:
    """One setting, all of it public but the rows that ``table`` makes.

    family, number: Give the key and the seeds.
    strength: Of the dependence between attributes, 0 to 1; 1 for real tables, where it says nothing.
    """

    family: str
    number: int
    domain: Domain
    rows: int
    strength: float
    epsilon: float
    kind: str

    @property
    def key(self) -> str:
        return f"{self.family}-{self.number:02d}"

    @functools.cached_property
    def workload(self) -> Workload:
        return workload_of(self.kind, self.domain, _generator(self.family, self.number, 1))

    @property
    def size(self) -> float:
        """Roughly what all mechanisms together cost: answers, and values read for them."""
        queries = self.workload.queries
        return queries.size + 0.01 * self.rows * len(self.workload.weights)

    def table(self) -> CodedTable:
        """SENSITIVE, were the rows anybody's."""
        generator = _generator(self.family, self.number, 2)
        if self.family in REAL:
            return CodedTable(self.domain, real(self.family, self.domain, self.rows, generator))
        codes = GENERATED[self.family](self.domain.sizes, self.rows, self.strength, generator)
        return CodedTable(self.domain, codes)


def configurations(families: tuple[str, ...] = FAMILIES) -> list[Configuration]:
    """All settings, those of about a small size first; among these, families take turns."""
    turns = []
    for family in families:
        before: Counter[int] = Counter()  # Settings of the family, by the order of magnitude of their sizes.
        for setting in sorted(_of_family(family), key=lambda setting: (setting.size, setting.number)):
            magnitude = int(2 * math.log10(setting.size))
            turns.append(((magnitude, before[magnitude], FAMILIES.index(family)), setting))
            before[magnitude] += 1
    return [setting for _, setting in sorted(turns, key=lambda turn: turn[0])]


def _of_family(family: str) -> Iterator[Configuration]:
    numbers = range(REAL_OF_A_FAMILY if family in REAL else GENERATED_OF_A_FAMILY)
    return (configuration(family, number) for number in numbers)


def configuration(family: str, number: int) -> Configuration:
    """The setting of this number, which does not depend on how many there are. Kinds of workloads take turns."""
    generator = _generator(family, number, 0)
    kind = KINDS[number % len(KINDS)]
    epsilon = float(generator.choice(EPSILONS))
    if family in REAL:
        domain, rows = _part_of_real(family, generator)
        return Configuration(family, number, fitting(kind, domain), rows, 1.0, epsilon, kind)
    attributes, (least, largest) = _chosen(ATTRIBUTES, generator), _chosen(SIZES, generator)
    logs = generator.uniform(math.log(least), math.log(largest + 1), attributes)
    domain = Domain.of({f"a{axis:03d}": min(largest, int(math.exp(log))) for axis, log in enumerate(logs)})
    domain = fitting(kind, domain)
    rows, strength = _chosen(ROWS, generator), float(generator.choice(STRENGTHS))
    while rows * len(domain.names) > _LARGEST_TABLE:
        rows //= 10
    return Configuration(family, number, domain, rows, strength, epsilon, kind)


def workload_of(kind: str, domain: Domain, generator: np.random.Generator) -> Workload:
    """The workload of a kind. A target is the first attribute; "some triples" are at most 300 that are not too large.

    Raises ValueError for an unknown kind.
    """
    match kind:
        case "pairs":
            return all_k_way(domain, 2)
        case "triples":
            return all_k_way(domain, 3)
        case "target":
            return target(domain, 3, domain.names[0])
        case "some triples":
            return explicit(domain, dict.fromkeys(_some_triples(domain, generator), 1.0))
    raise ValueError(f"workload {kind!r}; want one of {KINDS}")


def fitting(kind: str, domain: Domain) -> Domain:
    """The largest part of the domain, made of its first attributes, whose workload is not too large.

    At five attributes, the largest sizes are halved instead.
    """
    while not _fits(kind, domain):
        if len(domain.names) > 5:
            domain = domain.project(domain.names[:-1])
        else:
            largest = max(domain.sizes)
            sizes = [-(-size // 2) if size == largest else size for size in domain.sizes]
            domain = Domain(domain.names, tuple(sizes))
    return domain


def _fits(kind: str, domain: Domain) -> bool:
    if kind == "some triples":
        smallest = sorted(domain.sizes)[:3]
        return math.prod(smallest) <= LARGEST_MARGINAL
    fixed = domain.sizes[:1] if kind == "target" else ()
    free, order = domain.sizes[len(fixed) :], (3 if kind == "triples" else 2)
    sums = [1, 0, 0, 0]  # Of the products of 0, 1, 2 and 3 sizes.
    for size in free:
        sums[1:] = [same + size * smaller for smaller, same in itertools.pairwise(sums)]
    largest = math.prod([*fixed, *sorted(free)[-order:]])
    marginals, cells = math.comb(len(free), order), math.prod(fixed) * sums[order]
    return marginals <= MAX_MARGINALS and largest <= LARGEST_MARGINAL and cells <= LARGEST_WORKLOAD


def _some_triples(domain: Domain, generator: np.random.Generator) -> list[tuple[str, ...]]:
    every = list(itertools.combinations(domain.names, 3))
    chosen: list[tuple[str, ...]] = []
    cells = 0
    wanted = min(_SOME, max(1, len(every) // 2))
    for index in generator.permutation(len(every)):
        size = domain.size(every[index])
        if len(chosen) < wanted and size <= LARGEST_MARGINAL and cells + size <= LARGEST_WORKLOAD:
            chosen.append(every[index])
            cells += size
    return sorted(chosen)


def _part_of_real(family: str, generator: np.random.Generator) -> tuple[Domain, int]:
    """Some attributes of a real table in a random order, and a number of rows."""
    origin = folder() / "tabular" / family
    sizes = real_sizes(family)
    rows = sum(pq.read_metadata(file).num_rows for file in sorted(origin.glob("*.parquet")))
    names = generator.permutation(list(sizes)).tolist()
    count = int(generator.integers(5, len(names) + 1))
    part = min(rows, max(1_000, int(rows * generator.choice([0.05, 0.2, 1.0]))))
    return Domain.of({name: sizes[name] for name in names[:count]}), part


def _chosen(weights: dict[_Value, float], generator: np.random.Generator) -> _Value:
    values = list(weights)
    return values[int(generator.choice(len(values), p=list(weights.values())))]


def _generator(family: str, number: int, purpose: int) -> np.random.Generator:
    return np.random.default_rng([FAMILIES.index(family), number, purpose])
