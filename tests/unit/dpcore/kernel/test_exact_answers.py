"""What the kernel refuses to take for counts of one dataset, always without a value in the message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError, IntegrityError
from dpcore.exact_statistics import Contribution, QueryAnswers, Request, Shape
from dpcore.kernel import exact_answers
from dpcore.kernel.budget import Budget
from dpcore.kernel.exact_answers import LARGEST_ROWS, ExactAnswers
from dpcore.queries import Conjunctions, Marginals, Product, Products, UnitCount
from dpcore.testing.doubles import WatchedStatistics, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable

DOMAIN = Domain.of({"a": 2, "b": 3})
TABLE = TinyTable(DOMAIN, np.array([[0, 0], [0, 1], [1, 2], [1, 2]]))
A, B = Marginals(DOMAIN, (("a",),)), Marginals(DOMAIN, (("b",),))
BOTH = Marginals(DOMAIN, (("a",), ("b",)))
COLUMNS = Conjunctions.single_columns(BinaryView.one_hot(DOMAIN))
SECRET = 987_654_321


@dataclass
class Wrong:
    """Statistics that give each answer changed. changes: Applied to the answers in the order of the requests."""

    change: Callable[[NDArray[np.int64]], object]
    inner: TinyTable | TinyBaskets = TABLE
    first: int = 0
    asked: int = field(default=0)

    @property
    def contribution(self) -> Contribution:
        return self.inner.contribution

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        self.asked += 1
        answers = self.inner.aggregate(request)
        return self.change(answers) if self.asked > self.first else answers  # type: ignore[return-value]


CHANGES: dict[str, Callable[[NDArray[np.int64]], object]] = {
    "floats": lambda answers: answers.astype(float),
    "narrow integers": lambda answers: answers.astype(np.int32),
    "one answer more": lambda answers: np.append(answers, 0),
    "one answer less": lambda answers: answers[:-1],
    "a matrix": lambda answers: answers[None, :],
    "a negative count": lambda answers: answers - SECRET,
    "too many rows": lambda answers: answers + LARGEST_ROWS + SECRET,
    "counts whose sum overflows": lambda answers: answers + (1 << 62),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("queries", [BOTH, COLUMNS, UnitCount()], ids=["marginals", "conjunctions", "units"])
def test_what_can_be_no_counts_is_refused(
    queries: Marginals | Conjunctions | UnitCount, change: Callable[[NDArray[np.int64]], object]
) -> None:
    with pytest.raises(IntegrityError) as refusal:
        ExactAnswers(Wrong(change)).of(queries)
    assert "987" not in str(refusal.value)


def test_the_largest_table_is_taken_and_one_row_more_is_not() -> None:
    full = Wrong(lambda answers: np.array([LARGEST_ROWS - 5, 5]))
    assert ExactAnswers(full).of(A).sum() == LARGEST_ROWS
    with pytest.raises(IntegrityError, match=r"more than 2\^44 rows"):
        ExactAnswers(Wrong(lambda answers: np.array([LARGEST_ROWS - 5, 6]))).of(A)
    many = Marginals(Domain.of({"a": 1 << 20}), (("a",),))
    with pytest.raises(IntegrityError, match=r"more than 2\^44 rows"):  # A sum of 2^64 is 0 in 64 bits.
        ExactAnswers(Wrong(lambda _: np.full(1 << 20, LARGEST_ROWS), TinyTable(many.domain, TABLE.codes[:, :1]))).of(
            many
        )


def test_tables_of_other_data_are_refused_within_a_call_and_between_calls() -> None:
    with pytest.raises(IntegrityError, match="differ in their number of rows"):
        ExactAnswers(Wrong(lambda answers: answers + np.array([SECRET, 0, 0, 0, 0]))).of(BOTH)
    exact = ExactAnswers(Wrong(lambda answers: answers + SECRET, first=1))
    assert exact.of(A).tolist() == [2, 2]
    with pytest.raises(IntegrityError, match="differ in their number of rows"):
        exact.of(B)
    assert exact.of(A).tolist() == [2, 2]


@pytest.mark.parametrize("units", [0, 1, 5])
@pytest.mark.parametrize("first", ["rows", "units"])
def test_rows_must_fit_their_units(units: int, first: str) -> None:
    """Four rows of at most two a unit are those of 2, 3 or 4 units."""
    table = TinyTable(DOMAIN, TABLE.codes, 2)
    asked = [A, UnitCount()] if first == "rows" else [UnitCount(), A]
    for count in (2, 3, 4):
        exact = ExactAnswers(Wrong(lambda old, count=count: np.array([count]) if old.size == 1 else old, table))
        for queries in asked:
            exact.of(queries)
    exact = ExactAnswers(Wrong(lambda old: np.array([units]) if old.size == 1 else old, table))
    exact.of(asked[0])
    with pytest.raises(IntegrityError, match=r"want 1 \.\. 2 each"):
        exact.of(asked[1])


def test_no_conjunction_counts_more_than_all_units() -> None:
    view = BinaryView(3)
    baskets = TinyBaskets(view, np.eye(3, dtype=bool), 3)
    queries = Conjunctions.single_columns(view)
    with pytest.raises(IntegrityError, match="more than all units"):
        ExactAnswers(Wrong(lambda old: old + 3 if old.size > 1 else old, baskets)).counted(queries)


def test_rows_are_units_where_each_holds_one_so_that_cells_need_no_further_pass() -> None:
    watched = WatchedStatistics(TABLE)
    exact = ExactAnswers(watched)
    found = exact.counted(BOTH)
    assert found.counts.tolist() == [2, 2, 1, 1, 2]
    assert found.units == 4
    assert exact.counted(Marginals(DOMAIN, BOTH.cliques)) is found  # As the next round asks.
    assert len(watched.requests) == 1
    assert exact.counted(COLUMNS).units == 4
    assert len(watched.requests) == 3  # The columns, and the number of units.


@pytest.mark.parametrize(("units", "kind"), [((1 << 31) - 1, np.int32), (1 << 31, np.int64)])
def test_counts_are_kept_in_a_type_that_holds_all_units(units: int, kind: type) -> None:
    wrong = Wrong(lambda old: np.array([units]) if old.size == 1 else np.full(5, units))
    found = ExactAnswers(wrong).counted(COLUMNS)
    assert found.counts.dtype == kind
    assert found.counts.tolist() == [units] * 5
    assert found.units == units


def test_a_wrong_aggregate_is_charged_and_never_answered() -> None:
    journal = MemoryJournal()
    private = private_statistics(Wrong(lambda answers: answers - 9), Budget.pure(1), journal=journal)
    with pytest.raises(IntegrityError):
        private.measure(A, Fraction(1, 2))
    assert len(private.charges) == 1
    assert journal.answers == []


def test_products_ask_for_marginals_alone_and_share_them() -> None:
    watched = WatchedStatistics(TABLE)
    exact = ExactAnswers(watched)
    terms = Product(("a",), (np.array([[3, -1]]),)), Product((), (), 2), Product(("a",), (np.eye(2, dtype=int),))
    strategy = Products(DOMAIN, terms)
    exact.expect(strategy)
    assert exact.of(strategy).tolist() == [4, 8, 2, 2]
    assert exact.of(A).tolist() == [2, 2]
    assert [request.queries for request in watched.requests] == [Marginals(DOMAIN, (("a",), ()))]  # type: ignore[union-attr]


def test_baskets_have_no_products() -> None:
    baskets = TinyBaskets(BinaryView(3), np.eye(3, dtype=bool), 3)
    assert baskets.contribution.shape is Shape.BASKETS
    strategy = Products(DOMAIN, (Product((), ()),))
    with pytest.raises(ConfigError, match="asked of baskets"):
        private_statistics(baskets, Budget.pure(1)).measure(strategy, Fraction(1))


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_answers, "LARGEST_REQUEST", 6)
    monkeypatch.setattr(exact_answers, "LARGEST_KEPT", 9)


def asked(watched: WatchedStatistics) -> list[tuple[tuple[str, ...], ...]]:
    """Cliques of each request so far, which are then forgotten."""
    found = [request.queries.cliques for request in watched.requests]  # type: ignore[union-attr]
    watched.requests.clear()
    return found


EVERY = Marginals(DOMAIN, (("a",), ("b",), ("a", "b"), ("a",), ()))


def test_a_batch_of_tables_is_one_request() -> None:
    watched = WatchedStatistics(TABLE)
    ExactAnswers(watched).expect(EVERY)
    assert asked(watched) == [(("a",), ("b",), ("a", "b"), ())]


def test_tables_are_asked_for_in_bounded_requests_and_the_least_recently_used_dropped(small_memory: None) -> None:
    watched = WatchedStatistics(TABLE)
    exact = ExactAnswers(watched)
    wanted = TABLE.aggregate(QueryAnswers(EVERY)).tolist()
    assert exact.of(EVERY).tolist() == wanted
    assert asked(watched) == [(("a",), ("b",)), (("a", "b"),), ((),)]  # 2 + 3, 6, 1 cells; 6 + 1 are kept.
    assert exact.of(EVERY).tolist() == wanted
    assert asked(watched) == [(("a",), ("b",))]  # 6 + 1 came first from memory; then ("a", "b") is dropped.
    assert exact.of(A).tolist() == wanted[:2]
    assert asked(watched) == []
    assert exact.of(B).tolist() == wanted[2:5]
    assert exact.of(EVERY).tolist() == wanted
    assert asked(watched) == [(("a", "b"),)]


@pytest.mark.parametrize("request_cells", [1, 4, 100])
@pytest.mark.parametrize("kept", [0, 1, 5, 100])
def test_bounds_on_memory_change_no_answer(monkeypatch: pytest.MonkeyPatch, request_cells: int, kept: int) -> None:
    monkeypatch.setattr(exact_answers, "LARGEST_REQUEST", request_cells)
    monkeypatch.setattr(exact_answers, "LARGEST_KEPT", kept)
    watched = WatchedStatistics(TABLE)
    exact = ExactAnswers(watched)
    terms = tuple(Product(clique, tuple(np.eye(size, dtype=int) for size in DOMAIN.shape(clique)))
                  for clique in EVERY.cliques)  # fmt: skip
    exact.expect(EVERY)
    for queries in (EVERY, Products(DOMAIN, terms), EVERY, B, EVERY):
        answers = TABLE.aggregate(QueryAnswers(EVERY if isinstance(queries, Products) else queries))
        assert exact.of(queries).tolist() == answers.tolist()
        assert exact._kept == sum(table.size for table in exact._tables.values()) <= kept
    assert exact.counted(EVERY).units == 4
    for cliques in asked(watched):
        assert len(cliques) == 1 or sum(DOMAIN.size(clique) for clique in cliques) <= request_cells


def test_no_more_is_announced_than_can_be_kept(small_memory: None) -> None:
    watched = WatchedStatistics(TABLE)
    exact = ExactAnswers(watched)
    exact.expect(EVERY.only([("a",), ("b",), ("a", "b")]))
    assert asked(watched) == [(("a",), ("b",))]
    exact.expect(Marginals(Domain.of({"c": 10}), (("c",),)))
    assert asked(watched) == []


def test_kept_tables_are_no_views_of_their_batch() -> None:
    exact = ExactAnswers(TABLE)
    exact.expect(EVERY)
    assert all(table.base is None for table in exact._tables.values())


def test_tables_that_changed_in_the_meantime_are_refused(small_memory: None) -> None:
    exact = ExactAnswers(Wrong(lambda answers: answers + 1, first=3))
    exact.of(EVERY)
    with pytest.raises(IntegrityError, match="differ in their number of rows"):
        exact.of(EVERY)
