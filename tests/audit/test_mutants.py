"""Privacy bugs planted in the kernel, one at a time: each must be caught by a check that the real kernel passes.

The checks are those of the unit and statistical tests, on fewer draws; a planted bug of factor 2 or more slips through
one of them less than once in 10^6 runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import BudgetExceededError, IntegrityError
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel import conversion, entropy, exact_answers, sensitivity, terms, weighted_sampler
from dpcore.kernel import private_statistics as kernel
from dpcore.kernel.budget import Budget, Currency, Filter
from dpcore.kernel.memory import MemoryJournal
from dpcore.kernel.noise import add_noise
from dpcore.kernel.scores import GRID, L1Error
from dpcore.kernel.sensitivity import PrivacyUnit
from dpcore.kernel.terms import Terms
from dpcore.measurement import Noise
from dpcore.queries import Conjunctions, Marginals
from tests.support import laws
from tests.support.laws import REJECT_BELOW, SCORE_SCALE, SLOPE
from tests.support.private import ADD_REMOVE, REPLACE, NoStatistics, RefusingLedger, private_statistics
from tests.support.tiny_statistics import TinyTable

PURE, ZCDP = Currency.PURE, Currency.ZCDP
DOMAIN = Domain.of({"a": 2, "b": 3})
MARGINALS = Marginals(DOMAIN, (("a",), ("b",)))
TABLE = TinyTable(DOMAIN, np.array([[0, 0], [0, 1], [1, 2], [1, 2]]))
Check = Callable[[], None]


def noise_is_right(currency: Currency, neighbours: sensitivity.Neighbours, rows: int, cliques: int) -> None:
    draws, scale = laws.marginal_noise(currency, neighbours, rows, cliques, 2000)
    assert laws.noise_p_value(draws, currency, scale) > REJECT_BELOW
    assert abs(laws.neighbour_z(draws)) < 5


def conjunctions_are_right(currency: Currency) -> None:
    draws, scale = laws.conjunction_noise(currency, 3, 2000)
    assert laws.noise_p_value(draws, currency, scale) > REJECT_BELOW


def selection_is_right(currency: Currency, neighbours: sensitivity.Neighbours, rows: int, draws: int = 1000) -> None:
    counts = laws.selections(currency, neighbours, rows, draws)
    assert laws.p_value(counts, laws.selection_law(currency, SCORE_SCALE)) > REJECT_BELOW


def sampling_is_right(n0: int) -> None:
    counts, law = laws.sampled(n0, 20_000)
    assert laws.p_value(counts, law(float(SLOPE))) > REJECT_BELOW


def draws_cost_enough() -> None:
    """100 draws of range f slope / n0 plus 4 times the relative error 2^-29 of the weights."""
    for neighbours, directions in ((ADD_REMOVE, 1), (REPLACE, 2)):
        unit = PrivacyUnit(neighbours, Contribution(Shape.BASKETS, 9), 50)
        width = Fraction(directions, 50) + Fraction(4, 2**29)
        assert Terms(unit, Budget.pure(1)).draws_amount(Fraction(1), 50, 100) >= 100 * width
        assert Terms(unit, Budget.zcdp(1)).draws_amount(Fraction(1), 50, 100) >= 100 * width**2 / 8


def weights_are_close() -> None:
    offsets = np.array([-5.5e-17, -0.3, 0.7, 11.9])
    exponents, mantissas = weighted_sampler._split_weights(
        0.0, np.zeros(4), offsets, weighted_sampler._TABLE, weighted_sampler._LN2
    )
    wanted = [2.0 ** (float(x) + 30) for x in offsets]
    found = [
        mantissa * 2.0**exponent for exponent, mantissa in zip(exponents.tolist(), mantissas.tolist(), strict=True)
    ]
    assert np.allclose(found, wanted, rtol=2.0**-29, atol=0)


def refusals_draw_nothing() -> None:
    drawn: list[object] = []
    private = private_statistics(TABLE, Budget.pure(1))
    private.measure(MARGINALS, Fraction(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "add_noise", lambda *given: drawn.append(given) or np.zeros(5, dtype=np.int64))
        with pytest.raises(BudgetExceededError):
            private.measure(MARGINALS, Fraction(1, 2))
    assert drawn == []


def the_budget_holds() -> None:
    """Thirds of the budget fit three times and no more; what is charged never passes it."""
    private = private_statistics(TABLE, Budget.pure(1))
    for _ in range(3):
        private.measure(MARGINALS, Fraction(1, 3))
    assert private.remaining_share < Fraction(1, 2**70)
    columns = Conjunctions.single_columns(BinaryView.one_hot(DOMAIN))
    again = private_statistics(TABLE, Budget.pure(1))
    with pytest.raises(BudgetExceededError):
        again.sample(columns, Fraction(1), np.zeros(10), 4, 10)


def answers_are_replayed() -> None:
    journal = MemoryJournal()
    first = private_statistics(TABLE, Budget.pure(1), journal=journal).measure(MARGINALS, Fraction(1, 1000))
    again = private_statistics(TABLE, Budget.pure(1), journal=journal).measure(MARGINALS, Fraction(1, 1000))
    assert np.array_equal(first.values, again.values)
    assert len(journal.answers) == 1
    with pytest.raises(IntegrityError):
        private_statistics(TABLE, Budget.pure(1), journal=journal).measure(MARGINALS, Fraction(1, 999))


def requests_are_public() -> None:
    digests = set()
    for table in (TABLE, TinyTable(DOMAIN, np.zeros((9, 2), dtype=np.int64))):
        journal = MemoryJournal()
        private = private_statistics(table, Budget.pure(1), journal=journal)
        private.select(MARGINALS, L1Error(np.zeros(5), np.ones(2), np.zeros(2)), Fraction(1, 2))
        digests.add(journal.answers[0][0])
    assert len(digests) == 1


def the_ledger_comes_first() -> None:
    with pytest.raises(BudgetExceededError):
        private_statistics(NoStatistics(TABLE.contribution), Budget.pure(1), ledger=RefusingLedger())


def scores_fit_their_candidates() -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), Budget.pure(1))
    with pytest.raises(ValueError, match="have shape"):
        private.select(MARGINALS, L1Error(np.zeros((7, 5)), np.ones(2), np.zeros(2)), Fraction(1))


def epsilon_is_not_understated() -> None:
    """The Gaussian of rho = 1/2 (sigma 1) is (4.377, 1e-5)-DP exactly: no valid bound is below."""
    assert conversion.epsilon_of_zcdp(0.5, 1e-5) > 4.377
    assert conversion.epsilon_of_zcdp(float(conversion.zcdp_of(1.0, 1e-6)), 1e-6) <= 1.0


CHECKS: dict[str, Check] = {
    "laplace, add/remove": partial(noise_is_right, PURE, ADD_REMOVE, 1, 1),
    "laplace, replace": partial(noise_is_right, PURE, REPLACE, 1, 1),
    "laplace, 3 rows": partial(noise_is_right, PURE, ADD_REMOVE, 3, 1),
    "laplace, 2 cliques": partial(noise_is_right, PURE, ADD_REMOVE, 1, 2),
    "gauss, add/remove": partial(noise_is_right, ZCDP, ADD_REMOVE, 3, 1),
    "gauss, replace": partial(noise_is_right, ZCDP, REPLACE, 3, 1),
    "gauss, 2 cliques": partial(noise_is_right, ZCDP, ADD_REMOVE, 3, 2),
    "laplace, conjunctions": partial(conjunctions_are_right, PURE),
    "gauss, conjunctions": partial(conjunctions_are_right, ZCDP),
    # Gumbel noise gives nearly the law of exponential noise: 1,000 draws miss it in one run of three.
    "select, pure": partial(selection_is_right, PURE, ADD_REMOVE, 1, 8000),
    "select, zcdp": partial(selection_is_right, ZCDP, ADD_REMOVE, 1),
    "select, replace": partial(selection_is_right, PURE, REPLACE, 1),
    "select, 3 rows": partial(selection_is_right, ZCDP, ADD_REMOVE, 3),
    "sample": partial(sampling_is_right, 50),
    "sample, clamped": partial(sampling_is_right, 10),
    "cost of draws": draws_cost_enough,
    "weights": weights_are_close,
    "refusals": refusals_draw_nothing,
    "budget": the_budget_holds,
    "replay": answers_are_replayed,
    "requests": requests_are_public,
    "ledger": the_ledger_comes_first,
    "shapes": scores_fit_their_candidates,
    "conversion": epsilon_is_not_understated,
}


@dataclass(frozen=True)
class Mutant:
    """A planted bug: what replaces ``name`` in ``place``, and the check that must notice."""

    bug: str
    place: Any
    name: str
    wrong: Any
    caught_by: str


def scaled(function: Callable[..., float], factor: float) -> Callable[..., float]:
    return lambda *given: function(*given) * factor


def drawn_before_charged(self: Any, label: str, request: Any, amount: Fraction, draw: Callable[[], Any]) -> Any:
    answer = draw()
    self._filter.charge("late", amount)
    return answer


def never_charged(self: Any, label: str, request: Any, amount: Fraction, draw: Callable[[], Any]) -> Any:
    return draw()


def charged_and_never_remembered(self: Any, label: str, request: Any, amount: Fraction, draw: Callable[[], Any]) -> Any:
    self._filter.charge("once", amount)
    return draw()


def asked_before_reserved(self: Any, statistics: Any, *, unit: Any, budget: Any, ledger: Any, journal: Any) -> None:
    statistics.aggregate(None)
    ledger.reserve(budget)


def complements_of_the_public_number(self: Any, queries: Any, total: int) -> NDArray[np.float64]:
    counts = self.of(queries)
    return np.asarray(np.clip(np.concatenate([counts, total - counts]), 0, total), dtype=np.float64)


def unclamped(self: Any, queries: Any, total: int) -> NDArray[np.float64]:
    counts, units = self.of(queries), self.of(kernel.UnitCount())
    return np.concatenate([counts, units - counts]).astype(np.float64)


def parts_with_exact_answers(self: L1Error) -> Any:
    return (np.random.default_rng().integers(9, size=5), np.ones(2, np.int64), np.zeros(2, np.int64))


def one_draw_for_all(exact: NDArray[np.int64], noise: Noise, scale: float) -> NDArray[np.int64]:
    return exact + add_noise(np.zeros(1, dtype=np.int64), noise, scale)


def always_laplace(exact: NDArray[np.int64], noise: Noise, scale: float) -> NDArray[np.int64]:
    return add_noise(exact, Noise.LAPLACE, scale)


def float_gauss(exact: NDArray[np.int64], noise: Noise, scale: float) -> NDArray[np.int64]:
    return np.asarray(exact + np.random.default_rng().normal(scale=scale, size=exact.size), dtype=np.int64)


NOISE_SCALE, SELECTION_SCALE = terms.noise_scale, terms.selection_scale
DRAW, CHARGE, SELECT_SCALE = weighted_sampler.draw, Filter.charge, Terms.select_scale
MUTANTS = [
    Mutant("half the Laplace noise", terms, "noise_scale", scaled(NOISE_SCALE, 0.5), "laplace, add/remove"),
    Mutant("half the Gaussian noise", terms, "noise_scale", scaled(NOISE_SCALE, 0.5), "gauss, add/remove"),
    Mutant("half the variance", terms, "noise_scale", scaled(NOISE_SCALE, math.sqrt(0.5)), "gauss, add/remove"),
    Mutant("no noise", kernel, "add_noise", lambda exact, *_: exact, "laplace, add/remove"),
    Mutant("one draw for all cells", kernel, "add_noise", one_draw_for_all, "laplace, add/remove"),
    Mutant("Laplace noise under zCDP", kernel, "add_noise", always_laplace, "gauss, add/remove"),
    Mutant("Gaussian noise in doubles, cut", kernel, "add_noise", float_gauss, "gauss, add/remove"),
    Mutant("replacing moves L1 once", sensitivity, "_twice_if_replaced", lambda n, _: n, "laplace, replace"),
    Mutant("replacing moves L2 once", sensitivity, "_twice_if_replaced", lambda n, _: n, "gauss, replace"),
    Mutant("rows of a unit ignored", sensitivity, "_rows_of_unit", lambda _: 1, "laplace, 3 rows"),
    Mutant("rows ignored in squares", sensitivity, "_rows_of_unit", lambda _: 1, "gauss, add/remove"),
    Mutant("rows ignored in answers", sensitivity, "answer_sensitivity", lambda _: 1, "laplace, conjunctions"),
    Mutant("rows ignored in squared answers", sensitivity, "answer_sensitivity", lambda _: 1, "gauss, conjunctions"),
    Mutant("cliques ignored", terms, "l1_sensitivity", lambda *_: 1, "laplace, 2 cliques"),
    Mutant("cliques ignored in squares", terms, "squared_l2_sensitivity", lambda *_: 9, "gauss, 2 cliques"),
    Mutant("L2 not squared", terms, "squared_l2_sensitivity", lambda *_: 3, "gauss, add/remove"),
    Mutant("selection four times too sharp", terms, "selection_scale", scaled(SELECTION_SCALE, 0.25), "select, pure"),
    Mutant("selection twice too sharp", terms, "selection_scale", scaled(SELECTION_SCALE, 0.5), "select, zcdp"),
    Mutant("selection without noise", kernel, "noisy_argmax", lambda s, *_: int(np.argmax(s)), "select, pure"),
    Mutant("selection with Gumbel noise under pure DP", kernel, "noisy_argmax",
           lambda s, _, scale: int(np.argmax(s + np.random.default_rng().gumbel(scale=scale, size=s.size))),
           "select, pure"),
    Mutant("scores move once when replaced", L1Error, "sensitivity", lambda *_: GRID**2, "select, replace"),
    Mutant("rows ignored in scores", L1Error, "sensitivity", lambda *_: GRID**2, "select, 3 rows"),
    Mutant("grid forgotten in scores", L1Error, "sensitivity", lambda *_: GRID, "select, pure"),
    Mutant("selection draws for the whole budget", Terms, "select_scale",
           lambda self, score, _: SELECT_SCALE(self, score, Fraction(1)), "select, pure"),
    Mutant("shapes of scores unchecked", L1Error, "check", lambda *_: None, "shapes"),
    Mutant("complement of n0", exact_answers.ExactAnswers, "with_complements",
           complements_of_the_public_number, "sample"),
    Mutant("counts unclamped", exact_answers.ExactAnswers, "with_complements", unclamped, "sample, clamped"),
    Mutant("slope twice too steep", weighted_sampler, "draw", lambda s, *given: DRAW(2 * s, *given), "sample"),
    Mutant("draws sorted by class alone", weighted_sampler, "_draw_classes",
           lambda totals, size: np.full(size, int(np.argmax(totals)), dtype=np.int64), "sample"),
    Mutant("classes drawn evenly", entropy, "each_below", lambda bounds: np.zeros_like(bounds), "sample"),
    Mutant("replacing moves a draw in one direction", Terms, "draw_range",
           lambda self, slope, total: abs(slope) / total + 4 * weighted_sampler.XI, "cost of draws"),
    Mutant("weights taken as exact", terms, "XI", Fraction(0), "cost of draws"),
    Mutant("table of powers shifted", weighted_sampler, "_TABLE", np.roll(weighted_sampler._TABLE, 1), "weights"),
    Mutant("charge after the draw", kernel.PrivateStatistics, "_answer", drawn_before_charged, "refusals"),
    Mutant("no charge", kernel.PrivateStatistics, "_answer", never_charged, "refusals"),
    Mutant("charges never refused", Filter, "charge", lambda *_: None, "budget"),
    Mutant("half of each charge recorded", Filter, "charge",
           lambda self, label, amount: CHARGE(self, label, amount / 2), "budget"),
    Mutant("draws of a call charged once", Terms, "draws_amount",
           lambda self, slope, total, size: self.draw_range(slope, total), "budget"),
    Mutant("a new draw on replay", kernel.PrivateStatistics, "_answer", charged_and_never_remembered, "replay"),
    Mutant("requests all alike", kernel.json, "dumps", lambda *_: "the same", "replay"),
    Mutant("requests that depend on the data", L1Error, "public_parts", parts_with_exact_answers, "requests"),
    Mutant("data asked before the ledger", kernel.PrivateStatistics, "__init__", asked_before_reserved, "ledger"),
    Mutant("epsilon taken as rho", conversion, "_minimum_over_alpha", lambda bound: bound(1e9) * 1e-9, "conversion"),
    Mutant("rho taken as epsilon", conversion, "zcdp_of", lambda epsilon, _: Fraction(epsilon), "conversion"),
]  # fmt: skip


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_the_kernel_passes(check: Check) -> None:
    check()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.bug)
def test_a_planted_bug_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutant.place, mutant.name, mutant.wrong)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        CHECKS[mutant.caught_by]()


def test_every_check_catches_something() -> None:
    assert {mutant.caught_by for mutant in MUTANTS} == set(CHECKS)
