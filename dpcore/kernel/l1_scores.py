"""Scores of candidates that are far from a public estimate in L1, as integers of proved sensitivity. TRUSTED."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.frozen import frozen
from dpcore.kernel.integers import exact_sum, saturated
from dpcore.kernel.product_sensitivity import largest_l1_of
from dpcore.kernel.sensitivity import PrivacyUnit, marginal_l1_sensitivity
from dpcore.measurement import ERROR_STEPS
from dpcore.queries import Marginals, Products

Candidates = Marginals | Products
# Exact tables, each with the place of its candidate. SENSITIVE.
Tables = Iterable[tuple[int, NDArray[np.int64]]]

GRID = ERROR_STEPS  # Steps a count, and steps of the largest weight of an L1Error.
# Rows (``exact_answers`` checks them), expected rows or penalty of a clique: scores are then below 3 * 2^44 * GRID^2.
_LARGEST = float(2**44)
_LARGEST_ANSWER: Final = float(1 << 52)  # An expected integer answer; GRID times it stays within 64 bits.
_LINEAR_WEIGHTS: Final = 1 << 40  # Steps of the largest weight of a LinearL1Error.
_LINEAR_STEPS: Final = 1 << 16  # At least so many steps of a LinearL1Error does one row move it.
_PIECE: Final = 1 << 16  # Numbers that are put on the grid at once.


@final
@dataclass(frozen=True, eq=False)
class L1Error:
    """Score of a marginal: weight * (L1 distance of its exact table to an estimate - penalty).

    estimate: float64 [queries.size], the model's tables in counts; public.
    weights: float64 [cliques], positive; only their ratios matter.
    penalties: float64 [cliques], in counts; public.

    All three are rounded to a public grid, so that scores are integers.
    """

    estimate: NDArray[np.float64]
    weights: NDArray[np.float64]
    penalties: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("estimate", "weights", "penalties"):
            values = frozen(getattr(self, name), np.float64)
            object.__setattr__(self, name, values)
            # A NaN among them is the smallest and the largest.
            if values.size and not (values.min() >= -_LARGEST and values.max() <= _LARGEST):
                raise ValueError(f"{name} of a score holds a number that is not finite or above 2^44 in size")
        if (self.weights <= 0).any():
            raise ValueError("a score weight is not positive; want > 0")

    def check(self, candidates: Candidates, unit: PrivacyUnit) -> None:
        """Refuses parts that do not fit the candidates or could overflow a score; looks at public values only."""
        if not isinstance(candidates, Marginals):
            raise TypeError("an L1Error of products; want marginals, or a LinearL1Error")
        _check_shapes(self, candidates.size, len(candidates.cliques))
        marginal_l1_sensitivity(unit)  # Refuses baskets.
        if not (np.add.reduceat(np.abs(self.estimate), _starts(candidates.sizes)[:-1]) <= _LARGEST).all():
            raise ValueError("the estimate of a score sums to more than 2^44 for one clique; want at most 2^44")

    def public_parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Estimate, weights (1 .. GRID) and penalties on the grid."""
        weights = np.maximum(1, np.rint(self.weights / self.weights.max() * GRID)).astype(np.int64)
        return _on_grid(self.estimate), weights, _on_grid(self.penalties)

    def digest(self) -> str:
        """What the journal knows the score by."""
        return digest_of(*self.public_parts())

    def distances(self, candidates: Marginals, tables: Tables) -> NDArray[np.int64]:
        """L1 distance of each exact table to its estimate, in steps of 1 / GRID counts. SENSITIVE."""
        starts = _starts(candidates.sizes)
        distances = np.zeros(len(candidates.cliques), dtype=np.int64)
        for index, table in tables:
            estimate = _on_grid(self.estimate[starts[index] : starts[index + 1]])
            distances[index] = np.abs(GRID * table - estimate).sum()
        return distances

    def exact_scores(self, candidates: Candidates, tables: Tables) -> list[int]:
        """One integer score a clique, none above 2^63 in size. SENSITIVE: a function of the exact tables."""
        assert isinstance(candidates, Marginals)
        _, weights, penalties = self.public_parts()
        return [int(score) for score in weights * (self.distances(candidates, tables) - penalties)]

    def scores(self, candidates: Candidates, unit: PrivacyUnit, tables: Tables) -> NDArray[np.int64]:
        """What the noisy maximum is taken of, int64 [cliques]. SENSITIVE."""
        return np.array(self.exact_scores(candidates, tables), dtype=np.int64)

    def sensitivities(self, candidates: Candidates, unit: PrivacyUnit) -> list[int]:
        """How far one unit moves each score.

        A distance to a fixed estimate moves by at most what the table moves in L1, GRID steps a count; a score by its
        integer weight times that.
        """
        _, weights, _ = self.public_parts()
        return [GRID * int(weight) * marginal_l1_sensitivity(unit) for weight in weights]

    def sensitivity(self, candidates: Candidates, unit: PrivacyUnit) -> int:
        """How far one unit moves any score: GRID steps a count of L1 distance, times the largest weight."""
        return GRID * GRID * marginal_l1_sensitivity(unit)

    def step(self, candidates: Candidates) -> float:
        """One step of the integer scores, in counts times weight."""
        return float(self.weights.max()) / GRID**2


@final
@dataclass(frozen=True, eq=False)
class LinearL1Error:
    """Score of the linear queries W of one term of products: weight * (|W M - estimate|_1 - penalty), M a marginal.

    estimate: float64 [queries.size], the model's answers in units of answers (integer answer / denominator); public.
    weights: float64 [terms], positive; only their ratios matter.
    penalties: float64 [terms], in units of answers; public.

    Formal guarantee: one row in cell x moves W M by column x of the integer matrix W, term weight and all, so that no
    estimate lets |W M - estimate|_1 move by more than the largest L1 norm of a column, C. A unit moves M by at most
    D = b rows, 2 b where it is replaced; with the weight w, an integer, the score moves by at most GRID w C D steps.

    Integers: estimate and penalty are rounded to steps of 1 / GRID integer answers, weights to 2^-40 of the largest.
    Sums are of Python's integers. The score is the quotient q // K by one public K, rounded down: from q to q + m it
    rises by at most m / K rounded up. Exact answers are cut off at 2^62 and scores at 2^62, which moves no two of them
    apart.
    """

    estimate: NDArray[np.float64]
    weights: NDArray[np.float64]
    penalties: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("estimate", "weights", "penalties"):
            values = frozen(getattr(self, name), np.float64)
            object.__setattr__(self, name, values)
            if not np.isfinite(values).all():
                raise ValueError(f"{name} of a score holds a number that is not finite")
        if (self.weights <= 0).any():
            raise ValueError("a score weight is not positive; want > 0")

    def check(self, candidates: Candidates, unit: PrivacyUnit) -> None:
        """Refuses parts that do not fit the candidates or their integers; looks at public values only."""
        if not isinstance(candidates, Products):
            raise TypeError("a LinearL1Error of marginals; want products of one term a candidate, or an L1Error")
        _check_shapes(self, candidates.size, len(candidates.terms))
        marginal_l1_sensitivity(unit)  # Refuses baskets.
        with np.errstate(over="ignore"):
            largest = np.abs(self.estimate) * float(candidates.denominator)
        if not (largest <= _LARGEST_ANSWER).all():
            raise ValueError("an estimate of a score times the denominator is above 2^52 in size; want at most 2^52")

    def digest(self) -> str:
        """What the journal knows the score by, beside its candidates."""
        return f"linear {digest_of(self.estimate, self.weights, self.penalties)}"

    def exact_scores(self, candidates: Candidates, tables: Tables) -> list[int]:
        """One integer score a term, before the division. SENSITIVE: a function of the exact tables."""
        assert isinstance(candidates, Products)
        estimate = _on_grid(self.estimate * float(candidates.denominator))
        in_a_unit = GRID * candidates.denominator
        penalties = [round(Fraction(penalty) * in_a_unit) for penalty in self.penalties.tolist()]
        weights, starts = self._weights(), _starts(term.size for term in candidates.terms)
        scores = [0] * len(candidates.terms)
        for index, table in tables:
            single_term = Products(candidates.domain, (candidates.terms[index],))
            answers = single_term.of_tables([table], int(table.sum()))
            distance = _distance(answers, estimate[starts[index] : starts[index + 1]])
            scores[index] = weights[index] * (distance - penalties[index])
        return scores

    def scores(self, candidates: Candidates, unit: PrivacyUnit, tables: Tables) -> NDArray[np.int64]:
        """What the noisy maximum is taken of, int64 [terms]. SENSITIVE."""
        divisor = self._divisor(candidates)
        return saturated([score // divisor for score in self.exact_scores(candidates, tables)])

    def sensitivities(self, candidates: Candidates, unit: PrivacyUnit) -> list[int]:
        """How far one unit moves each of ``exact_scores``."""
        return [single_term * marginal_l1_sensitivity(unit) for single_term in self._of_one_row(candidates)]

    def sensitivity(self, candidates: Candidates, unit: PrivacyUnit) -> int:
        """How far one unit moves any score, the division included."""
        return -(-max(self.sensitivities(candidates, unit)) // self._divisor(candidates))

    def step(self, candidates: Candidates) -> float:
        """One step of the integer scores, in units of answers times weight."""
        assert isinstance(candidates, Products)
        heaviest = float(self.weights.max()) / _LINEAR_WEIGHTS
        return self._divisor(candidates) * heaviest / (GRID * candidates.denominator)

    def _weights(self) -> list[int]:
        """1 .. 2^40."""
        return [max(1, round(weight)) for weight in (self.weights / self.weights.max() * _LINEAR_WEIGHTS).tolist()]

    def _of_one_row(self, candidates: Candidates) -> list[int]:
        assert isinstance(candidates, Products)
        pairs = zip(self._weights(), candidates.terms, strict=True)
        return [GRID * weight * largest_l1_of(term) for weight, term in pairs]

    def _divisor(self, candidates: Candidates) -> int:
        """K, public: a row then moves the score that moves furthest by 2^16 steps or a little more."""
        return max(1, max(self._of_one_row(candidates)) // _LINEAR_STEPS)


def digest_of(*arrays: NDArray[np.generic]) -> str:
    content = hashlib.sha256()
    for array in arrays:
        content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()


def _distance(answers: NDArray[np.int64], estimate: NDArray[np.int64]) -> int:
    """Sum of |GRID answers - estimate|, exactly; the estimate is at most 2^60 in size."""
    if answers.min() >= -_LARGEST_ANSWER and answers.max() <= _LARGEST_ANSWER:
        return exact_sum(np.abs(GRID * answers - estimate))
    exact: Any = answers.astype(object)
    return int(np.abs(GRID * exact - estimate).sum())


def _check_shapes(score: L1Error | LinearL1Error, size: int, candidates: int) -> None:
    for name, shape in {"estimate": (size,), "weights": (candidates,), "penalties": (candidates,)}.items():
        found = getattr(score, name).shape
        if found != shape:
            # Another shape would be broadcast, and a unit would move a score more often than once.
            raise ValueError(f"{name} of a score have shape {found}; want {shape}")


def _starts(sizes: Iterable[int]) -> NDArray[np.int64]:
    """Where the part of each candidate begins in the answer vector, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(list(sizes))]).astype(np.int64)


def _on_grid(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """GRID times the values of a vector, rounded: piece by piece, because vectors may be as long as memory allows."""
    steps = np.empty(values.size, dtype=np.int64)
    for begin in range(0, values.size, _PIECE):
        steps[begin : begin + _PIECE] = np.rint(values[begin : begin + _PIECE] * GRID)
    return steps
