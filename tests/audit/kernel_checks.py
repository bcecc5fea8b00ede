"""Checks that the real kernel passes and that planted bugs must fail: those of the tests, on fewer draws.

A bug of factor 2 or more slips through a statistical check less than once in 10^6 runs, and so does a right kernel
fail one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import BudgetExceededError, IntegrityError
from dpcore.exact_statistics import Contribution, Request, Shape
from dpcore.kernel import bernoulli, conversion, weighted_sampler
from dpcore.kernel import private_statistics as kernel
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.gaussian_dp import gdp_of_bounded_range
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.scores import L1Error
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.kernel.weighted_sampler import SlotScores, UnitCounts
from dpcore.queries import Conjunctions, Marginals, Product, Products, UnitCount, rounded_rows
from dpcore.testing.doubles import ADD_REMOVE, REPLACE, NoStatistics, RefusingLedger, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyTable
from tests.audit.selection_laws import p_value as chances_p_value
from tests.support import laws
from tests.support.laws import REJECT_BELOW, SCORE_SCALE, SLOPE
from tests.support.product_cases import dense
from tests.support.tilts import flat, with_prior

PURE, ZCDP, GDP = Currency.PURE, Currency.ZCDP, Currency.GDP
DOMAIN = Domain.of({"a": 2, "b": 3})
MARGINALS = Marginals(DOMAIN, (("a",), ("b",)))
TABLE = TinyTable(DOMAIN, np.array([[0, 0], [0, 1], [1, 2], [1, 2]]))
COLUMNS = Conjunctions.single_columns(BinaryView.one_hot(DOMAIN))
# Every entry is rounded up, by nearly half a step.
REAL = np.array([[0.51, 0.51, -0.49], [1.51, -1.49, 0.51]])
STRATEGY = Products(
    DOMAIN,
    (
        Product(("b",), (rounded_rows(REAL, 0)[0],), 2),
        Product(("a", "b"), (np.eye(2, dtype=int), np.eye(3, dtype=int))),
    ),
)
Check = Callable[[], None]


def noise_is_right(currency: Currency, neighbours: Neighbours, rows: int, cliques: int) -> None:
    draws, scale = laws.marginal_noise(currency, neighbours, rows, cliques, 2000)
    assert laws.noise_p_value(draws, currency, scale) > REJECT_BELOW
    assert abs(laws.neighbour_z(draws)) < 5.5


def conjunctions_are_right(currency: Currency) -> None:
    draws, scale = laws.conjunction_noise(currency, 3, 2000)
    assert laws.noise_p_value(draws, currency, scale) > REJECT_BELOW


def selection_is_right(currency: Currency, neighbours: Neighbours, rows: int, draws: int = 1000) -> None:
    counts = laws.selections(currency, neighbours, rows, draws)
    assert laws.p_value(counts, laws.selection_law(currency, SCORE_SCALE)) > REJECT_BELOW


def sampling_is_right(n0: int) -> None:
    counts, law = laws.sampled(n0, 20_000)
    assert laws.p_value(counts, law(float(SLOPE))) > REJECT_BELOW


def sampling_of_cells_is_right() -> None:
    """4 rows in 2 marginals of 2 and 3 cells: the complement of a cell counts the other rows, once."""
    tilt = LogWeights(0.5, np.array([1, 0, 0, 1, 0]), 1, np.array([0.0, 0.0, 1.0, 0.0, -1.0]))
    drawn = private_statistics(TABLE, Budget.pure(10**9)).sample(MARGINALS, Fraction(2), tilt, 4, 20_000)
    counts = np.array([2, 2, 1, 1, 2])
    scores = 2 * np.concatenate([counts, 4 - counts]) / 4 + tilt.log_weights()
    assert laws.p_value(np.bincount(drawn, minlength=10), np.exp(scores)) > REJECT_BELOW


def rejection_is_right() -> None:
    """Four slots, two of them where the envelope is 6 % above the weight and two where it touches."""
    tilt, exact = with_prior([0.0, 0.53 * math.log(2.0)]), UnitCounts(np.zeros(2, dtype=np.int32), 1)
    drawn = weighted_sampler.draw(SlotScores.up_to_a_factor(Fraction(0), tilt, 1), exact, 500_000)
    assert laws.p_value(np.bincount(drawn, minlength=4), np.exp(tilt.log_weights())) > REJECT_BELOW


def requests_name_the_whole_tilt() -> None:
    """A change of any part of a tilt is another request, of draws and of bits."""
    tilt = LogWeights(0.5, np.array([1, 0, 0, 1, 0]), 1, np.array([-1.0, -1.0, -2.0, -1.0, -1.0]), -2.0)
    others = [
        replace(tilt, step=0.25),
        replace(tilt, hits=np.array([1, 0, 0, 0, 0])),
        replace(tilt, done=2),
        replace(tilt, prior=np.array([-1.0, -1.0, -2.0, -1.0, -1.5])),
        replace(tilt, prior=None),
        replace(tilt, constant=-3.0),
    ]
    found = set()
    for one in [tilt, *others]:
        journal = MemoryJournal()
        private = private_statistics(TABLE, Budget.pure(9), journal=journal)
        private.sample(COLUMNS, Fraction(1, 10), one, 4, 1)
        private.retain(COLUMNS, np.zeros(1, dtype=np.int64), Fraction(1, 10), one, 4)
        found |= {request for request, _ in journal.answers}
    assert len(found) == 2 * (len(others) + 1)


def bits_are_right(n0: int) -> None:
    """5,000 bits of each of 8 indices, and neighbours that do not hang together."""
    offsets, drawn = laws.OFFSETS - 3.6, np.tile(np.arange(8), 5000)
    tilt = replace(laws.TILT, constant=-3.6)
    kept = private_statistics(laws.BASKETS, Budget.pure(10**9)).retain(laws.QUERIES, drawn, SLOPE, tilt, n0)
    chances = np.exp(float(SLOPE) * laws.shares(n0) + offsets)
    accepted = np.bincount(drawn, weights=kept, minlength=8).astype(np.int64)
    counts = np.stack([accepted, 5000 - accepted], axis=1)
    assert chances_p_value(counts, np.stack([chances, 1 - chances], axis=1)) > REJECT_BELOW
    assert abs(laws.neighbour_z(kept - chances[drawn])) < 5.5


def draws_cost_enough() -> None:
    """100 draws of range f slope / n0 plus 4 times the relative error 2^-29 of the weights."""
    for neighbours, directions in ((ADD_REMOVE, 1), (REPLACE, 2)):
        unit = PrivacyUnit(neighbours, Contribution(Shape.BASKETS, 9), 50)
        width = Fraction(directions, 50) + Fraction(4, 2**29)
        assert PrivacyTerms(unit, Budget.pure(1)).draws_amount(Fraction(1), 50, 100) >= 100 * width
        assert PrivacyTerms(unit, Budget.zcdp(1)).draws_amount(Fraction(1), 50, 100) >= 100 * width**2 / 8


def bits_cost_enough() -> None:
    """Bits whose chance is at most exp(-gap), written out for two gaps that are drawn once and three times."""
    tilt, drawn = LogWeights(0.75, np.zeros(5, dtype=np.int32), 1, None, -0.35), np.array([0, 9, 9, 9])
    width = 0.1 / 4
    for budget, cost in {
        Budget.pure(9): lambda gap: width * max(1, 1 / math.expm1(gap)),
        Budget.zcdp(9): lambda gap: (width / -math.expm1(-gap)) ** 2 / 8,
        Budget.gdp(9): lambda gap: float(gdp_of_bounded_range(Fraction(width / -math.expm1(-gap)))),
    }.items():
        private = private_statistics(TABLE, budget)
        private.retain(COLUMNS, drawn, Fraction(1, 10), tilt, 4)
        assert float(private.charges[0].amount) >= cost(0.25) + 3 * cost(1.0)


def every_bit_is_charged() -> None:
    """Bits that would all be 0, and bits that would all be 1, cost the same."""
    costs = set()
    for bit in (0, 1):
        private = private_statistics(TABLE, Budget.pure(9))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bernoulli, "bits", lambda exponents, _, bit=bit: np.full(exponents.size, bit))
            private.retain(COLUMNS, np.arange(4), Fraction(1, 10), flat(5, -1.0), 4)
        costs.add(private.charges[0].amount)
    assert len(costs) == 1
    assert min(costs) > 0


def certain_bits_are_refused() -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), Budget.pure(10**9))
    for tilt in (flat(5, -0.1), flat(5), with_prior([-9.0] * 4 + [-0.05])):
        with pytest.raises(ValueError, match="below -gamma"):
            private.retain(COLUMNS, np.zeros(1, dtype=np.int64), Fraction(1, 10), tilt, 4)


def weights_are_close() -> None:
    tilt, exact = with_prior([-5.5e-17, -0.3, 0.7, 11.9]), UnitCounts(np.zeros(4, dtype=np.int32), 9)
    scores = SlotScores.of(Fraction(0), tilt, 9)
    exponents, mantissas = weighted_sampler.split_weights(scores, exact, np.arange(4))
    wanted = np.exp(tilt.log_weights()[:4]) * 2.0**30
    found = [m * 2.0**e for e, m in zip(exponents.tolist(), mantissas.tolist(), strict=True)]
    assert np.allclose(found, wanted, rtol=2.0**-29, atol=0)


def scores_that_are_no_numbers_are_refused() -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), Budget.pure(1))
    for wrong in (np.nan, 5000.0):
        with pytest.raises(ValueError, match="want finite" if np.isnan(wrong) else "want at most 2"):
            private.sample(COLUMNS, Fraction(1, 9), with_prior([wrong] + [0.0] * 4), 5, 1)
        with pytest.raises(ValueError, match="not finite"):
            L1Error(np.array([wrong * 2**44, 0, 0, 0, 0]), np.ones(2), np.zeros(2))


def products_are_noisy_enough() -> None:
    """The scale for every pair of cells of the dense matrix that is applied to the data, for 1 and 2 rows a unit."""
    columns = dense(STRATEGY).T.astype(np.int64)
    nothing = np.zeros((1, columns.shape[1]), dtype=np.int64)
    for rows in (1, 2):
        held = np.concatenate([nothing, columns]) * rows
        for neighbours in Neighbours:
            replaced = neighbours is REPLACE
            changes = (held[1:, None] - held[None]).reshape(-1, held.shape[1]) if replaced else held
            unit = PrivacyUnit(neighbours, Contribution(Shape.TABLE, rows), 9 if replaced else None)
            l1, l2 = np.abs(changes).sum(axis=1).max(), (changes**2).sum(axis=1).max()
            for budget, scale in {
                Budget.pure(1): l1,
                Budget.zcdp(1): math.sqrt(l2 / 2),
                Budget.gdp(1): math.sqrt(l2),
            }.items():
                assert PrivacyTerms(unit, budget).measure_scale(STRATEGY, Fraction(1)) >= scale * (1 - 1e-12)


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
    again = private_statistics(TABLE, Budget.pure(1))
    with pytest.raises(BudgetExceededError):
        again.sample(COLUMNS, Fraction(1), flat(5), 4, 10)


def answers_are_replayed() -> None:
    journal = MemoryJournal()
    first = private_statistics(TABLE, Budget.pure(1), journal=journal).measure(MARGINALS, Fraction(1, 1000))
    again = private_statistics(TABLE, Budget.pure(1), journal=journal).measure(MARGINALS, Fraction(1, 1000))
    assert np.array_equal(first.values, again.values)
    assert len(journal.answers) == 1
    with pytest.raises(IntegrityError):
        private_statistics(TABLE, Budget.pure(1), journal=journal).measure(MARGINALS, Fraction(1, 999))


def answers_are_stored_before_they_are_used() -> None:
    class FullDisk(MemoryJournal):
        def record(self, index: int, request: str, answer: object) -> None:
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        private_statistics(TABLE, Budget.pure(1), journal=FullDisk()).measure(MARGINALS, Fraction(1, 2))


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


class _Changed(TinyTable):
    """Data whose answers are not those of four rows of one row each."""

    def aggregate(self, request: Request) -> np.ndarray:
        answers = super().aggregate(request)
        return answers if isinstance(request, UnitCount) else answers + 2**43


def aggregates_are_checked() -> None:
    """Tables of 2^44 rows and more, tables of different data, and rows without units are not taken for counts."""
    large = _Changed(DOMAIN, TABLE.codes)
    for queries in (MARGINALS.only([("b",)]), MARGINALS):
        with pytest.raises(IntegrityError):
            private_statistics(large, Budget.pure(1)).measure(queries, Fraction(1))


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
    "rounded gauss, add/remove": partial(noise_is_right, GDP, ADD_REMOVE, 3, 1),
    "rounded gauss, replace": partial(noise_is_right, GDP, REPLACE, 3, 1),
    "laplace, conjunctions": partial(conjunctions_are_right, PURE),
    "gauss, conjunctions": partial(conjunctions_are_right, ZCDP),
    "products": products_are_noisy_enough,
    # Gumbel noise gives nearly the law of exponential noise: 1,000 draws miss it in one run of three.
    "select, pure": partial(selection_is_right, PURE, ADD_REMOVE, 1, 8000),
    "select, zcdp": partial(selection_is_right, ZCDP, ADD_REMOVE, 1),
    "select, gdp": partial(selection_is_right, GDP, ADD_REMOVE, 1),
    "select, replace": partial(selection_is_right, PURE, REPLACE, 1),
    "select, 3 rows": partial(selection_is_right, ZCDP, ADD_REMOVE, 3),
    "sample": partial(sampling_is_right, 50),
    "sample, clamped": partial(sampling_is_right, 10),
    "sample, cells": sampling_of_cells_is_right,
    "rejection": rejection_is_right,
    "tilts named": requests_name_the_whole_tilt,
    "cost of draws": draws_cost_enough,
    "retain": partial(bits_are_right, 50),
    "cost of bits": bits_cost_enough,
    "every bit charged": every_bit_is_charged,
    "certain bits": certain_bits_are_refused,
    "weights": weights_are_close,
    "no numbers": scores_that_are_no_numbers_are_refused,
    "refusals": refusals_draw_nothing,
    "budget": the_budget_holds,
    "replay": answers_are_replayed,
    "stored first": answers_are_stored_before_they_are_used,
    "requests": requests_are_public,
    "ledger first": the_ledger_comes_first,
    "shapes": scores_fit_their_candidates,
    "aggregates": aggregates_are_checked,
    "conversion": epsilon_is_not_understated,
}
