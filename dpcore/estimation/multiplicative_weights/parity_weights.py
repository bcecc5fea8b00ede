"""A dense distribution over binary attributes that follows measured parities by multiplicative weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain

_LONGER, _SHORTER = 1.5, 0.5  # Changes of the step after one that helped, and one that did not.
_SHORTEST: Final = 1e-12  # Steps below it change nothing.
_LEAST: Final = 1e-100  # Of a chance: a cell that rounds to 0 could never rise again.


def walsh_hadamard(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Entry k is the sum over x of (-1)^(bits that x and k share) table[x]; float64 [2^d]. Its own inverse times 2^d.

    Raises ValueError for a length that is no power of two.
    """
    size = table.size
    if table.ndim != 1 or size & (size - 1) or not size:
        raise ValueError(f"a table of shape {table.shape}; want a vector of 2^d cells")
    sums = np.array(table, dtype=np.float64)
    width = 1
    while width < size:
        halves = sums.reshape(-1, 2, width)
        sums = np.stack([halves[:, 0] + halves[:, 1], halves[:, 0] - halves[:, 1]], axis=1).ravel()
        width *= 2
    return sums


def places_of(domain: Domain, cliques: Sequence[Clique]) -> NDArray[np.int64]:
    """Where ``walsh_hadamard`` of a table in C order has the parity of each clique; int64 [cliques]."""
    last = len(domain.names) - 1
    return np.array([sum(1 << (last - axis) for axis in domain.axes(clique)) for clique in cliques], dtype=np.int64)


def follow_parities(
    start: NDArray[np.float64],
    places: NDArray[np.int64],
    values: NDArray[np.float64],
    *,
    within: float,
    iterations: int,
) -> NDArray[np.float64]:
    """The distribution p moved by p(x) <- p(x) exp(step sum over T of chi_T(x) (values_T - chi_T(p))), scaled to sum 1.

    start: float64 [2^d], positive.
    places: int64 [m], distinct; as of ``places_of``.
    values: float64 [m], measured parities as parts of the rows; they need not be those of any distribution.
    within: The root mean square of values_T - chi_T(p) at which p has followed far enough.
    iterations: Most steps.

    Each step goes as far as lowers the sum of squares: it is a mirror descent of that sum, whose least value is 0 where
    some distribution has these parities. From a uniform start the parities that are not measured stay near those of the
    distribution of largest entropy.

    Source: Hardt, Ligett and McSherry (2012), Fig. 1, step 3, for all measured parities at once.
    """
    chances: NDArray[np.float64] = start / start.sum()
    missing = values - walsh_hadamard(chances)[places]
    loss, step = float(missing @ missing), 1.0 / max(1, values.size)
    enough = values.size * within**2
    for _ in range(iterations):
        if loss <= enough or step < _SHORTEST:
            break
        spread = np.zeros_like(chances)
        spread[places] = missing
        direction = walsh_hadamard(spread)
        moved = _moved(chances, step * direction)
        after = values - walsh_hadamard(moved)[places]
        if float(after @ after) < loss:
            chances, missing, loss, step = moved, after, float(after @ after), step * _LONGER
        else:
            step *= _SHORTER
    return chances


def _moved(chances: NDArray[np.float64], exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    moved: NDArray[np.float64] = chances * np.exp(exponents - exponents.max())
    moved /= moved.sum()
    return np.maximum(moved, _LEAST, out=moved)
