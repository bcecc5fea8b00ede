"""Checks of selection scores and noisy errors that the real kernel passes, and the bugs that must fail them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel import dependence, l1_scores
from dpcore.kernel import normalised_scores as generalised
from dpcore.kernel import privacy_terms as terms
from dpcore.kernel import private_statistics as kernel
from dpcore.kernel.budget import Currency
from dpcore.kernel.noise import add_noise
from dpcore.kernel.scores import GRID, Candidates, Generalised, L1Error, LinearL1Error, MutualInformation, RScore, Score
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.queries import Marginals, Product, Products
from dpcore.testing.doubles import ADD_REMOVE, REPLACE
from dpcore.testing.tiny_statistics import TinyTable
from tests.support.candidates import tables_from
from tests.support.laws import ERROR_SCALE, REJECT_BELOW, error_noise, noise_p_value

DOMAIN = Domain.of({"a": 3, "b": 3})
PREFIX = np.tril(np.ones((3, 3), dtype=np.int64))
LINEAR = Products(DOMAIN, (Product(("b",), (PREFIX,), 3), Product(("a", "b"), (np.array([[1, -1, 1]]), PREFIX))), 2)
LINEAR_SCORE = LinearL1Error(np.array([0.5, 1, 0, 0, 1, 0]), np.array([3.0, 7.0]), np.array([0.0, 1.0]))
MARGINALS = Marginals(DOMAIN, (("a",), ("b",), ("a", "b")))
L1_SCORE = L1Error(np.array([1.0, 0, 1, 0, 2, 0, *[0] * 9]), np.array([1.0, 3.0, 0.01]), np.array([0.0, 1, -50]))
FAMILIES = MARGINALS.only([("a", "b"), ("a",)])
Rows = tuple[int, ...]


def errors_are_right(currency: Currency, neighbours: Neighbours, rows: int) -> None:
    draws = error_noise(currency, neighbours, rows, 2000)
    assert noise_p_value(draws, currency, ERROR_SCALE) > REJECT_BELOW


def datasets(most: int) -> Iterator[Rows]:
    """Every multiset of up to so many of the 9 cells."""
    for count in range(most + 1):
        yield from combinations_with_replacement(range(9), count)


def scores_are_bounded(candidates: Candidates, score: Score, neighbours: Neighbours, most: int, beside: Rows) -> None:
    """Every dataset of up to ``most`` rows and those beside, with every row that may come to it or be exchanged."""
    unit = PrivacyUnit(neighbours, Contribution(Shape.TABLE, 1), most + 1 + len(beside))
    found = {rows: _scored(candidates, score, unit, rows + beside) for rows in datasets(most + 1)}
    allowed = score.sensitivity(candidates, unit)
    for rows in datasets(most):
        with_row = np.stack([found[tuple(sorted((*rows, cell)))] for cell in range(9)])
        moved = np.ptp(with_row, axis=0) if neighbours is REPLACE else np.abs(with_row - found[rows])
        assert moved.max() <= allowed


def _scored(candidates: Candidates, score: Score, unit: PrivacyUnit, rows: Rows) -> NDArray[np.int64]:
    codes = np.array([divmod(cell, 3) for cell in rows], dtype=np.int64).reshape(-1, 2)
    return score.scores(candidates, unit, tables_from(candidates, TinyTable(DOMAIN, codes)))


_UNEVEN = (1,) * 65 + (2,) * 6 + (7,) * 11  # One exchanged row moves R by 2.76.
_HALVES = (1,) * 12 + (3,) * 12  # Rows that share the child's value, and rows that share the parent's.
CHECKS: dict[str, Callable[[], None]] = {
    "errors, laplace": partial(errors_are_right, Currency.PURE, REPLACE, 3),
    "errors, gauss": partial(errors_are_right, Currency.ZCDP, ADD_REMOVE, 3),
    "errors, rounded gauss": partial(errors_are_right, Currency.GDP, REPLACE, 1),
    "linear scores": partial(scores_are_bounded, LINEAR, LINEAR_SCORE, ADD_REMOVE, 2, ()),
    "normalised scores": partial(scores_are_bounded, MARGINALS, Generalised(L1_SCORE, 0.5), REPLACE, 2, ()),
    "normalised linear scores": partial(scores_are_bounded, LINEAR, Generalised(LINEAR_SCORE, 0), ADD_REMOVE, 2, ()),
    "R": partial(scores_are_bounded, FAMILIES, RScore(("a", "a")), ADD_REMOVE, 2, (0,) * 9),
    "R, replace": partial(scores_are_bounded, FAMILIES, RScore(("a", "a")), REPLACE, 1, _UNEVEN),
    "mutual information": partial(scores_are_bounded, FAMILIES, MutualInformation(("a", "a")), ADD_REMOVE, 2, (0,) * 9),
    "mutual information, replace": partial(
        scores_are_bounded, FAMILIES, MutualInformation(("b", "a")), REPLACE, 1, _HALVES
    ),
}


def by_own_sensitivity(scores: list[int], moves: list[int]) -> NDArray[np.int64]:
    best = max(scores)
    return np.array([generalised.STEPS * (score - best) // move for score, move in zip(scores, moves, strict=True)])


def in_counts(exact: NDArray[np.int64], noise: Any, scale: float, *given: Any) -> NDArray[np.int64]:
    """Noise of the right scale in counts, added to errors in steps of 1/256."""
    return add_noise(exact, noise, scale / GRID, *given)


def in_bits(count: int) -> int:
    return round(GRID * count * math.log2(count)) if count else 0


def as_if_binary(self: Any, candidates: Any, unit: PrivacyUnit) -> int:
    return dependence._steps_up(dependence._g(Decimal(dependence._max_rows(unit)))) + 12


# (bug, place, name, wrong, the check that fails)
PLANTED: list[tuple[str, Any, str, Any, str]] = [
    ("errors: cliques ignored", terms, "noise_scale",
     lambda currency, amount, l1, squared, law=terms.noise_scale: law(currency, amount, l1 // 2, squared // 2),
     "errors, laplace"),
    ("errors: cliques ignored in squares", terms, "noise_scale",
     lambda currency, amount, l1, squared, law=terms.noise_scale: law(currency, amount, l1, squared // 2),
     "errors, gauss"),
    ("errors: rows of a unit ignored", terms, "marginal_l1_sensitivity", lambda unit: 1, "errors, gauss"),
    ("errors: replacing moves once", terms, "marginal_l1_sensitivity",
     lambda unit: unit.contribution.bound, "errors, rounded gauss"),
    ("errors: noise in counts, errors in steps", kernel, "add_noise", in_counts, "errors, laplace"),
    ("linear scores: a row moves one answer", l1_scores, "largest_l1_of", lambda term: term.weight, "linear scores"),
    ("linear scores: the weight of a term ignored", l1_scores, "largest_l1_of",
     lambda term, law=l1_scores.largest_l1_of: law(term) // term.weight, "linear scores"),
    ("linear scores: the division ignored", LinearL1Error, "scores",
     lambda self, candidates, unit, tables: np.array(self.exact_scores(candidates, tables)) // 2, "linear scores"),
    ("normalised by its own sensitivity alone", generalised, "normalised", by_own_sensitivity, "normalised scores"),
    ("normalised: one candidate's sensitivity halved", L1Error, "sensitivities",
     lambda self, candidates, unit, law=L1Error.sensitivities: [one // 2 for one in law(self, candidates, unit)],
     "normalised scores"),
    ("normalised: sensitivities of unweighted terms", LinearL1Error, "sensitivities",
     lambda self, candidates, unit: [1 << 48] * len(candidates.terms), "normalised linear scores"),
    ("R: a row moves it once", RScore, "sensitivity", lambda *_: GRID, "R"),
    ("R: an exchanged row moves it as a new one", RScore, "sensitivity", lambda *_: 2 * GRID, "R, replace"),
    ("R: every cell rounded", dependence, "_distance_from_independence",
     lambda joint: 7 * GRID * int(joint.max()), "R"),
    ("mutual information: half of what a row moves", dependence, "_max_rows", lambda _: 3, "mutual information"),
    ("mutual information: in bits, charged in nats", dependence, "_f", in_bits, "mutual information, replace"),
    ("mutual information: every child taken for binary", MutualInformation, "sensitivity", as_if_binary,
     "mutual information, replace"),
]  # fmt: skip
