from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.errors import BudgetExceededError, IntegrityError
from dpcore.exact_statistics import Contribution, NamedSums, Shape
from dpcore.kernel import private_items as kernel
from dpcore.kernel.budget import Budget
from dpcore.kernel.private_items import DiscoveredItems, ItemTerms, PrivateItems
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.testing.memory import MemoryJournal, MemoryLedger

BASKETS = Contribution(Shape.BASKETS, 4)
UNIT = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, BASKETS)
TERMS = ItemTerms(UNIT, Budget.gdp(1), Fraction(1, 10**6), 100)


@dataclass
class Baskets:
    """Baskets by name, in two parts: names of even and of odd length."""

    baskets: list[list[bytes]]
    contribution: Contribution = BASKETS
    item_parts: int = 2
    reads: int = 0

    def item_sums(self, weights: NDArray[np.int64], part: int, excluded: tuple[bytes, ...] = ()) -> NamedSums:
        self.reads += 1
        sums: dict[bytes, int] = {}
        for whole in self.baskets:
            basket = [name for name in whole if name not in excluded]
            for name in basket:
                if len(name) % 2 == part:
                    sums[name] = sums.get(name, 0) + int(weights[len(basket)])
        names = list(sums)
        offsets = np.concatenate([[0], np.cumsum([len(name) for name in names])]).astype(np.int64)
        data = np.array(list(b"".join(names)), dtype=np.uint8)
        return NamedSums(data, offsets, np.array(list(sums.values()), dtype=np.int64), len(self.baskets))


POPULAR = Baskets([[b"milk", b"bread", "caf\u00e9".encode(), b""]] * 200 + [[b"rare"]])


def discovered(statistics: Baskets, terms: ItemTerms = TERMS, journal: MemoryJournal | None = None) -> DiscoveredItems:
    journal = MemoryJournal() if journal is None else journal
    return PrivateItems(statistics, terms, ledger=MemoryLedger(TERMS.budget), journal=journal).discover()


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "add_noise", lambda exact, noise, scale: exact << 10)


@pytest.mark.usefixtures("no_noise")
def test_popular_items_are_released_in_the_order_of_their_names() -> None:
    items = discovered(POPULAR)
    assert items.names == (b"", b"bread", "caf\u00e9".encode(), b"milk")
    assert items.values.tolist() == [100.0] * 4
    assert items.stddevs.tolist() == [TERMS.rounds[0].stddev] * 4
    assert [5 < each.threshold_in_units / each.stddev < 7 for each in TERMS.rounds] == [True, True]


@pytest.mark.usefixtures("no_noise")
def test_a_later_round_weighs_what_is_left_and_has_less_noise() -> None:
    first, second = (each.threshold_in_units for each in TERMS.rounds)
    assert first / 2 > second
    units = int(first) - 1
    items = discovered(Baskets([[b"milk", b"bread", b"salt", b"rare"]] * units + [[b"milk"]] * units))
    assert items.names == (b"bread", b"milk", b"rare", b"salt")
    one_third = 37837 / 65536
    assert items.values.tolist() == [units * one_third, units * 1.5, units * one_third, units * one_third]
    assert items.stddevs.tolist() == [TERMS.rounds[place].stddev for place in (1, 0, 1, 1)]
    assert sum(each.budget.amount for each in TERMS.rounds) == TERMS.budget.amount
    assert sum(each.threshold_delta for each in TERMS.rounds) == TERMS.threshold_delta


def test_sums_of_items_that_are_released_already_are_refused() -> None:
    class Forgetful(Baskets):
        def item_sums(self, weights: NDArray[np.int64], part: int, excluded: tuple[bytes, ...] = ()) -> NamedSums:
            return super().item_sums(weights, part)

    with pytest.raises(IntegrityError, match="two rounds"):
        discovered(Forgetful(POPULAR.baskets))


def test_a_round_that_was_drawn_is_replayed_and_the_next_one_drawn() -> None:
    journal = MemoryJournal()
    first = discovered(POPULAR, journal=journal)
    del journal.answers[1:]
    reader = Baskets(POPULAR.baskets)
    again = discovered(reader, journal=journal)
    assert reader.reads == reader.item_parts
    assert again.names == first.names


@pytest.mark.usefixtures("no_noise")
def test_only_the_largest_are_kept() -> None:
    extra = Baskets([*POPULAR.baskets, [b"milk"], [b"milk"], [b"bread"]])
    assert discovered(extra, replace(TERMS, max_items=2)).names == (b"bread", b"milk")
    assert discovered(POPULAR, replace(TERMS, max_items=3)).names == (b"", b"bread", "caf\u00e9".encode())


def test_names_and_values_survive_the_journal_bit_by_bit() -> None:
    journal = MemoryJournal()
    first = discovered(POPULAR, journal=journal)
    reader = Baskets([])
    again = discovered(reader, journal=journal)
    assert reader.reads == 0
    assert again.names == first.names
    np.testing.assert_array_equal(again.values, first.values)


def test_no_items_are_no_answer_but_an_empty_one() -> None:
    assert discovered(Baskets([])).names == ()


def test_another_request_is_not_answered_from_the_journal() -> None:
    journal = MemoryJournal()
    discovered(POPULAR, journal=journal)
    for terms in (replace(TERMS, threshold_delta=Fraction(1, 10**7)), replace(TERMS, max_items=99)):
        with pytest.raises(IntegrityError):
            discovered(POPULAR, terms, journal)


def test_the_charge_is_the_budget_and_says_why() -> None:
    private = PrivateItems(POPULAR, TERMS, ledger=MemoryLedger(TERMS.budget), journal=MemoryJournal())
    private.discover()
    assert [charge.amount for charge in private.charges] == [Fraction(1, 10), Fraction(9, 10)]
    for charge in private.charges:
        assert charge.basis is not None
        assert charge.basis.sensitivity == 1 << 32
        assert charge.scale == pytest.approx(float(charge.amount) ** -0.5)
    with pytest.raises(BudgetExceededError):
        private.discover()


def test_replacing_doubles_the_squared_sensitivity() -> None:
    unit = PrivacyUnit(Neighbours.REPLACE_ONE_UNIT, BASKETS, units=201)
    assert {each.basis.sensitivity for each in replace(TERMS, unit=unit).rounds} == {2 << 32}


def test_a_refused_reservation_reads_nothing() -> None:
    class Refusing:
        def reserve(self, budget: Budget) -> None:
            raise BudgetExceededError("a release", budget.amount, Fraction(0), "mu^2")

    statistics = Baskets(POPULAR.baskets)
    with pytest.raises(BudgetExceededError):
        PrivateItems(statistics, TERMS, ledger=Refusing(), journal=MemoryJournal())
    assert statistics.reads == 0


def test_a_failed_record_returns_nothing() -> None:
    class Failing(MemoryJournal):
        def record(self, index: int, request: str, answer: NDArray[np.int64]) -> None:
            raise OSError("full")

    private = PrivateItems(POPULAR, TERMS, ledger=MemoryLedger(TERMS.budget), journal=Failing())
    with pytest.raises(OSError, match="full"):
        private.discover()
    assert len(private.charges) == 1  # Of the first round alone.


def test_statistics_of_another_bound_are_refused() -> None:
    with pytest.raises(ValueError, match="as declared"):
        discovered(Baskets([], Contribution(Shape.BASKETS, 5)))


def test_sums_that_no_units_can_make_are_refused() -> None:
    class Wrong(Baskets):
        def item_sums(self, weights: NDArray[np.int64], part: int, excluded: tuple[bytes, ...] = ()) -> NamedSums:
            return replace(super().item_sums(weights, part, excluded), units=2)

    with pytest.raises(IntegrityError, match="units"):
        discovered(Wrong(POPULAR.baskets))


@pytest.mark.parametrize(
    "terms",
    [
        {"budget": Budget.pure(1)},
        {"max_items": 0},
        {"threshold_delta": Fraction(0)},
        {"unit": PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, Contribution(Shape.TABLE, 1))},
        {"unit": PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, Contribution(Shape.BASKETS, 1 << 21))},
    ],
)
def test_terms_without_a_proof_are_refused(terms: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="want"):
        replace(TERMS, **terms)  # type: ignore[arg-type]
