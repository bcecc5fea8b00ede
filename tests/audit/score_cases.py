"""Worst cases of the selection scores beside the L1 error of marginals, and of noisy errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpcore.kernel.budget import Currency
from dpcore.kernel.scores import Candidates, Generalised, L1Error, LinearL1Error, MutualInformation, RScore, Score
from dpcore.measurement import Noise
from dpcore.queries import Marginals, Product, Products
from tests.audit.lower_bounds import Sample
from tests.audit.worst_cases import X
from tests.audit.worst_pairs import ROWS, TWO, Claim, Pair, one_cell, table

_ROWS_BESIDE = 40


@dataclass(frozen=True)
class Choice:
    """What is chosen from. statistic: For each candidate, large where the neighbour chooses it oftener."""

    pair: Pair
    candidates: Candidates
    score: Score
    statistic: tuple[float, ...] = (1.0, 0.0)


@dataclass(frozen=True)
class Choosing:
    """Calls of ``select`` with one score."""

    claim: Claim
    name: str
    make: Callable[[Claim], Choice]

    @property
    def through(self) -> str:
        return f"select, {self.name}"

    def draw(self, neighbour: bool, runs: int) -> Sample:
        choice = self.make(self.claim)
        private = choice.pair.private(neighbour, self.claim.times(runs), self.claim.neighbours)
        share = Fraction(1, runs)
        chosen = [private.select(choice.candidates, choice.score, share) for _ in range(runs)]
        return np.array(choice.statistic)[chosen]


@dataclass(frozen=True)
class Erring:
    """Calls of ``measure_errors`` of one marginal: the rows of a unit were expected, or none were."""

    claim: Claim
    through: str = "measure_errors"

    def draw(self, neighbour: bool, runs: int) -> Sample:
        private = one_cell(self.claim).private(neighbour, self.claim.times(runs), self.claim.neighbours)
        estimate = np.array([ROWS if self.claim.replaced else 0, 0], dtype=np.float64)
        most = 2 * ROWS if self.claim.replaced else ROWS
        found = [private.measure_errors(X, estimate, Fraction(1, runs)) for _ in range(runs)]
        values = np.array([float(one.values[0]) for one in found])
        if found[0].noise is Noise.LAPLACE:
            values = np.clip(values, 0.0, most)
        return values if self.claim.replaced else -values


def linear_queries(claim: Claim) -> Choice:
    """The error of one candidate grows by all that a row can move it, that of the other one falls."""
    both = np.array([[1, -1], [1, -1]])
    candidates = Products(TWO, (Product(("x",), (both,)), Product(("y",), (both,))))
    before, after = (-2.0, 2.0) if claim.replaced else (0.0, 2.0)
    move = after - before
    opens_from_zero = claim.budget.currency is Currency.PURE
    estimate = np.array([before / 2, before / 2, 1.0, 1.0])
    score = LinearL1Error(estimate, np.ones(2), np.array([move if opens_from_zero else 0.0, 0.0]))
    return Choice(_one_row(claim), candidates, score)


def generalised(claim: Claim) -> Choice:
    """Two candidates move against one another, both compared with a third one of next to no sensitivity."""
    candidates = Marginals(TWO, (("x",), ("y",), ()))
    estimate = np.array([0.0, float(claim.replaced), 1.0, 0.0, 0.0])
    most = 2.0 if claim.replaced else 1.0
    score = L1Error(estimate, np.array([1.0, 1.0, 1 / 256]), np.array([0.0, 0.0, -256 * most]))
    return Choice(_one_row(claim), candidates, Generalised(score, 0), (2.0, 0.0, 1.0))


def r_score(claim: Claim) -> Choice:
    return Choice(_first_of_its_kind(claim), _FAMILIES, RScore(("x", "x")))


def mutual_information(claim: Claim) -> Choice:
    return Choice(_first_of_its_kind(claim), _FAMILIES, MutualInformation(("x", "x")))


_FAMILIES = Marginals(TWO, (("x", "y"), ("x",)))


def _one_row(claim: Claim) -> Pair:
    """A row in the first cells, against one in the last cells or none."""
    return Pair(table(TWO, [(1, 1)] if claim.replaced else []), table(TWO, [(0, 0)]), 1)


def _first_of_its_kind(claim: Claim) -> Pair:
    """Rows of one kind, and one row that shares neither value with them."""
    rows = [(1, 1)] * _ROWS_BESIDE
    first = [*rows, (1, 1)] if claim.replaced else rows
    return Pair(table(TWO, first), table(TWO, [*rows, (0, 0)]), _ROWS_BESIDE + 1)
