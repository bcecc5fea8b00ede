"""``retain``: what it refuses and what it charges, whatever its bits turn out to be. Its law is in tests/audit."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import BudgetExceededError, IntegrityError
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel import private_statistics as kernel
from dpcore.kernel.acceptance_gaps import SMALLEST_GAP
from dpcore.kernel.budget import Budget
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.weighted_sampler import XI
from dpcore.queries import Conjunctions
from dpcore.testing.doubles import NoStatistics, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyBaskets, TinyTable
from tests.support.tilts import flat, with_prior

DOMAIN = Domain.of({"a": 2, "b": 3})
TABLE = TinyTable(DOMAIN, np.array([[0, 0], [0, 1], [1, 2], [1, 2], [0, 2]]))
COLUMNS = Conjunctions.single_columns(BinaryView.one_hot(DOMAIN))
SLOPE = Fraction(1, 10)
TILT = flat(5, -0.6)
DRAWN = np.array([0, 9, 9, 3])
Verb = Callable[[PrivateStatistics], object]


def retained(
    private: PrivateStatistics,
    drawn: NDArray[np.int64] = DRAWN,
    slope: Fraction = SLOPE,
    tilt: LogWeights = TILT,
    total: int = 5,
) -> NDArray[np.bool_]:
    return private.retain(COLUMNS, drawn, slope, tilt, total)


@pytest.fixture
def no_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("bits were drawn")

    monkeypatch.setattr(kernel.bernoulli, "bits", fail)
    monkeypatch.setattr(kernel.weighted_sampler, "draw", fail)


REFUSED: dict[str, Verb] = {
    "gamma 0": lambda private: retained(private, tilt=flat(5, -0.1)),
    "gamma below 2^-20": lambda private: retained(private, tilt=flat(5, -0.1 - 2.0**-21)),
    "gamma 0 for one index that was not drawn": lambda private: retained(private, tilt=with_prior([-0.6] * 4 + [0.0])),
    "gamma 0 where the count is 0": lambda private: retained(private, slope=-SLOPE, tilt=flat(5)),
    "a positive tilt": lambda private: retained(private, tilt=flat(5, 1.0)),
    "gamma 0 for a complement": lambda private: retained(private, tilt=LogWeights(0.5, np.full(5, 1), 1, None, -0.1)),
    "a short tilt": lambda private: retained(private, tilt=flat(4, -0.6)),
    "no units": lambda private: retained(private, total=0),
    "nothing drawn": lambda private: retained(private, drawn=DRAWN[:0]),
    "a matrix drawn": lambda private: retained(private, drawn=DRAWN[None, :]),
    "an index too large": lambda private: retained(private, drawn=np.array([10])),
    "a negative index": lambda private: retained(private, drawn=np.array([-1])),
    "floats drawn": lambda private: retained(private, drawn=DRAWN.astype(float)),  # type: ignore[arg-type]
    "a steep slope": lambda private: retained(private, slope=Fraction(3000), tilt=flat(5, -4000.0)),
}


@pytest.mark.parametrize("verb", REFUSED.values(), ids=REFUSED)
def test_refused_arguments_cost_nothing_and_touch_nothing(verb: Verb, no_draws: None) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), Budget.pure(10**6))
    with pytest.raises(ValueError, match="want"):
        verb(private)
    assert private.charges == ()


@pytest.mark.parametrize("verb", ["sample", "retain"])
def test_complements_need_units_of_one_row_or_one_basket(verb: str, no_draws: None) -> None:
    def ask(private: PrivateStatistics, queries: Conjunctions) -> object:
        if verb == "retain":
            return private.retain(queries, DRAWN, SLOPE, TILT, 5)
        return private.sample(queries, SLOPE, TILT, 5, 1)

    several = private_statistics(NoStatistics(Contribution(Shape.TABLE, 2)), Budget.pure(1))
    with pytest.raises(ValueError, match="want max_rows_per_unit: 1"):
        ask(several, COLUMNS)
    assert several.charges == ()
    baskets = private_statistics(TinyBaskets(BinaryView(5), np.eye(5, dtype=bool), 3), Budget.pure(1))
    with pytest.raises(AssertionError, match="bits were drawn"):  # A basket is one unit whatever it holds.
        ask(baskets, Conjunctions.single_columns(BinaryView(5)))


def test_every_bit_is_charged_before_any_is_drawn_and_whether_it_accepts_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costs = set()
    for bit in (0, 1):
        private = private_statistics(TABLE, Budget.pure(1))

        def bits(exponents: NDArray[np.int32], _: object, bit: int = bit, own: PrivateStatistics = private) -> object:
            assert len(own.charges) == 1
            return np.full(exponents.size, bit)

        monkeypatch.setattr(kernel.bernoulli, "bits", bits)
        assert retained(private).tolist() == [bool(bit)] * 4
        costs.add(private.charges[0].amount)
    (cost,) = costs
    width = 0.1 / 5
    assert 4 * width / math.expm1(0.5) <= cost < 4.0001 * width / math.expm1(0.5)
    with pytest.raises(BudgetExceededError):
        retained(private_statistics(NoStatistics(TABLE.contribution), Budget.pure(cost - Fraction(1, 2**70))))


@pytest.mark.parametrize("slope", [SLOPE, -SLOPE])
def test_a_bit_costs_what_its_own_largest_chance_asks_for(slope: Fraction) -> None:
    """The further the chance of an index stays below 1, the less its bit can say."""
    tilt = LogWeights(0.5, np.zeros(5, dtype=np.int32), 1, None, -0.6)  # -0.6 for a query, -1.1 for a complement.
    near, far = -0.6 + max(0, float(slope)), -1.1 + max(0, float(slope))
    width = 0.1 / 5
    for budget, cost in {
        Budget.pure(1): lambda gap: width * max(1, 1 / math.expm1(gap)),
        Budget.zcdp(1): lambda gap: (width / -math.expm1(-gap)) ** 2 / 8,
    }.items():
        private = private_statistics(TABLE, budget)
        retained(private, DRAWN, slope, tilt)
        wanted = 2 * cost(-near) + 2 * cost(-far)  # Indices 0 and 3, and 9 twice.
        assert float(private.charges[0].amount) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("gap", [SMALLEST_GAP, Fraction(1, 1000), Fraction(1)])
def test_a_bit_pays_for_weights_that_are_a_little_off(gap: Fraction) -> None:
    """Weights are off by up to 2 xi in each dataset: the loss is wider by 4 xi, and the probability larger by 2 xi."""
    terms = private_statistics(TABLE, Budget.pure(1)).terms
    width, total = SLOPE / 5 + 4 * XI, 5
    cost = terms.retain_amount(SLOPE, total, {gap: 1})
    at_zero = 1 / mpmath.expm1(mpmath.mpf((gap - 2 * XI).numerator) / (gap - 2 * XI).denominator)
    wanted = mpmath.mpf(width.numerator) / width.denominator * max(1, at_zero)
    charged = mpmath.mpf(cost.numerator) / cost.denominator
    assert wanted <= charged <= wanted * (1 + mpmath.mpf("3e-9"))


def test_bits_that_ignore_the_data_are_free() -> None:
    private = private_statistics(TABLE, Budget.zcdp(1))
    retained(private, slope=Fraction(0))
    assert private.charges[0].amount == 0


OTHERS: dict[str, Verb] = {
    "other draws": lambda private: retained(private, drawn=DRAWN[::-1]),
    "another slope": lambda private: retained(private, slope=Fraction(1, 9)),
    "another tilt": lambda private: retained(private, tilt=flat(5, -0.7)),
    "another total": lambda private: retained(private, total=6),
    "another verb": lambda private: private.sample(COLUMNS, SLOPE, TILT, 5, 4),
}


@pytest.mark.parametrize("verb", OTHERS.values(), ids=OTHERS)
def test_another_request_is_an_integrity_error(verb: Verb) -> None:
    journal = MemoryJournal()
    kept = retained(private_statistics(TABLE, Budget.pure(9), journal=journal))
    again = retained(private_statistics(NoStatistics(TABLE.contribution), Budget.pure(9), journal=journal))
    assert again.dtype == np.bool_
    assert again.tolist() == kept.tolist()
    with pytest.raises(IntegrityError):
        verb(private_statistics(NoStatistics(TABLE.contribution), Budget.pure(9), journal=journal))


def test_every_draw_gets_a_bit_of_its_own() -> None:
    """200 draws of one index whose chance is 0.6: their bits are equal less than once in 10^40 runs."""
    bits = retained(private_statistics(TABLE, Budget.pure(10**3)), np.full(200, 2))
    assert 0 < bits.sum() < 200


def test_the_plan_knows_the_cost_from_the_gaps_alone() -> None:
    private = private_statistics(TABLE, Budget.gdp(1))
    retained(private)
    terms = PrivacyTerms(private.terms.unit, Budget.gdp(1))
    assert private.charges[0].amount == terms.retain_amount(SLOPE, 5, {-(SLOPE + Fraction(-0.6)): 4})
