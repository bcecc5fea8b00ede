"""The order of charging, drawing and remembering, proved with doubles that fail where nothing may happen."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import BudgetExceededError, ConfigError, IntegrityError, MarqueeError
from dpcore.exact_statistics import Contribution, QueryAnswers, Shape
from dpcore.kernel import private_statistics as kernel
from dpcore.kernel.budget import Budget
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import L1Error
from dpcore.kernel.sensitivity import PrivacyUnit
from dpcore.measurement import Noise
from dpcore.queries import Conjunctions, Marginals, Product, Products, UnitCount
from dpcore.testing.doubles import (
    ADD_REMOVE,
    REPLACE,
    NoStatistics,
    RefusingLedger,
    WatchedJournal,
    WatchedStatistics,
    private_statistics,
)
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.testing.tiny_statistics import TinyTable
from tests.support.tilts import flat, with_prior

DOMAIN = Domain.of({"a": 2, "b": 3})
CODES = np.array([[0, 0], [0, 1], [1, 2], [1, 2], [0, 2]])
TABLE = TinyTable(DOMAIN, CODES)
ONE_HOT = BinaryView.one_hot(DOMAIN)
MARGINALS = Marginals(DOMAIN, (("a",), ("b",)))
COLUMNS = Conjunctions.single_columns(ONE_HOT)
SCORE = L1Error(np.zeros(5), np.ones(2), np.zeros(2))
STRATEGY = Products(DOMAIN, (Product(("a",), (np.array([[1, -1]]),)), Product((), ())))
FLAT = flat(5)
THIRD = Fraction(1, 3)
Verb = Callable[[PrivateStatistics], object]

VERBS: dict[str, Verb] = {
    "measure marginals": lambda private: private.measure(MARGINALS, THIRD).values,
    "measure conjunctions": lambda private: private.measure(COLUMNS, THIRD).values,
    "measure units": lambda private: private.measure(UnitCount(), THIRD).values,
    "select": lambda private: private.select(MARGINALS, SCORE, THIRD),
    "measure products": lambda private: private.measure(STRATEGY, THIRD).values,
    "sample": lambda private: private.sample(COLUMNS, Fraction(1, 10), FLAT, 5, 6),
    "retain": lambda private: private.retain(COLUMNS, np.array([0, 9, 9]), Fraction(1, 10), flat(5, -2.0), 5),
}
every_verb = pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
every_currency = pytest.mark.parametrize(
    "budget", [Budget.pure(3), Budget.zcdp(3), Budget.gdp(3)], ids=lambda b: b.currency.name
)


@pytest.fixture
def no_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(kernel, "add_noise", fail)
    monkeypatch.setattr(kernel, "noisy_argmax", fail)
    monkeypatch.setattr(kernel.weighted_sampler, "draw", fail)
    monkeypatch.setattr(kernel.bernoulli, "bits", fail)


def spent(private: PrivateStatistics, share: Fraction) -> None:
    """Uses a share of the budget up without touching the data."""
    private._filter.charge("before", share * private.terms.budget.amount)


@every_verb
@every_currency
def test_a_refused_charge_neither_touches_the_data_nor_draws_nor_remembers(
    verb: Verb, budget: Budget, no_draws: None
) -> None:
    journal = WatchedJournal()
    private = private_statistics(NoStatistics(TABLE.contribution), budget, journal=journal)
    spent(private, Fraction(2**40 - 1, 2**40))
    before = private.charges
    with pytest.raises(BudgetExceededError, match="no noise was drawn"):
        verb(private)
    assert private.charges == before
    assert journal.calls == []


@every_verb
@every_currency
def test_a_call_charges_then_recalls_then_asks_then_records(verb: Verb, budget: Budget) -> None:
    events: list[str] = []

    class Journal(WatchedJournal):
        def recall(self, index: int, request: str) -> None:
            events.append(f"recall {index} after {len(private.charges)} charges")

        def record(self, index: int, request: str, answer: object) -> None:
            events.append(f"record {index}")

    class Data(WatchedStatistics):
        def aggregate(self, request: object) -> object:  # type: ignore[override]
            events.append("data")
            return super().aggregate(request)  # type: ignore[arg-type]

    private = private_statistics(Data(TABLE), budget, journal=Journal())
    verb(private)
    assert events[0] == "recall 0 after 1 charges"
    assert events[1:-1] == ["data"] * (len(events) - 2)
    assert events[-1] == "record 0"


@every_verb
@every_currency
def test_a_draw_that_fails_has_been_charged_and_is_not_remembered(verb: Verb, budget: Budget, no_draws: None) -> None:
    journal = WatchedJournal()
    private = private_statistics(TABLE, budget, journal=journal)
    with pytest.raises(AssertionError, match="noise was drawn"):
        verb(private)
    assert len(private.charges) == 1
    assert journal.calls == ["recall 0"]


@every_verb
@every_currency
def test_an_answer_that_could_not_be_stored_is_not_returned_and_stays_charged(verb: Verb, budget: Budget) -> None:
    class FullDisk(WatchedJournal):
        def record(self, index: int, request: str, answer: object) -> None:
            raise OSError("no space left")

    private = private_statistics(TABLE, budget, journal=FullDisk())
    with pytest.raises(OSError, match="no space left"):
        verb(private)
    assert len(private.charges) == 1


@every_verb
@every_currency
def test_a_stored_answer_is_replayed_byte_for_byte_without_data_or_draws(
    verb: Verb, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = MemoryJournal()
    first_run = private_statistics(TABLE, budget, journal=journal)
    first, second = np.array(verb(first_run)), np.array(verb(first_run))
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "add_noise", None)
        patch.setattr(kernel, "noisy_argmax", None)
        patch.setattr(kernel.weighted_sampler, "draw", None)
        patch.setattr(kernel.bernoulli, "bits", None)
        again = private_statistics(NoStatistics(TABLE.contribution), budget, journal=journal)
        assert np.array_equal(np.array(verb(again)), first)
        assert np.array_equal(np.array(verb(again)), second)
    assert again.charges == first_run.charges
    assert len(journal.answers) == 2


def test_a_run_goes_on_where_the_journal_ends() -> None:
    journal = MemoryJournal()
    first = private_statistics(TABLE, Budget.pure(3), journal=journal)
    kept = first.measure(MARGINALS, THIRD)
    again = private_statistics(TABLE, Budget.pure(3), journal=journal)
    assert np.array_equal(again.measure(MARGINALS, THIRD).values, kept.values)
    again.select(MARGINALS, SCORE, THIRD)
    assert len(journal.answers) == 2
    assert [charge.label for charge in again.charges] == [
        f"measure {MARGINALS.description}",
        f"select from {MARGINALS.description}",
    ]


def test_writing_into_an_answer_changes_no_stored_one() -> None:
    journal = MemoryJournal()
    first = private_statistics(TABLE, Budget.pure(3), journal=journal).measure(MARGINALS, THIRD)
    kept = first.values.copy()
    first.values[:] = 0
    again = private_statistics(TABLE, Budget.pure(3), journal=journal).measure(MARGINALS, THIRD)
    assert np.array_equal(again.values, kept)
    again.values[:] = 0
    assert np.array_equal(journal.answers[0][1], kept)


RECORDED: Verb = lambda private: private.sample(COLUMNS, Fraction(1, 10), FLAT, 5, 6)  # noqa: E731
OTHER_REQUESTS: dict[str, Verb] = {
    "another verb": lambda private: private.measure(COLUMNS, THIRD),
    "another slope": lambda private: private.sample(COLUMNS, Fraction(1, 9), FLAT, 5, 6),
    "another tilt": lambda private: private.sample(COLUMNS, Fraction(1, 10), with_prior(np.arange(5) / 9), 5, 6),
    "another total": lambda private: private.sample(COLUMNS, Fraction(1, 10), FLAT, 4, 6),
    "another size": lambda private: private.sample(COLUMNS, Fraction(1, 10), FLAT, 5, 7),
    "other queries": lambda private: private.sample(
        Conjunctions(ONE_HOT, COLUMNS.columns, ~COLUMNS.negated), Fraction(1, 10), FLAT, 5, 6
    ),
}


@pytest.mark.parametrize("verb", OTHER_REQUESTS.values(), ids=OTHER_REQUESTS)
def test_another_request_under_a_stored_number_is_an_integrity_error(verb: Verb, no_draws: None) -> None:
    journal = MemoryJournal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel.weighted_sampler, "draw", lambda *_: np.zeros(6, dtype=np.int64))
        RECORDED(private_statistics(TABLE, Budget.pure(3), journal=journal))
    again = private_statistics(NoStatistics(TABLE.contribution), Budget.pure(3), journal=journal)
    with pytest.raises(IntegrityError, match="belongs to another request"):
        verb(again)


@pytest.mark.parametrize(
    "verb",
    [
        lambda private: private.select(MARGINALS, L1Error(np.ones(5), np.ones(2), np.zeros(2)), THIRD),
        lambda private: private.select(MARGINALS, L1Error(np.zeros(5), np.array([1, 0.5]), np.zeros(2)), THIRD),
        lambda private: private.select(MARGINALS, L1Error(np.zeros(5), np.ones(2), np.ones(2)), THIRD),
        lambda private: private.select(MARGINALS.only([("b",), ("a",)]), SCORE, THIRD),
        lambda private: private.select(MARGINALS, SCORE, THIRD / 2),
        lambda private: private.measure(MARGINALS, THIRD),
    ],
    ids=["estimate", "weights", "penalties", "candidates", "share", "verb"],
)
def test_another_selection_is_an_integrity_error(verb: Verb) -> None:
    journal = MemoryJournal()
    private_statistics(TABLE, Budget.pure(3), journal=journal).select(MARGINALS, SCORE, THIRD)
    with pytest.raises(IntegrityError):
        verb(private_statistics(NoStatistics(TABLE.contribution), Budget.pure(3), journal=journal))


def test_another_budget_or_currency_is_an_integrity_error() -> None:
    journal = MemoryJournal()
    private_statistics(TABLE, Budget.pure(3), journal=journal).measure(MARGINALS, THIRD)
    for budget in (Budget.pure(2), Budget.zcdp(3)):
        with pytest.raises(IntegrityError):
            private_statistics(NoStatistics(TABLE.contribution), budget, journal=journal).measure(MARGINALS, THIRD)


def test_requests_depend_on_public_facts_alone() -> None:
    """The digests that reach the journal are the same for other data."""
    digests = []
    for codes in (CODES, CODES[:1]):
        journal = MemoryJournal()
        private = private_statistics(TinyTable(DOMAIN, codes), Budget.pure(10), journal=journal)
        for verb in VERBS.values():
            share = private.remaining_share
            if share > THIRD:
                verb(private)
        digests.append([request for request, _ in journal.answers])
    assert digests[0] == digests[1]


@pytest.mark.parametrize("refusal", [RefusingLedger(), MemoryLedger(Budget.pure(1), Fraction(1, 2))])
def test_the_ledger_refuses_before_any_data_are_touched(refusal: RefusingLedger | MemoryLedger) -> None:
    with pytest.raises(BudgetExceededError):
        private_statistics(NoStatistics(TABLE.contribution), Budget.pure(1), ledger=refusal)


def test_the_whole_budget_is_reserved_at_once() -> None:
    ledger = MemoryLedger(Budget.zcdp(2))
    private_statistics(NoStatistics(TABLE.contribution), Budget.zcdp(Fraction(3, 2)), ledger=ledger)
    assert ledger.spent == Fraction(3, 2)
    with pytest.raises(ValueError, match="want one currency"):
        private_statistics(NoStatistics(TABLE.contribution), Budget.pure(Fraction(1, 2)), ledger=ledger)


def test_statistics_with_another_contribution_are_refused_before_the_ledger_is_charged() -> None:
    ledger = MemoryLedger(Budget.pure(1))
    with pytest.raises(ValueError, match="as declared"):
        PrivateStatistics(
            TinyTable(DOMAIN, CODES, bound=2),
            unit=PrivacyUnit(ADD_REMOVE, Contribution(Shape.TABLE, 1)),
            budget=Budget.pure(1),
            ledger=ledger,
            journal=MemoryJournal(),
        )
    assert ledger.spent == 0


@every_currency
def test_shares_use_the_budget_up_exactly(budget: Budget) -> None:
    private = private_statistics(TABLE, budget)
    assert private.remaining_share == 1
    for _ in range(3):
        private.measure(MARGINALS, THIRD)
    assert 0 <= private.remaining_share < Fraction(3, 2**80)
    with pytest.raises(BudgetExceededError):
        private.measure(MARGINALS, Fraction(1, 1000))


def test_quarters_leave_nothing() -> None:
    private = private_statistics(TABLE, Budget.pure(1))
    for _ in range(4):
        private.measure(MARGINALS, Fraction(1, 4))
    assert private.remaining_share == 0


def test_draws_cost_their_range_and_are_refused_beyond_the_budget(no_draws: None) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), Budget.pure(1))
    with pytest.raises(BudgetExceededError):
        private.sample(COLUMNS, Fraction(1), FLAT, 5, 5)  # 5 draws of range 1/5 and the slack.
    assert private.charges == ()


def test_expecting_is_free_and_saves_a_pass_over_the_data() -> None:
    statistics = WatchedStatistics(TABLE)
    private = private_statistics(statistics, Budget.pure(3))
    private.expect(MARGINALS)
    private.expect(COLUMNS)
    assert private.charges == ()
    assert statistics.requests == [QueryAnswers(MARGINALS), QueryAnswers(COLUMNS)]
    private.measure(MARGINALS.only([("b",)]), THIRD)
    private.select(MARGINALS, SCORE, THIRD)
    private.measure(COLUMNS, THIRD)
    assert len(statistics.requests) == 2


def test_marginals_are_asked_once_each_and_keep_their_order() -> None:
    statistics = WatchedStatistics(TABLE)
    private = private_statistics(statistics, Budget.pure(10**12))
    private.measure(MARGINALS.only([("b",)]), THIRD)
    values = private.measure(MARGINALS.only([("a",), ("b",), ("a",)]), THIRD).values
    assert statistics.requests == [QueryAnswers(MARGINALS.only([clique])) for clique in (("b",), ("a",))]
    assert values.tolist() == [3, 2, 1, 1, 3, 3, 2]  # Noise of scale 1e-11 is 0.


def test_measurements_say_what_was_measured_and_how() -> None:
    private = private_statistics(TABLE, Budget.pure(Fraction(1, 2)))
    measured = private.measure(MARGINALS, Fraction(1, 4))
    assert measured.queries is MARGINALS
    assert (measured.noise, measured.scale) == (Noise.LAPLACE, 16.0)
    assert measured.values.dtype == np.float64


@pytest.mark.parametrize("score", [object(), lambda: 0, type("Mine", (), {})()])
def test_scores_outside_the_closed_set_are_refused(score: object, no_draws: None) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), Budget.pure(1))
    with pytest.raises(TypeError, match="want one of the closed set"):
        private.select(MARGINALS, score, THIRD)  # type: ignore[arg-type]
    assert private.charges == ()


REFUSED: dict[str, Verb] = {
    "share 0": lambda private: private.measure(MARGINALS, Fraction(0)),
    "share above 1": lambda private: private.measure(MARGINALS, Fraction(2)),
    "estimate of another shape": lambda private: private.select(
        MARGINALS, L1Error(np.zeros((2, 5)), np.ones(2), np.zeros(2)), THIRD
    ),
    "a short tilt": lambda private: private.sample(COLUMNS, Fraction(1), flat(4), 5, 1),
    "no units": lambda private: private.sample(COLUMNS, Fraction(1), FLAT, 0, 1),
    "no draws": lambda private: private.sample(COLUMNS, Fraction(1), FLAT, 5, 0),
    "a wide tilt": lambda private: private.sample(COLUMNS, Fraction(1), LogWeights(1.0, np.zeros(5, int), 4000), 5, 1),
    "steep slope": lambda private: private.sample(COLUMNS, Fraction(3000), FLAT, 5, 1),
}


@pytest.mark.parametrize("verb", REFUSED.values(), ids=REFUSED)
def test_refused_arguments_cost_nothing_and_touch_nothing(verb: Verb, no_draws: None) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), Budget.pure(10**6))
    with pytest.raises(ValueError, match=r"want|score"):
        verb(private)
    assert private.charges == ()


def test_a_public_number_of_units_is_not_bought(no_draws: None) -> None:
    for neighbours in (ADD_REMOVE, REPLACE):
        private = private_statistics(NoStatistics(TABLE.contribution), Budget.pure(1), neighbours=neighbours, units=5)
        with pytest.raises(ValueError, match="declared public"):
            private.measure(UnitCount(), THIRD)


def test_marginals_of_baskets_are_refused_before_anything_is_charged(no_draws: None) -> None:
    private = private_statistics(NoStatistics(Contribution(Shape.BASKETS, 3)), Budget.pure(1))
    with pytest.raises(ConfigError, match="marginals were asked of baskets"):
        private.measure(MARGINALS, THIRD)
    with pytest.raises(ConfigError, match="marginals were asked of baskets"):
        private.sample(MARGINALS, THIRD, FLAT, 5, 6)
    assert private.charges == ()


def test_the_journal_in_memory_keeps_its_order() -> None:
    journal = MemoryJournal()
    with pytest.raises(IntegrityError, match="want them in order"):
        journal.record(1, "late", np.zeros(1, dtype=np.int64))


def test_no_error_of_the_kernel_names_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of 987,654,321 rows appear in no message, whichever call is refused."""

    class Large(TinyTable):
        def aggregate(self, request: object) -> object:  # type: ignore[override]
            return super().aggregate(request) * 987_654_321  # type: ignore[arg-type]

    for verb in (*REFUSED.values(), *VERBS.values()):
        private = private_statistics(Large(DOMAIN, CODES), Budget.pure(Fraction(1, 100)))
        private.expect(MARGINALS)
        spent(private, Fraction(99, 100))
        with pytest.raises((ValueError, MarqueeError)) as refusal:
            verb(private)
        assert "987" not in str(refusal.value)
