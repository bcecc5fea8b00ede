"""How charges to partitions of a dataset compose: what a unit has lost through all of them, in exact fractions."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpcore.errors import ConfigError
from pipelines.partition import Partition, UnitsIn, Values


@dataclass(frozen=True)
class Partitioning:
    """Into which partitions a dataset is divided for ever, and in how many of them a unit is counted.

    column: The partition column.
    units_in: Whether a unit is counted in one partition or in many.
    max_per_unit: Number of partitions in which a unit is counted at most, if it may be in many; None for all.

    Raises: ConfigError when the number is below 1, or does not go with ``units_in``.
    """

    column: str
    units_in: UnitsIn
    max_per_unit: int | None = None

    def __post_init__(self) -> None:
        if self.max_per_unit is not None and (self.max_per_unit < 1 or self.units_in is UnitsIn.ONE):
            raise ConfigError(
                f"the maximum number of partitions per unit is {self.max_per_unit}; want >= 1, and units in "
                f"{UnitsIn.MANY}"
            )

    @property
    def limit(self) -> int | None:
        """Number of partitions whose charges reach one unit at most; None for all."""
        return 1 if self.units_in is UnitsIn.ONE else self.max_per_unit

    @property
    def described(self) -> str:
        """The partitioning in words, to be read after "partitioned"."""
        units = {None: "each unit in any number of them", 1: "each unit in one of them"}
        if self.units_in is UnitsIn.MANY and self.limit is not None:
            return f"by column {self.column!r}, each unit counted in its first {self.limit} of them"
        return f"by column {self.column!r}, {units[self.limit]}"

    @property
    def composition(self) -> str:
        """How the figure of the dataset follows from its charges, in words."""
        if self.limit is None:
            return "the sum of all charges"
        if self.limit == 1:
            return "the largest sum of a partition plus what the whole dataset was charged"
        return (
            f"the {self.limit} largest sums of partitions plus what the whole dataset was charged; at most all charges"
        )


@dataclass(frozen=True)
class Blocks:
    """The partitions that a release is charged to.

    partitioning: The partitioning that the release keeps to.
    values: What the values of the partition column are.
    names: The partitions as text, each once.
    """

    partitioning: Partitioning
    values: Values
    names: tuple[str, ...]

    @classmethod
    def of(cls, partition: Partition | None) -> Blocks | None:
        """The blocks of a release of partitions; None for a release about the whole dataset."""
        if partition is None:
            return None
        rule = Partitioning(partition.column, partition.units_in, partition.max_per_unit)
        return cls(rule, partition.values, partition.names)

    @property
    def described(self) -> str:
        """The first partitions, and how many there are."""
        column, names = self.partitioning.column, self.names
        if len(names) == 1:
            return f"partition {column} = {names[0]}"
        shown = ", ".join(names[:3])
        return f"{len(names)} partitions {column} = {shown}{', ...' if len(names) > 3 else ''}"


@dataclass(frozen=True)
class BlockSums:
    """The sums of the charges of a dataset.

    A unit is counted in at most ``limit`` partitions (``pipelines/partition_rows.py``), so it has lost the charges of
    the whole dataset, and those of releases that touch one of its partitions. Each of these is in the sum of one of its
    partitions, so together they are at most the ``limit`` largest sums; and they are never more than all charges.

    limit: Number of partitions whose charges reach one unit at most; None for all.
    whole: Sum of the charges of releases about the whole dataset.
    all: Sum of all charges, each once.
    blocks: Sum of the charges that touch each partition, by its name. A release of several partitions is in each.
    """

    limit: int | None
    whole: Fraction = Fraction(0)
    all: Fraction = Fraction(0)
    blocks: Mapping[str, Fraction] = field(default_factory=dict)

    @classmethod
    def of(cls, limit: int | None, charges: Iterable[tuple[Fraction, tuple[str, ...]]]) -> BlockSums:
        """The sums of charges, each an amount with its partitions, or none for the whole dataset."""
        whole, everything, blocks = Fraction(0), Fraction(0), dict[str, Fraction]()
        for amount, names in charges:
            everything += amount
            whole += 0 if names else amount
            for name in names:
                blocks[name] = blocks.get(name, Fraction(0)) + amount
        return cls(limit, whole, everything, blocks)

    @property
    def spent(self) -> Fraction:
        """What a unit has lost at most."""
        if self.limit is None:
            return self.all
        return min(self.all, self.whole + sum(heapq.nlargest(self.limit, self.blocks.values()), Fraction(0)))

    def plus(self, amount: Fraction, names: tuple[str, ...]) -> BlockSums:
        """The sums after one more charge, to some partitions, or to the whole dataset if there are none."""
        changed = {name: self.blocks.get(name, Fraction(0)) + amount for name in names}
        whole = self.whole if names else self.whole + amount
        return replace(self, whole=whole, all=self.all + amount, blocks={**self.blocks, **changed})

    def available(self, total: Fraction, names: tuple[str, ...]) -> Fraction:
        """The largest amount that can be charged to some partitions so that ``spent`` stays within a total.

        If j of the ``limit`` largest sums are touched, they grow by j amounts. The bound on the amount is the smallest
        over j > 0; for j = 0 the sums of other partitions must fit as they are. The sum of all charges gives another
        bound, of which the larger counts.

        total: The total of the dataset.
        names: The partitions; none for the whole dataset.

        Returns: The amount, which is negative if the total is exceeded already.
        """
        if not names or self.limit is None or self.spent > total:
            return total - self.spent
        simple, rest = total - self.all, total - self.whole
        touched = sorted((self.blocks.get(name, Fraction(0)) for name in names), reverse=True)
        others = sorted((value for name, value in self.blocks.items() if name not in set(names)), reverse=True)
        if sum(others[: self.limit], Fraction(0)) > rest:
            return simple
        bounds = [
            (rest - sum(touched[:count], Fraction(0)) - sum(others[: self.limit - count], Fraction(0))) / count
            for count in range(1, min(self.limit, len(touched)) + 1)
        ]
        return max(simple, min(bounds))
