"""Runs on neighbours that are hardest to keep apart (``worst_pairs``), and the statistic that tells them apart best.

A statistic is a number for each run, large where the neighbour is likelier than the first dataset.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from dpcore.domain import BinaryView
from dpcore.estimation.record_model import RecordModel
from dpcore.kernel.budget import Currency
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.noisy_maximum import noisy_argmax
from dpcore.kernel.scores import L1Error
from dpcore.kernel.weighted_sampler import XI
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.api import Mechanism, Release
from dpcore.queries import ClippedSums, Conjunctions, Itemsets, Marginals, Product, Products
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.workload import Workload, conjunctive, explicit, frequent, linear
from tests.audit.lower_bounds import Sample
from tests.audit.worst_pairs import (
    ONE,
    ROWS,
    TWO,
    TWO_ITEMS,
    Claim,
    Pair,
    basket_of_two,
    lone_basket,
    lone_row,
    one_cell,
    opposite_errors,
    table,
)
from tests.support.candidates import tables_from
from tests.support.tilts import flat

X, X_AND_Y = Marginals(ONE, (("x",),)), Marginals(TWO, (("x",), ("y",)))
FIRST_VALUE = (np.array([[1, 0]]),)
X_OR_Y = Products(TWO, (Product(("x",), FIRST_VALUE), Product(("y",), FIRST_VALUE)))
CLIPPED_UNIT = 1 << 16  # What the lone row adds to each clipped sum, in its steps.
FIRST_COLUMN = Conjunctions(BinaryView.one_hot(ONE), np.array([[0]]), np.array([[False]]))
_MOST_AT_ONCE = 1_000_000  # Answers or draws of one call: more would take gigabytes.


class Trial(Protocol):
    """Runs of one mechanism under one claim. through: How a run is made."""

    @property
    def through(self) -> str: ...

    def draw(self, neighbour: bool, runs: int) -> Sample:
        """The statistic of ``runs`` runs, float64 [runs]."""
        ...


@dataclass(frozen=True)
class Runs:
    """One run of the whole mechanism is one run of the audit."""

    mechanism: Mechanism
    workload: Workload
    pair: Pair
    claim: Claim
    statistic: Callable[[Release], float]
    through: str = "mechanism.run"

    def draw(self, neighbour: bool, runs: int) -> Sample:
        return np.array([self.statistic(self._run(neighbour)) for _ in range(runs)])

    def _run(self, neighbour: bool) -> Release:
        private = self.pair.private(neighbour, self.claim.budget, self.claim.neighbours)
        return self.mechanism.run(private, self.workload, generator=np.random.default_rng())


def one_marginal(mechanism: Mechanism, claim: Claim) -> Trial:
    """The marginal of ``one_cell``, measured in one piece or in many."""

    def statistic(release: Release) -> float:
        return -sum(_shift(measured, claim, 0, ROWS) * _telling(measured) for measured in release.measurements)

    return Runs(mechanism, explicit(ONE, {("x",): 1.0}), one_cell(claim), claim, statistic)


def one_marginal_of_residuals(mechanism: Mechanism, claim: Claim) -> Trial:
    """The marginal of ``one_cell`` as the number of rows and residuals, with Gaussian noise."""

    def statistic(release: Release) -> float:
        return sum(_told_of_sums(measured, claim) * _telling(measured) for measured in release.measurements)

    return Runs(mechanism, explicit(ONE, {("x",): 1.0}), one_cell(claim), claim, statistic)


def one_series(mechanism: Mechanism, claim: Claim) -> Trial:
    """The prefixes of ``one_cell``: the rows of the first step are expected, or none (if replaced, in the second)."""

    def statistic(release: Release) -> float:
        (measured,) = release.measurements
        return _told_of_sums(measured, claim)

    return Runs(mechanism, linear(range_marginals(ONE, [("x",)], {"x": prefix(2)})), one_cell(claim), claim, statistic)


def mwem(mechanism: Mechanism, claim: Claim) -> Trial:
    """One round: the selection and the measurement both tell ``opposite_errors`` apart."""

    def statistic(release: Release) -> float:
        (measured,) = release.measurements
        chosen = measured.queries == X_AND_Y.only([("x",)])
        return _shift(measured, claim, 1, 3) if chosen else -1e9

    return Runs(mechanism, explicit(TWO, {("x",): 1.0, ("y",): 1.0}), opposite_errors(claim), claim, statistic)


def mwem_queries(mechanism: Mechanism, claim: Claim) -> Trial:
    """As ``mwem``, between the counts of the first value of x and of y."""

    def statistic(release: Release) -> float:
        (measured,) = release.measurements
        (value,) = measured.values.tolist()
        assert isinstance(measured.queries, Products)
        return _between(value, measured, 2, 3) if measured.queries.terms[0].clique == ("x",) else -1e9

    return Runs(mechanism, linear(X_OR_Y), opposite_errors(claim), claim, statistic)


def parities(mechanism: Mechanism, claim: Claim) -> Trial:
    """The marginal of ``one_cell`` as the number of rows and the rows of the first cell less those of the second."""

    def statistic(release: Release) -> float:
        (measured,) = release.measurements
        rows, apart = measured.values.tolist()
        if claim.replaced:  # The number of rows tells nothing.
            return -_between(apart, measured, -ROWS, ROWS)
        return -sum(_between(value, measured, 0, ROWS) for value in (rows, apart))

    return Runs(mechanism, explicit(ONE, {("x",): 1.0}), one_cell(claim), claim, statistic)


def dual_query(make: Callable[[float], Mechanism], claim: Claim) -> Trial:
    """Two rounds of one draw each, of which the second costs the budget. make: The mechanism for a step size."""

    def statistic(release: Release) -> float:
        assert isinstance(release.model, RecordModel)
        first, second = (np.unpackbits(release.model.records, axis=1)[:, 0]).tolist()
        return float(2 * second + first)

    mechanism = make(_slope(claim))
    return Runs(mechanism, conjunctive(FIRST_COLUMN), lone_row(claim), claim, statistic)


def drawn_marginal(make: Callable[[float], Mechanism], claim: Claim) -> Trial:
    """As ``dual_query``, with both cells of a marginal as queries; what was drawn shows in the fitted answer."""

    def statistic(release: Release) -> float:
        return float(release.answers.values[0])

    return Runs(make(_slope(claim)), explicit(ONE, {("x",): 1.0}), lone_row(claim), claim, statistic)


def clipped_answer(mechanism: Mechanism, claim: Claim) -> Trial:
    """A lone row that satisfies the one query in full; nearly all of the budget buys the clipped sum."""

    def statistic(release: Release) -> float:
        measured = release.measurements[-1]
        (value,) = measured.values.tolist()
        return float(np.clip(value, 0.0, 1.0)) if measured.noise is Noise.LAPLACE else float(value)

    return Runs(mechanism, conjunctive(FIRST_COLUMN), lone_row(claim), claim, statistic)


def basket_pair(mechanism: Mechanism, claim: Claim) -> Trial:
    """A lone basket with the one pair of items; nearly all of the budget buys the clipped count of this pair."""
    both = Conjunctions(TWO_ITEMS, np.array([[0, 1]]), np.array([[False, False]]))
    return Runs(mechanism, conjunctive(both), basket_of_two(claim), claim, _last_value)


def lone_itemset(mechanism: Mechanism, claim: Claim) -> Trial:
    """As ``clipped_answer``: a lone basket of all three items, whose triple has nearly all of the budget."""
    workload = frequent(Itemsets(BinaryView(3), 3, top=1))
    return Runs(mechanism, workload, lone_basket(claim), claim, _last_value)


def _last_value(release: Release) -> float:
    """The value of the last measurement, which has one; cut to 0 .. 1 under Laplace noise."""
    measured = release.measurements[-1]
    (value,) = measured.values.tolist()
    return float(np.clip(value, 0.0, 1.0)) if measured.noise is Noise.LAPLACE else float(value)


@dataclass(frozen=True)
class Copies:
    """One run over many copies of a query, with as many times the budget: each answer alone is one run of the audit.

    A unit moves every answer by ROWS; what one answer costs is the claim.
    """

    mechanism: Mechanism
    claim: Claim
    through: str = "mechanism.run over copies"

    def draw(self, neighbour: bool, runs: int) -> Sample:
        return np.concatenate([self._run(neighbour, copies) for copies in _parts(runs)])

    def _run(self, neighbour: bool, copies: int) -> Sample:
        columns = np.zeros((copies, 1), dtype=np.int32)
        queries = replace(FIRST_COLUMN, columns=columns, negated=columns.astype(bool))
        pair = one_cell(self.claim)
        private = pair.private(neighbour, self.claim.times(copies), self.claim.neighbours)
        return -self.mechanism.run(private, conjunctive(queries), generator=np.random.default_rng()).answers.values


@dataclass(frozen=True)
class Measuring:
    """Calls of ``measure`` of one marginal."""

    claim: Claim
    through: str = "measure"

    def draw(self, neighbour: bool, runs: int) -> Sample:
        private = one_cell(self.claim).private(neighbour, self.claim.times(runs), self.claim.neighbours)
        share = Fraction(1, runs)
        return np.array([-_shift(private.measure(X, share), self.claim, 0, ROWS) for _ in range(runs)])


@dataclass(frozen=True)
class MeasuringRows:
    """Calls of ``measure_rows`` for all rows of a lower triangular strategy."""

    claim: Claim
    through: str = "measure_rows"

    def draw(self, neighbour: bool, runs: int) -> Sample:
        private = one_cell(self.claim).private(neighbour, self.claim.times(runs), self.claim.neighbours)
        strategy = Products(ONE, (Product(("x",), (np.array([[4, 0], [3, 2]]),)),), 4)
        found = [private.measure_rows(strategy, "x", 1, range(2), Fraction(1, runs)) for _ in range(runs)]
        return np.array([_told_of_sums(measured, self.claim) for measured in found])


@dataclass(frozen=True)
class Clipping:
    """Calls of ``measure`` of clipped sums: four copies of a query that the unit satisfies, and four that it does not.

    Under pure DP one copy of each: noise of many answers hides the sum of their moves.
    """

    claim: Claim
    through: str = "measure, clipped"

    def draw(self, neighbour: bool, runs: int) -> Sample:
        copies = 1 if self.claim.budget.currency is Currency.PURE else 4
        columns = np.repeat([[0], [1]], copies, axis=0)
        queries = Conjunctions(BinaryView.one_hot(ONE), columns, np.zeros_like(columns, dtype=np.bool_))
        weights = np.zeros((1, 2 * copies + 1), dtype=np.int64)
        weights[0, copies] = CLIPPED_UNIT
        sums = ClippedSums(queries, weights)
        private = lone_row(self.claim).private(neighbour, self.claim.times(runs), self.claim.neighbours)
        return np.array([self._told(private.measure(sums, Fraction(1, runs)), copies) for _ in range(runs)])

    def _told(self, measured: Measurement, copies: int) -> float:
        """As ``_shift`` tells one row from none."""
        values = measured.values
        if measured.noise is Noise.LAPLACE:
            values = np.clip(values, 0.0, CLIPPED_UNIT / measured.denominator)
        first, second = values[:copies].sum(), values[copies:].sum()
        return float(first - second) if self.claim.replaced else float(first)


@dataclass(frozen=True)
class Selecting:
    """Calls of ``select`` between two marginals of which one gains what the other one loses.

    Permute-and-flip loses all it may where the gap opens from 0, the exponential mechanism where it changes sign.

    directly: Draws from ``noisy_argmax`` with the kernel's scores and scale, without the kernel's ledger and journal,
        which take most of the time of a call.
    """

    claim: Claim
    directly: bool = False

    @property
    def through(self) -> str:
        return "noisy_argmax" if self.directly else "select"

    def draw(self, neighbour: bool, runs: int) -> Sample:
        move = 2 if self.claim.replaced else 1
        rows = [(1, 1)] if self.claim.replaced else []
        pair = Pair(table(TWO, rows), table(TWO, [(0, 0)]), 1)
        estimate = np.array([0, len(rows), 1, 0], dtype=np.float64)
        opens_from_zero = self.claim.budget.currency is Currency.PURE
        score = L1Error(estimate, np.ones(2), np.array([move if opens_from_zero else 0, 0], dtype=np.float64))
        private = pair.private(neighbour, self.claim.times(runs), self.claim.neighbours)
        share = Fraction(1, runs)
        if not self.directly:
            return np.array([-private.select(X_AND_Y, score, share) for _ in range(runs)], dtype=np.float64)
        data = pair.neighbour if neighbour else pair.first
        scores = score.scores(X_AND_Y, private.terms.unit, tables_from(X_AND_Y, data))
        scale = private.terms.select_scale(X_AND_Y, score, share)
        currency = self.claim.budget.currency
        return -np.array([noisy_argmax(scores, currency, scale) for _ in range(runs)], dtype=np.float64)


@dataclass(frozen=True)
class Sampling:
    """Draws of one call of ``sample`` between a query and its complement.

    Under pure DP the loss is all it may be only where the query is rare: ``rare`` is its log-odds on the first dataset.
    """

    claim: Claim
    rare: float
    through: str = "sample"

    def draw(self, neighbour: bool, runs: int) -> Sample:
        return np.concatenate([self._call(neighbour, size) for size in _parts(runs)])

    def _call(self, neighbour: bool, runs: int) -> Sample:
        slope, replaced = Fraction(_slope(self.claim)), self.claim.replaced
        pure = self.claim.budget.currency is Currency.PURE
        logit = self.rare if pure else -self.claim.width / 2
        tilt = query_over_complement(logit + (float(slope) if replaced else 0.0))
        private = lone_row(self.claim).private(neighbour, self.claim.times(runs), self.claim.neighbours)
        return -private.sample(FIRST_COLUMN, slope, tilt, 1, runs).astype(np.float64)


@dataclass(frozen=True)
class Retaining:
    """Bits of one call of ``retain`` for a query whose largest chance is 1/2."""

    claim: Claim
    through: str = "retain"

    def draw(self, neighbour: bool, runs: int) -> Sample:
        return np.concatenate([self._call(neighbour, size) for size in _parts(runs)])

    def _call(self, neighbour: bool, runs: int) -> Sample:
        # Under pure DP a bit costs the move of its log-chance, else the range of both outcomes: twice that at 1/2.
        pure = self.claim.budget.currency is Currency.PURE
        slope = Fraction(self.claim.width * (1 - 1e-6) * (1.0 if pure else 0.5) - 8 * float(XI))
        tilt = flat(1, -math.log(2.0) - 1e-8 - float(slope))
        private = lone_row(self.claim).private(neighbour, self.claim.times(runs), self.claim.neighbours)
        return private.retain(FIRST_COLUMN, np.zeros(runs, dtype=np.int64), slope, tilt, 1).astype(np.float64)


def query_over_complement(logit: float) -> LogWeights:
    """One query whose log-weight passes that of its complement by ``logit``."""
    return LogWeights(abs(logit), np.array([0 if logit > 0 else 1]), 1)


def _parts(runs: int) -> list[int]:
    return [min(_MOST_AT_ONCE, runs - start) for start in range(0, runs, _MOST_AT_ONCE)]


def _slope(claim: Claim) -> float:
    """Slope of one draw that costs the budget, a little less for rounding; one unit, so that total is 1."""
    return (claim.width * (1 - 1e-8) - 4 * float(XI)) / (2 if claim.replaced else 1)


def _shift(measured: Measurement, claim: Claim, low: int, high: int) -> float:
    """Log-likelihood ratio, up to its scale, of ``high`` rows in the first cell against ``low``.

    Where a unit is replaced, the second cell moves the other way; else it tells nothing.
    """
    first, second = (_between(value, measured, low, high) for value in measured.values.tolist())
    return float(first - second) if claim.replaced else float(first)


def _told_of_sums(measured: Measurement, claim: Claim) -> float:
    """Log-likelihood ratio, up to its scale, of the neighbour of ``one_cell`` against it, from sums of rows."""
    queries = measured.queries
    if isinstance(queries, Products):
        scales = [(term, term.weight / queries.denominator) for term in queries.terms]
        matrices = [scale * (term.matrices[0] if term.clique else np.ones((1, 2))) for term, scale in scales]
    else:
        assert isinstance(queries, Marginals)
        matrices = [np.eye(2) if clique else np.ones((1, 2)) for clique in queries.cliques]
    columns = np.concatenate(matrices) * ROWS
    first, second = columns[:, 0], columns[:, 1] * float(claim.replaced)
    if measured.noise is Noise.LAPLACE:
        return float((np.abs(measured.values - first) - np.abs(measured.values - second)).sum())
    return float(((measured.values - first) ** 2 - (measured.values - second) ** 2).sum())


def _between(value: float, measured: Measurement, low: int, high: int) -> float:
    """A value that tells two exact ones apart: beyond them a Laplace tells nothing more."""
    return min(max(value, float(low)), float(high)) if measured.noise is Noise.LAPLACE else value


def _telling(measured: Measurement) -> float:
    """The scale of ``_shift``."""
    return 1 / measured.stddev if measured.noise is Noise.LAPLACE else measured.stddev**-2
