"""Scores that measure the L1 distance between exact answers and a public estimate. TRUSTED.

All scores are integers, and their sensitivities are proved.
"""

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
# Pairs of the index of a candidate and its exact table. SENSITIVE.
Tables = Iterable[tuple[int, NDArray[np.int64]]]

GRID = ERROR_STEPS  # Number of steps per count; also the integer value of the largest weight of an L1Error.
# Maximum estimated rows and maximum penalty of a clique. ``exact_answers`` checks the same limit for exact rows, so
# that scores of an L1Error are below 3 * 2^44 * GRID^2.
_LARGEST = float(2**44)
_LARGEST_ANSWER: Final = float(1 << 52)  # Maximum estimated integer answer; GRID times this fits 64 bits.
_LINEAR_WEIGHTS: Final = 1 << 40  # The integer value of the largest weight of a LinearL1Error.
_LINEAR_STEPS: Final = 1 << 16  # One row can move the scores of a LinearL1Error by about this number of steps.
_PIECE: Final = 1 << 16  # Numbers that are rounded to the grid at once.


@final
@dataclass(frozen=True, eq=False)
class L1Error:
    """Score of a marginal: weight * (L1 distance between its exact table and an estimate - penalty).

    All three arrays are public, and are rounded to a grid so that the scores are integers.

    estimate: The estimated tables in counts, float64 [candidates.size], one after another.
    weights: float64 [cliques], positive. Only the ratios of the weights matter.
    penalties: What to subtract from each distance, in counts, float64 [cliques].

    Formal guarantee: by the triangle inequality, one unit moves the distance between a table and a fixed estimate by at
    most the L1 sensitivity d of the table, which is b rows, or 2 b when a unit is replaced. The score moves by at most
    its integer weight, in 1 .. GRID, times GRID d steps.

    Raises ValueError for a number that is not finite or above 2^44 in size, and for a weight that is not positive.

    Source: Hardt, Ligett and McSherry (2012), section 3.3, for marginals; thesis of McKenna (2022), Algorithm 6, line
    13, with weights and penalties.
    """

    estimate: NDArray[np.float64]
    weights: NDArray[np.float64]
    penalties: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("estimate", "weights", "penalties"):
            values = frozen(getattr(self, name), np.float64)
            object.__setattr__(self, name, values)
            # If a number is NaN, then so are the minimum and the maximum, and the comparison fails.
            if values.size and not (values.min() >= -_LARGEST and values.max() <= _LARGEST):
                raise ValueError(f"{name} of a score holds a number that is not finite or above 2^44 in size")
        if (self.weights <= 0).any():
            raise ValueError("a score weight is not positive; want > 0")

    def check(self, candidates: Candidates, unit: PrivacyUnit) -> None:
        """Raises an error for arrays that do not fit the candidates or could overflow a score. It reads no data.

        TypeError: the candidates are products. ValueError: a shape or an estimate does not fit. ConfigError: baskets.
        """
        if not isinstance(candidates, Marginals):
            raise TypeError("an L1Error of products; want marginals, or a LinearL1Error")
        _check_shapes(self, candidates.size, len(candidates.cliques))
        marginal_l1_sensitivity(unit)  # Refuses baskets.
        if not (np.add.reduceat(np.abs(self.estimate), _starts(candidates.sizes)[:-1]) <= _LARGEST).all():
            raise ValueError("the estimate of a score sums to more than 2^44 for one clique; want at most 2^44")

    def public_parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Estimate and penalties in steps of 1 / GRID counts, and integer weights in 1 .. GRID."""
        weights = np.maximum(1, np.rint(self.weights / self.weights.max() * GRID)).astype(np.int64)
        return _on_grid(self.estimate), weights, _on_grid(self.penalties)

    def digest(self) -> str:
        """Identifies the score in the journal, together with its candidates."""
        return digest_of(*self.public_parts())

    def distances(self, candidates: Marginals, tables: Tables) -> NDArray[np.int64]:
        """L1 distance between each exact table and its estimate, in steps of 1 / GRID counts. SENSITIVE."""
        starts = _starts(candidates.sizes)
        distances = np.zeros(len(candidates.cliques), dtype=np.int64)
        for index, table in tables:
            estimate = _on_grid(self.estimate[starts[index] : starts[index + 1]])
            distances[index] = np.abs(GRID * table - estimate).sum()
        return distances

    def exact_scores(self, candidates: Candidates, tables: Tables) -> list[int]:
        """The integer score of each clique, below 2^63 in size. SENSITIVE."""
        assert isinstance(candidates, Marginals)
        _, weights, penalties = self.public_parts()
        return [int(score) for score in weights * (self.distances(candidates, tables) - penalties)]

    def scores(self, candidates: Candidates, unit: PrivacyUnit, tables: Tables) -> NDArray[np.int64]:
        """The scores whose noisy maximum is selected, int64 [cliques]. SENSITIVE."""
        return np.array(self.exact_scores(candidates, tables), dtype=np.int64)

    def sensitivities(self, candidates: Candidates, unit: PrivacyUnit) -> list[int]:
        """Upper bound on how far one unit moves each score, in steps (proof in the class docstring)."""
        _, weights, _ = self.public_parts()
        return [GRID * int(weight) * marginal_l1_sensitivity(unit) for weight in weights]

    def sensitivity(self, candidates: Candidates, unit: PrivacyUnit) -> int:
        """Upper bound on how far one unit moves any score, in steps: GRID per count, times the largest weight GRID."""
        return GRID * GRID * marginal_l1_sensitivity(unit)

    def step(self, candidates: Candidates) -> float:
        """Size of one step of the integer scores, in counts times weight."""
        return float(self.weights.max()) / GRID**2


@final
@dataclass(frozen=True, eq=False)
class LinearL1Error:
    """Score of one term of products: weight * (|W M - estimate|_1 - penalty).

    M is the exact marginal of the term and W its integer matrix, which includes the weight of the term. All three
    arrays are public.

    estimate: Estimated answers, float64 [candidates.size], in units of answers: an integer answer over the denominator.
    weights: float64 [terms], positive. Only the ratios of the weights matter.
    penalties: What to subtract from each distance, in units of answers, float64 [terms].

    Formal guarantee: one row in cell x moves W M by column x of W. Let C be the largest L1 norm of a column. By the
    triangle inequality, one row moves the distance to any fixed estimate by at most C. A unit moves M by at most D
    rows, where D = b, or 2 b when a unit is replaced. With the integer weight w the score moves by at most GRID w C D
    steps.

    Integers: the estimate and the penalties are rounded to steps of 1 / GRID integer answers, and the weights to 2^-40
    of the largest. Sums are computed in Python integers. The score is floor(q / K) for one public integer K. When q
    grows by m, floor(q / K) grows by at most m / K rounded up. Exact answers and scores are clipped at 2^62, which
    never increases the distance between two of them.

    Raises ValueError for a number that is not finite, and for a weight that is not positive.
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
        """Raises an error for arrays that do not fit the candidates or could overflow a score. It reads no data.

        TypeError: the candidates are marginals. ValueError: a shape or an estimate does not fit. ConfigError: baskets.
        """
        if not isinstance(candidates, Products):
            raise TypeError("a LinearL1Error of marginals; want products, each term a candidate, or an L1Error")
        _check_shapes(self, candidates.size, len(candidates.terms))
        marginal_l1_sensitivity(unit)  # Refuses baskets.
        with np.errstate(over="ignore"):
            largest = np.abs(self.estimate) * float(candidates.denominator)
        if not (largest <= _LARGEST_ANSWER).all():
            raise ValueError("an estimate of a score times the denominator is above 2^52 in size; want at most 2^52")

    def digest(self) -> str:
        """Identifies the score in the journal, together with its candidates."""
        return f"linear {digest_of(self.estimate, self.weights, self.penalties)}"

    def exact_scores(self, candidates: Candidates, tables: Tables) -> list[int]:
        """The integer score q of each term, before the division by K. SENSITIVE."""
        assert isinstance(candidates, Products)
        estimate = _on_grid(self.estimate * float(candidates.denominator))
        steps_per_answer = GRID * candidates.denominator
        penalties = [round(Fraction(penalty) * steps_per_answer) for penalty in self.penalties.tolist()]
        weights, starts = self._weights(), _starts(term.size for term in candidates.terms)
        scores = [0] * len(candidates.terms)
        for index, table in tables:
            single_term = Products(candidates.domain, (candidates.terms[index],))
            answers = single_term.of_tables([table], int(table.sum()))
            distance = _distance(answers, estimate[starts[index] : starts[index + 1]])
            scores[index] = weights[index] * (distance - penalties[index])
        return scores

    def scores(self, candidates: Candidates, unit: PrivacyUnit, tables: Tables) -> NDArray[np.int64]:
        """The scores whose noisy maximum is selected, int64 [terms]. SENSITIVE."""
        divisor = self._divisor(candidates)
        return saturated([score // divisor for score in self.exact_scores(candidates, tables)])

    def sensitivities(self, candidates: Candidates, unit: PrivacyUnit) -> list[int]:
        """Upper bound on how far one unit moves each of ``exact_scores``, in steps."""
        return [row_steps * marginal_l1_sensitivity(unit) for row_steps in self._row_sensitivities(candidates)]

    def sensitivity(self, candidates: Candidates, unit: PrivacyUnit) -> int:
        """Upper bound on how far one unit moves any of ``scores``, in steps after the division by K."""
        return -(-max(self.sensitivities(candidates, unit)) // self._divisor(candidates))

    def step(self, candidates: Candidates) -> float:
        """Size of one step of the integer scores, in units of answers times weight."""
        assert isinstance(candidates, Products)
        weight_step = float(self.weights.max()) / _LINEAR_WEIGHTS
        return self._divisor(candidates) * weight_step / (GRID * candidates.denominator)

    def _weights(self) -> list[int]:
        """The weights as integers in 1 .. 2^40."""
        return [max(1, round(weight)) for weight in (self.weights / self.weights.max() * _LINEAR_WEIGHTS).tolist()]

    def _row_sensitivities(self, candidates: Candidates) -> list[int]:
        """Upper bound on how far one row moves each of ``exact_scores``, in steps."""
        assert isinstance(candidates, Products)
        pairs = zip(self._weights(), candidates.terms, strict=True)
        return [GRID * weight * largest_l1_of(term) for weight, term in pairs]

    def _divisor(self, candidates: Candidates) -> int:
        """K, chosen so that the largest move of a score by one row is 2^16 steps or slightly more."""
        return max(1, max(self._row_sensitivities(candidates)) // _LINEAR_STEPS)


def digest_of(*arrays: NDArray[np.generic]) -> str:
    """SHA-256 of the bytes of the arrays, one after another."""
    content = hashlib.sha256()
    for array in arrays:
        content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()


def _distance(answers: NDArray[np.int64], estimate: NDArray[np.int64]) -> int:
    """The exact sum of |GRID answers - estimate|; the estimate is at most 2^60 in size. SENSITIVE."""
    if answers.min() >= -_LARGEST_ANSWER and answers.max() <= _LARGEST_ANSWER:
        return exact_sum(np.abs(GRID * answers - estimate))
    exact: Any = answers.astype(object)
    return int(np.abs(GRID * exact - estimate).sum())


def _check_shapes(score: L1Error | LinearL1Error, size: int, candidates: int) -> None:
    """Raises ValueError unless every array has exactly the shape that the sensitivity proof assumes."""
    for name, shape in {"estimate": (size,), "weights": (candidates,), "penalties": (candidates,)}.items():
        actual = getattr(score, name).shape
        if actual != shape:
            # NumPy would broadcast another shape, and a unit could move a score more than once.
            raise ValueError(f"{name} of a score have shape {actual}; want {shape}")


def _starts(sizes: Iterable[int]) -> NDArray[np.int64]:
    """Start of each candidate's part of the answer vector, followed by the end of the last part."""
    return np.concatenate([[0], np.cumsum(list(sizes))]).astype(np.int64)


def _on_grid(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """GRID times the values, rounded to integers; computed in pieces to bound the temporary memory."""
    steps = np.empty(values.size, dtype=np.int64)
    for start in range(0, values.size, _PIECE):
        steps[start : start + _PIECE] = np.rint(values[start : start + _PIECE] * GRID)
    return steps
