"""Composition of charges to partitions, against the definition: the worst unit, found by trying all of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcore.errors import ConfigError
from jobs.ledger.partitioning import BlockSums, Partitioning
from pipelines.partition import UnitsIn

NAMES = "abcde"
AMOUNTS = st.fractions(min_value=Fraction(1, 7), max_value=3, max_denominator=7)
CHARGES = st.lists(
    st.tuples(AMOUNTS, st.sets(st.sampled_from(NAMES)).map(lambda names: tuple(sorted(names)))), max_size=8
)
Charge = tuple[Fraction, tuple[str, ...]]


def worst_unit(limit: int | None, charges: Sequence[Charge]) -> Fraction:
    """The largest loss of a unit: of every set of partitions that it may count in, the charges that reach the set."""
    most = len(NAMES) if limit is None else limit
    return max(
        sum((amount for amount, names in charges if not names or set(names) & set(held)), Fraction(0))
        for count in range(min(most, len(NAMES)) + 1)
        for held in combinations(NAMES, count)
    )


def described(limit: int | None, charges: Sequence[Charge]) -> Fraction:
    """The smaller of all charges, and of those about the whole dataset with the largest sums of partitions."""
    everything = sum((amount for amount, _ in charges), Fraction(0))
    if limit is None:
        return everything
    sums = [sum((amount for amount, names in charges if name in names), Fraction(0)) for name in NAMES]
    whole = sum((amount for amount, names in charges if not names), Fraction(0))
    return min(everything, whole + sum(sorted(sums)[::-1][:limit], Fraction(0)))


@given(charges=CHARGES, limit=st.none() | st.integers(1, 6))
@example(charges=[(Fraction(1), ("a", "b", "c"))], limit=2)
@example(charges=[(Fraction(1), ("a",)), (Fraction(1), ("b",)), (Fraction(1), ())], limit=1)
def test_spent_bounds_the_worst_unit_and_is_what_the_words_say(charges: list[Charge], limit: int | None) -> None:
    sums = BlockSums.of(limit, charges)
    assert sums.spent >= worst_unit(limit, charges)
    assert sums.spent == described(limit, charges)
    if limit in (None, 1) or all(len(names) <= 1 for _, names in charges):
        assert sums.spent == worst_unit(limit, charges)
    one_by_one = BlockSums(limit)
    for amount, names in charges:
        one_by_one = one_by_one.plus(amount, names)
    assert one_by_one == sums


@given(
    charges=CHARGES,
    limit=st.none() | st.integers(1, 6),
    names=st.sets(st.sampled_from("abcdefg")).map(lambda names: tuple(sorted(names))),
    total=st.fractions(min_value=0, max_value=12, max_denominator=5),
)
@example(charges=[(Fraction(1), ("a",)), (Fraction(5), ("c",))], limit=2, names=("a", "b"), total=Fraction(6))
@example(charges=[(Fraction(1), ("a",)), (Fraction(1), ("c",))], limit=2, names=("a", "b"), total=Fraction(6))
def test_the_available_amount_just_fits_the_total(
    charges: list[Charge], limit: int | None, names: tuple[str, ...], total: Fraction
) -> None:
    sums = BlockSums.of(limit, charges)
    available = sums.available(total, names)
    if sums.spent > total:
        assert available < 0
        return
    assert available >= 0
    assert sums.plus(available, names).spent <= total
    assert sums.plus(available + Fraction(1, 1000), names).spent > total


def test_the_words_and_the_limits() -> None:
    assert Partitioning("day", UnitsIn.MANY).limit is None
    assert Partitioning("region", UnitsIn.ONE).limit == 1
    assert "first 3" in Partitioning("day", UnitsIn.MANY, 3).described
    for units_in, limit in ((UnitsIn.ONE, 1), (UnitsIn.MANY, 0)):
        with pytest.raises(ConfigError, match="want >= 1"):
            Partitioning("day", units_in, limit)


def test_sums_of_other_partitions_limit_a_charge_that_does_not_touch_them() -> None:
    sums = BlockSums(2).plus(Fraction(6, 10), ("a", "b")).plus(Fraction(3, 10), ("e",))
    assert sums.available(Fraction(1), ("d",)) == Fraction(1, 10)


@given(st.lists(st.tuples(st.integers(1, 6), st.frozensets(st.sampled_from("abcde"), min_size=1)), max_size=12))
def test_no_sequence_of_fitting_charges_exceeds_the_total(charges: list[tuple[int, frozenset[str]]]) -> None:
    for limit in (1, 2, 3):
        sums, total = BlockSums(limit), Fraction(1)
        for amount, names in charges:
            if Fraction(amount, 10) <= sums.available(total, tuple(names)):
                sums = sums.plus(Fraction(amount, 10), tuple(names))
            assert sums.spent <= total
