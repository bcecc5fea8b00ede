"""The closed set of selection scores, as integers of proved sensitivity. TRUSTED."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.frozen import frozen
from dpcore.kernel.sensitivity import PrivacyUnit, marginal_l1_sensitivity
from dpcore.queries import Marginals

GRID = 256  # Steps a count, and steps of the largest weight.
# Rows (``exact_answers`` checks them), expected rows or penalty of a clique: scores are then below 3 * 2^44 * GRID^2.
_LARGEST = float(2**44)


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
            if not np.isfinite(values).all() or (np.abs(values) > _LARGEST).any():
                raise ValueError(f"{name} of a score holds a number that is not finite or above 2^44 in size")
        if (self.weights <= 0).any():
            raise ValueError("a score weight is not positive; want > 0")

    def check(self, queries: Marginals) -> None:
        """Refuses parts that do not fit the candidates or could overflow a score; looks at public values only."""
        cliques = len(queries.cliques)
        wanted = {"estimate": (queries.size,), "weights": (cliques,), "penalties": (cliques,)}
        found = {"estimate": self.estimate, "weights": self.weights, "penalties": self.penalties}
        for name, shape in wanted.items():
            if found[name].shape != shape:
                # Another shape would be broadcast, and a unit would move a score more often than once.
                raise ValueError(f"{name} of a score have shape {found[name].shape}; want {shape}")
        if not (np.add.reduceat(np.abs(self.estimate), _starts(queries)) <= _LARGEST).all():
            raise ValueError("the estimate of a score sums to more than 2^44 for one clique; want at most 2^44")

    def public_parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Estimate, weights (1 .. GRID) and penalties on the grid."""
        weights = np.maximum(1, np.rint(self.weights / self.weights.max() * GRID)).astype(np.int64)
        return _on_grid(self.estimate), weights, _on_grid(self.penalties)

    def scores(self, queries: Marginals, exact: NDArray[np.int64]) -> NDArray[np.int64]:
        """One integer score a clique. SENSITIVE: a function of the exact tables."""
        estimate, weights, penalties = self.public_parts()
        distance = np.abs(GRID * exact - estimate)
        return np.asarray(weights * (np.add.reduceat(distance, _starts(queries)) - penalties), dtype=np.int64)

    def sensitivity(self, unit: PrivacyUnit) -> int:
        """How far one unit moves any score: GRID steps a count of L1 distance, times the largest weight."""
        return GRID * GRID * marginal_l1_sensitivity(unit)


def _starts(queries: Marginals) -> NDArray[np.int64]:
    """Where each clique's table begins in the answer vector."""
    return np.concatenate([[0], np.cumsum(queries.sizes)[:-1]]).astype(np.int64)


def _on_grid(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(values * GRID).astype(np.int64)
