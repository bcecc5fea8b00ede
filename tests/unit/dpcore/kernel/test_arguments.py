"""What a mechanism hands to a verb cannot be one thing when it is charged and another when it is drawn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.kernel import certified_exp, weighted_sampler
from dpcore.kernel.arguments import check_queries, plain_fraction, plain_integer
from dpcore.kernel.budget import Budget
from dpcore.kernel.envelope import Law, envelope
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import L1Error
from dpcore.measurement import Noise
from dpcore.queries import Conjunctions, Marginals, Parities, Product, Products, UnitCount
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from tests.support.tilts import flat

DOMAIN = Domain.of({"a": 2, "b": 3})
TABLE = TinyTable(DOMAIN, np.array([[0, 0], [0, 1], [1, 2], [1, 2]]))
MARGINALS = Marginals(DOMAIN, (("a",), ("b",)))
COLUMNS = Conjunctions.single_columns(BinaryView.one_hot(DOMAIN))
HALF = Fraction(1, 2)


class Shifty(Fraction):
    """A share that is small when it is charged and large when the noise is chosen."""

    def __mul__(self, other: Any) -> Any:
        return other


class OtherDigest(Conjunctions):
    def digest(self) -> str:
        return "of other queries"


class OtherMarginals(Marginals):
    pass


class OtherParities(Parities):
    pass


class OtherView(BinaryView):
    pass


class OtherDomain(Domain):
    pass


class OtherTilt:
    """Answers as a tilt does."""

    def __getattr__(self, name: str) -> Any:
        return getattr(flat(5, -2.0), name)


NOT_PLAIN: dict[str, Callable[[PrivateStatistics], object]] = {
    "a float share": lambda p: p.measure(MARGINALS, 0.5),  # type: ignore[arg-type]
    "a share that changes": lambda p: p.measure(MARGINALS, Shifty(1, 2)),
    "a share of a selection that changes": lambda p: p.select(MARGINALS, score(), Shifty(1, 2)),
    "queries with another digest": lambda p: p.measure(
        OtherDigest(COLUMNS.view, COLUMNS.columns, COLUMNS.negated), HALF
    ),
    "announced queries with another digest": lambda p: p.expect(
        OtherDigest(COLUMNS.view, COLUMNS.columns, COLUMNS.negated)
    ),
    "other marginals": lambda p: p.select(OtherMarginals(DOMAIN, MARGINALS.cliques), score(), HALF),
    "another view": lambda p: p.measure(Conjunctions.single_columns(OtherView(5)), HALF),
    "parities over another view": lambda p: p.measure(Parities.of_sets(OtherView(5), [[0]]), HALF),
    "other parities": lambda p: p.measure(OtherParities.of_sets(COLUMNS.view, [[0]]), HALF),
    "another domain": lambda p: p.measure(Marginals(OtherDomain(("a",), (2,)), (("a",),)), HALF),
    "a slope that changes": lambda p: p.sample(COLUMNS, Shifty(1, 2), flat(5), 4, 1),
    "a tilt that changes": lambda p: p.sample(COLUMNS, HALF, OtherTilt(), 4, 1),  # type: ignore[arg-type]
    "bits with a tilt that changes": lambda p: p.retain(
        COLUMNS,
        np.zeros(1, np.int64),
        HALF,
        OtherTilt(),
        4,  # type: ignore[arg-type]
    ),
    "draws from products": lambda p: p.sample(Products(DOMAIN, (Product((), ()),)), HALF, flat(1), 4, 1),  # type: ignore[arg-type]
    "a float total": lambda p: p.sample(COLUMNS, HALF, flat(5), 4.5, 1),  # type: ignore[arg-type]
    "a size of numpy": lambda p: p.sample(COLUMNS, HALF, flat(5), 4, np.int64(1)),  # type: ignore[arg-type]
    "a size that is true": lambda p: p.sample(COLUMNS, HALF, flat(5), 4, True),
    "bits with a slope that changes": lambda p: p.retain(COLUMNS, np.zeros(1, np.int64), Shifty(1), flat(5, -2.0), 4),
}


def score() -> L1Error:
    return L1Error(np.zeros(5), np.ones(2), np.zeros(2))


@pytest.mark.parametrize("call", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_what_is_not_plain_is_refused_before_a_charge(call: Callable[[PrivateStatistics], object]) -> None:
    private = private_statistics(TABLE, Budget.pure(1))
    with pytest.raises(TypeError, match="want"):
        call(private)
    assert private.charges == ()


def test_plain_values_pass() -> None:
    assert plain_fraction("share", Fraction(1, 3)) == Fraction(1, 3)
    assert plain_integer("size", 3) == 3
    for queries in (MARGINALS, COLUMNS, UnitCount(), Products(DOMAIN, (Product((), ()),))):
        check_queries(queries)


def test_conjunctions_keep_what_they_were_made_with() -> None:
    """Otherwise many copies of one literal could be fetched as distinct literals, which are charged less."""
    base = np.zeros((1000, 1), dtype=np.int32)
    queries = Conjunctions(BinaryView(1000), base[:], np.zeros((1000, 1), dtype=np.bool_))
    base[:, 0] = np.arange(1000)
    assert not queries.columns.any()
    for held in (queries.columns, queries.negated):
        with pytest.raises(ValueError, match="WRITEABLE"):
            held.flags.writeable = True


def test_a_score_keeps_what_it_was_made_with() -> None:
    weights = np.ones(2)
    made = L1Error(np.zeros(5), weights, np.zeros(2))
    weights[:] = -1
    assert made.weights.tolist() == [1, 1]
    for held in (made.estimate, made.weights, made.penalties):
        with pytest.raises(ValueError, match="WRITEABLE"):
            held.flags.writeable = True


def test_a_score_in_half_precision_does_not_overflow() -> None:
    """300 * 256 is infinite as float16, and was taken for the smallest integer."""
    made = L1Error(np.full(5, 300, dtype=np.float16), np.ones(2, dtype=np.float16), np.zeros(2, dtype=np.float16))
    assert made.public_parts()[0].tolist() == [300 * 256] * 5


@pytest.mark.parametrize("weight", [1.999, np.int64(2), True, 0, 1 << 41])
def test_the_weight_of_a_product_is_an_integer(weight: object) -> None:
    """The sensitivity of weight 1.999 would be that of 1."""
    with pytest.raises(ValueError, match="want an int in"):
        Product(("a",), (np.eye(2, dtype=np.int64),), weight)  # type: ignore[arg-type]


@pytest.mark.parametrize("denominator", [1.5, np.int64(2), 0])
def test_the_denominator_of_products_is_an_integer(denominator: object) -> None:
    with pytest.raises(ValueError, match="want integers"):
        Products(DOMAIN, (Product((), ()),), denominator)  # type: ignore[arg-type]


def test_tables_that_all_releases_share_cannot_be_changed() -> None:
    made = envelope(Law(Noise.LAPLACE, 1.0))
    for table in (made.bins, made.ranks, made.inside, certified_exp.EXP_TABLE, weighted_sampler._TABLE):
        with pytest.raises(ValueError, match="read-only"):
            table[:] = 0


def test_one_call_at_a_time() -> None:
    """A call from a progress callback, or from another thread, is refused and costs nothing."""
    private = private_statistics(TABLE, Budget.pure(1))
    refused: list[str] = []

    def again(*_: int) -> None:
        for call in (lambda: private.measure(MARGINALS, Fraction(1, 4)), lambda: private.expect(MARGINALS)):
            try:
                call()
            except RuntimeError as error:
                refused.append(str(error))

    def from_another_thread(*_: int) -> None:
        thread = threading.Thread(target=again)
        thread.start()
        thread.join()

    for progress in (again, from_another_thread):
        private.measure(MARGINALS, Fraction(1, 4), progress)
    assert len(refused) == 4
    assert all("one at a time" in message for message in refused)
    assert len(private.charges) == 2
    private.measure(MARGINALS, HALF)  # The door is open again, also after a refusal.


class Unstable(tuple[Any, ...]):
    """A tuple that is iterated as ``first`` once, and as itself ever after."""

    first: tuple[Any, ...]

    def __new__(cls, first: tuple[Any, ...], later: tuple[Any, ...]) -> Unstable:
        made = super().__new__(cls, later)
        made.first = first
        return made

    def __iter__(self) -> Any:
        first, self.first = self.first, tuple(super().__iter__())
        return iter(first)


class Name(str):
    """A name that equals every other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("a")


SMALL = Product(("a",), (np.array([[1, 0]]),))
LARGE = Product(("a",), (np.array([[1000, 0]]),))


def test_products_keep_the_terms_that_they_were_checked_with() -> None:
    """Terms that are small when the sensitivity is derived and large when the answer is drawn: plain from the start."""
    products = Products(DOMAIN, Unstable((SMALL,), (LARGE,)))
    assert type(products.terms) is tuple
    assert products.terms == (SMALL,)


def test_names_of_cliques_and_domains_are_plain_text() -> None:
    term = Product(Unstable((Name("a"),), ("b",)), (np.array([[1, 0]]),))
    assert type(term.clique) is tuple
    assert [type(name) for name in term.clique] == [str]
    marginals = Marginals(DOMAIN, ((Name("a"),),))
    assert [type(name) for clique in marginals.cliques for name in clique] == [str]
    assert [type(name) for name in Domain((Name("a"),), (2,)).names] == [str]


def test_a_view_keeps_the_groups_that_it_was_checked_with() -> None:
    groups = [[0, 2], [2, 5]]
    view = BinaryView(5, groups, ["a", "b"])  # type: ignore[arg-type]
    groups[0][1] = 1
    assert view.groups == ((0, 2), (2, 5))
    assert view.names == ("a", "b")
    hash(view)


def test_a_matrix_is_checked_as_it_is_kept() -> None:
    class Shown(np.ndarray[Any, Any]):
        """An array that hides its entries from what asks it for their size."""

        def any(self, *_: Any, **__: Any) -> Any:
            return True

    with pytest.raises(ValueError, match="a matrix of zeros"):
        Product(("a",), (np.zeros((1, 2), np.int64).view(Shown),))


def test_what_calls_cost_cannot_be_replaced() -> None:
    private = private_statistics(TABLE, Budget.pure(1))
    with pytest.raises(AttributeError):
        private.terms = private_statistics(TABLE, Budget.pure(100)).terms  # type: ignore[misc]


def test_exact_counts_are_not_printed() -> None:
    exact = weighted_sampler.UnitCounts(np.array([1234567]), 7654321)
    parts = weighted_sampler.SlotScores.of(HALF, flat(1, -2.0), 4).parts(exact)
    for printed in (repr(exact), repr(parts), str(parts)):
        assert "1234567" not in printed
        assert "7654321" not in printed
