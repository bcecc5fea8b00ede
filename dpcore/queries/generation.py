"""Random conjunctions, chosen from public facts only: never from exact counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.queries.conjunctions import Conjunctions

_ROUNDS = 200


def random_conjunctions(
    view: BinaryView,
    count: int,
    order: int,
    generator: np.random.Generator,
    *,
    weights: NDArray[np.float64] | None = None,
    negate: bool = False,
) -> Conjunctions:
    """Distinct conjunctions of ``order`` literals, no two of them in one one-hot group.

    weights: float64 [view.columns], how often a column is proposed; None for uniform. Public or already noisy.
    negate: Negates each literal with probability 1/2.

    Raises ValueError when the view has fewer than ``count`` different conjunctions that such draws reach.
    """
    groups = view.group_of_column()
    chance = None if weights is None else _chances(weights, view)
    usable = groups.size if chance is None else int(np.count_nonzero(chance))
    if order < 1 or order > len(np.unique(groups if chance is None else groups[chance > 0])):
        raise ValueError(f"order {order} over {usable} usable columns; want 1 .. the number of usable groups")
    found = np.empty((0, order), dtype=np.int64)
    for _ in range(_ROUNDS):
        wanted = count - len(found)
        if wanted <= 0:
            break
        drawn = generator.choice(view.columns, size=(wanted + wanted // 8 + 16, order), p=chance)
        drawn.sort(axis=1)
        in_groups = np.sort(groups[drawn], axis=1)
        drawn = drawn[(in_groups[:, 1:] != in_groups[:, :-1]).all(axis=1)]
        signs = generator.integers(0, 2, size=drawn.shape) if negate else np.zeros_like(drawn)
        # A literal is 2 * column + sign, so that one row of integers names a conjunction.
        found = _first_distinct(np.concatenate([found, 2 * drawn + signs]))
    if len(found) < count:
        raise ValueError(f"only {len(found)} distinct conjunctions of order {order} were found; want count <= that")
    chosen = found[:count]
    return Conjunctions(view, (chosen >> 1).astype(np.int32), (chosen & 1).astype(np.bool_))


def _chances(weights: NDArray[np.float64], view: BinaryView) -> NDArray[np.float64]:
    if weights.shape != (view.columns,) or not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() <= 0:
        raise ValueError(f"weights of shape {weights.shape}; want {view.columns} finite numbers >= 0, not all 0")
    return np.asarray(weights / weights.sum())


def _first_distinct(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Distinct rows in the order in which they first came."""
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)]
