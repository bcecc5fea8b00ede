"""Partitions of rounded rows: one alone is that of all, all are the rounding, and each is a fair share."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.estimation.graphical.sampling.rounded_tables import RoundedTables
from dpcore.estimation.independent import IndependentModel
from dpcore.estimation.model import BasketRows, Model, RoundedRows, SyntheticRows, TableRows
from dpcore.estimation.multiplicative_weights.dense import DenseModel
from dpcore.estimation.multiplicative_weights.factored import FactoredModel
from dpcore.estimation.record_model import RecordModel
from dpcore.estimation.rounded_items import RoundedItems
from dpcore.estimation.row_partitions import LARGEST_UNITS, half_of_counts, partition_rows
from dpcore.queries import Marginals
from tests.support.graphical_models import random_model
from tests.support.graphs import SHAPES

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})


def slow_half(counts: list[int], wanted: int, generator: np.random.Generator) -> list[int]:
    """The first part of one row of counts, with exact fractions: the pivotal method, one pair after the other."""
    shares = [Fraction(count * wanted, max(1, sum(counts))) for count in counts]
    waiting: int | None = None
    for column, share in enumerate(shares):
        if share.denominator == 1:
            continue
        if waiting is None:
            waiting = column
            continue
        left, right = shares[waiting] % 1, share % 1
        both, drawn = left + right, Fraction(generator.random())
        if both < 1:  # One of the two gets all of it.
            keeps = drawn * both < left
            shares[waiting] += right if keeps else -left
            shares[column] += -right if keeps else left
        else:  # One of the two is rounded up.
            up = drawn * (2 - both) < 1 - right
            shares[waiting] += 1 - left if up else right - 1
            shares[column] += left - 1 if up else 1 - right
        still_open = [place for place in (waiting, column) if shares[place].denominator != 1]
        waiting = still_open[0] if still_open else None
    return [int(share) for share in shares]


@pytest.mark.parametrize("largest", [1, 2, 9, 1_000])
def test_a_row_is_split_as_by_the_slow_method(largest: int) -> None:
    draw = np.random.default_rng(largest)
    for columns in (1, 2, 5, 40):
        for seed in range(20):
            counts = draw.integers(0, largest + 1, (1, columns)).astype(np.int32)
            wanted = draw.integers(0, counts.sum() + 1, 1)
            first, second = (
                half_of_counts(counts, wanted, np.random.default_rng(seed), first=first) for first in (True, False)
            )
            assert first[0].tolist() == slow_half(counts[0].tolist(), int(wanted[0]), np.random.default_rng(seed))
            assert np.array_equal(first + second, counts)
            assert first.sum() == wanted[0]
            share = counts * wanted[0] / max(1, counts.sum())
            assert (np.abs(first - share) < 1).all()
            assert (np.abs(np.cumsum(first - share)) < 1 + 1e-9).all(), "sums from the first column on are within one"


def test_the_mean_of_a_half_is_its_share() -> None:
    """20,000 rows with the same counts: six standard deviations of a mean of numbers within one."""
    counts = np.tile(np.array([0, 1, 1, 5, 2, 0, 7, 1, 3, 1], dtype=np.int32), (20_000, 1))
    first = half_of_counts(counts, np.full(20_000, 8), np.random.default_rng(1), first=True)
    assert np.abs(first.mean(axis=0) - counts[0] * 8 / 21).max() < 6 * 0.5 / 20_000**0.5


def test_the_largest_counts_do_not_overflow() -> None:
    counts = np.array([[LARGEST_UNITS - 3, 2, 1]], dtype=np.int32)
    first = half_of_counts(counts, np.array([LARGEST_UNITS - 1]), np.random.default_rng(1), first=True)
    assert first.sum() == LARGEST_UNITS - 1
    assert (np.abs(first - counts) <= 1).all()


def graphical(name: str) -> Callable[[], Model]:
    return lambda: random_model(SHAPES[name], 5)


def dense() -> Model:
    return DenseModel(DOMAIN, np.random.default_rng(1).exponential(size=24) * (np.arange(24) % 5 > 0))


def factored() -> Model:
    parts = DOMAIN.project(("a", "c")), DOMAIN.project(("b",))
    tables = [np.random.default_rng(part.size()).dirichlet(np.ones(part.size())) for part in parts]
    return FactoredModel(DOMAIN, tuple(map(DenseModel, parts, tables)), 1.0)


def independent() -> Model:
    probabilities = np.concatenate([np.random.default_rng(size).dirichlet(np.ones(size)) for size in DOMAIN.sizes])
    return IndependentModel(BinaryView.one_hot(DOMAIN), probabilities, 9.0, DOMAIN)


def independent_baskets() -> Model:
    return IndependentModel(BinaryView(6), np.array([0.0, 0.01, 0.2, 0.5, 0.9, 1.0]), 99.5)


def records(view: BinaryView) -> Callable[[], Model]:
    def make() -> Model:
        codes = np.random.default_rng(7).integers(0, DOMAIN.sizes, (37, 3)) + np.array([0, 2, 5])
        rows = np.zeros((37, 9), dtype=np.bool_)
        rows[np.arange(37)[:, None], codes] = True
        return RecordModel.of_rows(view, rows, 300.0)

    return make


MODELS: dict[str, Callable[[], Model]] = {
    **{f"graphical, {name}": graphical(name) for name in SHAPES},
    "dense": dense,
    "factored": factored,
    "independent": independent,
    "independent baskets": independent_baskets,
    "records of a table": records(BinaryView.one_hot(DOMAIN)),
    "records of baskets": records(BinaryView(9)),
}
every_model = pytest.mark.parametrize("name", MODELS)


def arrays(rows: SyntheticRows) -> list[NDArray[np.int32]]:
    return [rows.codes] if isinstance(rows, TableRows) else [rows.unit, rows.item]


def counts(rounded: RoundedRows) -> list[NDArray[np.int32]]:
    """The integers that a rounding consists of."""
    if isinstance(rounded, RoundedTables):
        return list(rounded.tables)
    return [rounded.counts if isinstance(rounded, RoundedItems) else rounded.copies]  # type: ignore[attr-defined]


def slow_leaves(rounded: RoundedRows, first: int, end: int, size: int, seed: int) -> list[RoundedRows]:
    """All leaves of the tree of partitions, from both halves of every range."""
    if end - first == 1:
        return [rounded]
    middle = (first + end) // 2
    halves = []
    for is_first, (low, high) in ((True, (first, middle)), (False, (middle, end))):
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(first, end)))
        half = rounded.half((middle - first) * size, generator, first=is_first)
        halves += slow_leaves(half, low, high, size, seed)
    return halves


@every_model
@pytest.mark.parametrize(("units", "size"), [(1, 5), (40, 7), (403, 31), (64, 1)])
def test_one_partition_alone_is_that_of_all(name: str, units: int, size: int) -> None:
    rounded = MODELS[name]().rounded(units, np.random.default_rng(2))
    leaves = slow_leaves(rounded, 0, -(-units // size), size, 11)
    assert [leaf.units for leaf in leaves] == [min(size, units - start) for start in range(0, units, size)]
    for number, leaf in enumerate(leaves):
        rows = leaf.rows(np.random.default_rng(np.random.SeedSequence(11, spawn_key=(number,))))
        (alone,) = partition_rows(pickle.loads(pickle.dumps(rounded)), size, 11, number, number + 1)
        assert all(map(np.array_equal, arrays(alone), arrays(rows)))
        run = list(partition_rows(rounded, size, 11, max(0, number - 2), number + 1))
        assert len(run) == min(3, number + 1)
        assert all(map(np.array_equal, arrays(run[-1]), arrays(rows)))
    for number, whole in enumerate(counts(rounded)):
        assert np.array_equal(sum(counts(leaf)[number] for leaf in leaves), whole)
    assert units == rounded.units


def recounted(parts: list[SyntheticRows], rounded: RoundedRows) -> list[NDArray[np.int64]]:
    """The counts of rows in the cells of a rounding of tables, or of units with and without each item."""
    if isinstance(rounded, RoundedTables):
        codes, domain = np.concatenate([arrays(part)[0] for part in parts]), rounded.tree.domain
        cells = [
            np.ravel_multi_index(codes[:, list(domain.axes(node))].T, domain.shape(node)) for node in rounded.tree.nodes
        ]
        found = zip(cells, rounded.tables, strict=True)
        return [np.bincount(cell, minlength=table.size).reshape(table.shape) for cell, table in found]
    items = np.concatenate([arrays(part)[1] for part in parts])
    held = np.bincount(items, minlength=6)
    return [np.stack([held, rounded.units - held], axis=1)]


# Copies of equal records cannot be told apart: for those, the counts of the leaves above must do.
@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("records")])
def test_all_partitions_together_have_the_rounded_counts(name: str) -> None:
    rounded = MODELS[name]().rounded(403, np.random.default_rng(2))
    parts = list(partition_rows(rounded, 31, 11, 0, 13))
    for found, wanted in zip(recounted(parts, rounded), counts(rounded), strict=True):
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("name", ["graphical, chain", "graphical, grid", "independent", "independent baskets"])
def test_a_partition_is_a_fair_share(name: str) -> None:
    """64 partitions of 1,000 units: no count is five or more from its share, where random rows are fifty off."""
    rounded = MODELS[name]().rounded(64_000, np.random.default_rng(2))
    for leaf in slow_leaves(rounded, 0, 64, 1_000, 5):
        for found, whole in zip(counts(leaf), counts(rounded), strict=True):
            assert np.abs(found - whole / 64).max() < 5


@pytest.mark.parametrize("name", [name for name in MODELS if "one value" not in name])
def test_rows_depend_on_the_seed(name: str) -> None:
    rounded = MODELS[name]().rounded(300, np.random.default_rng(2))
    first, again, other = (arrays(next(partition_rows(rounded, 100, seed, 1, 2))) for seed in (1, 1, 2))
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))


def test_units_of_a_partition_of_baskets_begin_at_0() -> None:
    rounded = independent_baskets().rounded(300, np.random.default_rng(2))
    (rows,) = partition_rows(rounded, 100, 1, 2, 3)
    assert isinstance(rows, BasketRows)
    assert (rows.units, rows.unit.min(), rows.unit.max()) == (100, 0, 99)


@pytest.mark.parametrize(("first", "end"), [(-1, 1), (3, 5), (2, 1)])
def test_partitions_that_do_not_exist_are_refused(first: int, end: int) -> None:
    with pytest.raises(ValueError, match=r"want a range within 0 \.\. 4"):
        next(partition_rows(dense().rounded(40, np.random.default_rng(2)), 10, 1, first, end))


def test_an_empty_range_has_no_rows() -> None:
    assert list(partition_rows(dense().rounded(40, np.random.default_rng(2)), 10, 1, 2, 2)) == []


@pytest.mark.parametrize("name", ["dense", "independent baskets", "records of a table"])
def test_more_units_than_counts_can_hold_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"want at most {LARGEST_UNITS}"):
        MODELS[name]().rounded(LARGEST_UNITS + 1, np.random.default_rng(2))


def test_a_model_of_a_hundred_million_rows_keeps_its_marginals() -> None:
    """In total variation, of the tables that are split: far below the 1e-4 of independent rows."""
    model = random_model(SHAPES["chain of three-way cliques"], 3)
    rounded = model.rounded(100_000_000, np.random.default_rng(1))
    for node, table in zip(model.tree.nodes, rounded.tables, strict=True):
        clique = model.domain.canonical(node)
        chances = model.answer(Marginals(model.domain, (clique,))).reshape(model.domain.shape(clique)) / model.total
        ordered = np.transpose(chances, [clique.index(attribute) for attribute in node]).ravel()
        assert np.abs(table.ravel() / 1e8 - ordered).sum() / 2 < table.size / 1e8
