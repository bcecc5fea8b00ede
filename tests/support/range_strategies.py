"""Known strategies for range queries about one attribute, and the error of any strategy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dpcore.measurement import Noise
from tests.support.implicit_ranges import Ranges
from tests.support.linear_operators import ImplicitMatrix, Real

_STEPS_PER_SHARE: Final = 100  # GreedyH tries every hundredth of a node's budget for its own sum.
_MIN_RELATIVE_EIGENVALUE: Final = 1e-11  # Eigenvalues of a Gram matrix below this part of the largest count as 0.
_MAX_UNSPANNED: Final = 1e-6  # Part of the squared queries outside the range that counts as rounding.


def squared_error(workload: Real, strategy: ImplicitMatrix, noise: Noise) -> float:
    """|A|^2 tr(V (A'A)^+): the squared error of all answers W A^+ y together, at unit noise.

    workload: V = W'W, float64 [n, n].
    strategy: A, with rows that span those of W.
    noise: |A| is the largest L1 norm of a column under Laplace noise, the largest L2 norm under the Gaussians.

    Source: McKenna (2022), Proposition 9.

    Raises ValueError for queries that the strategy's answers do not determine.
    """
    norm = strategy.sensitivity(1 if noise is Noise.LAPLACE else 2)
    (trace,) = inverse_traces([workload], strategy.gram())
    return norm**2 * trace


def inverse_traces(workloads: Sequence[Real], gram: Real) -> list[float]:
    """tr(V X^+) for each V: squared errors at unit noise and sensitivity of a strategy with A'A = X.

    workloads, gram: float64 [n, n], symmetric and positive semidefinite.

    Raises ValueError for a V outside the range of X.
    """
    try:
        factor = cho_factor(gram, lower=True)
    except LinAlgError:
        return [_pseudo_inverse_trace(workload, gram) for workload in workloads]
    if factor[0].diagonal().min() ** 2 <= _MIN_RELATIVE_EIGENVALUE * gram.diagonal().max():
        return [_pseudo_inverse_trace(workload, gram) for workload in workloads]
    inverse = cho_solve(factor, np.eye(len(gram)), overwrite_b=True)
    return [float(np.einsum("ij,ij->", workload, inverse)) for workload in workloads]


def _pseudo_inverse_trace(workload: Real, gram: Real) -> float:
    values, vectors = np.linalg.eigh(gram)
    along = np.einsum("ij,ij->j", vectors, workload @ vectors)
    kept = values > _MIN_RELATIVE_EIGENVALUE * values[-1]
    if along[~kept].sum() > _MAX_UNSPANNED * along.sum():
        raise ValueError("the strategy does not determine the workload; want rows that span those of its queries")
    return float((along[kept] / values[kept]).sum())


def svd_bound(workload: Real) -> float:
    """(sum of the singular values of W)^2 / n: no strategy has a smaller squared error, at unit noise of either kind.

    workload: V = W'W, float64 [n, n].

    Source: McKenna (2022), Definition 12.
    """
    values = np.linalg.eigvalsh(workload)
    values[values < values[-1] * len(values) * np.finfo(np.float64).eps] = 0.0  # Rounding makes zeros of either sign.
    return float(np.sqrt(values).sum() ** 2 / len(values))


def hierarchy(size: int, branches: int = 2, root: bool = True) -> Ranges:
    """The sums of all nodes of a tree that cuts 0 .. size - 1 into as many equal parts, level by level.

    root: Whether the total is one of them. H2 is the tree of two branches with its root.

    Parts that are not equal differ by one value, the larger first; a node of fewer values than branches has one child a
    value.

    Source: Hay, Rastogi, Miklau and Suciu (2010), section 4.1.

    Raises ValueError for fewer than one value or two branches.
    """
    nodes = _nodes(size, branches)[0 if root or size == 1 else 1 :]
    return Ranges(size, nodes[:, 0], nodes[:, 1])


def best_branches(size: int) -> int:
    """Branches b of least (b - 1) h^3 - 2 (b + 1) h^2 / 3, with h = ceil(log_b size), the smallest of equals.

    Source: Qardaji, Yang and Li (2013), equation (3).
    """
    if size < 3:
        return 2
    branches = np.arange(2, size + 1)
    heights = np.array([_height(size, int(b)) for b in branches], dtype=np.float64)
    return int(branches[np.argmin((branches - 1) * heights**3 - 2 * (branches + 1) * heights**2 / 3)])


def hb(size: int) -> Ranges:
    """HB: the hierarchy without its root of the best number of branches, which for few values is their number.

    Source: Qardaji, Yang and Li (2013), section 3.
    """
    return hierarchy(size, best_branches(size), root=False)


@dataclass(frozen=True, eq=False)
class Privelet(ImplicitMatrix):
    """The total, and for each node of a binary tree its left half less its right half: Haar wavelets.

    size: Values. A number that is no power of two counts as the first of the next power of two.

    Source: Xiao, Wang and Gehrke (2010), section 4, with noise of one scale, as McKenna (2022), Table 3.2, has it.

    Raises ValueError for fewer than one value.
    """

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"wavelets of {self.size} values; want one or more")

    @property
    def shape(self) -> tuple[int, int]:
        return self._width, self.size

    @property
    def _width(self) -> int:
        return 1 << (self.size - 1).bit_length()

    @cached_property
    def _halves(self) -> tuple[Ranges, Ranges] | None:
        """Left and right halves of every node of two values or more."""
        nodes = _nodes(self._width, 2)
        low, high = nodes[nodes[:, 1] - nodes[:, 0] > 1].T
        if not low.size:
            return None
        middle = (low + high) // 2
        return Ranges(self._width, low, middle), Ranges(self._width, middle, high)

    def _times(self, columns: Real) -> Real:
        padded = np.zeros((self._width, columns.shape[1]))
        padded[: self.size] = columns
        total = padded.sum(axis=0, keepdims=True)
        if self._halves is None:
            return np.asarray(total)
        left, right = self._halves
        return np.vstack([total, left.matmat(padded) - right.matmat(padded)])

    def _transposed_times(self, columns: Real) -> Real:
        sums = np.repeat(columns[:1], self._width, axis=0)
        if self._halves is not None:
            left, right = self._halves
            sums = sums + left.rmatmat(columns[1:]) - right.rmatmat(columns[1:])
        return np.asarray(sums[: self.size])

    def _gram(self) -> Real:
        """(l - r)(l - r)' = 2 ll' + 2 rr' - (l + r)(l + r)' for the halves l, r of a node: a sum over the tree."""
        nodes = _nodes(self._width, 2)
        root, leaf = nodes[:, 1] - nodes[:, 0] == self._width, nodes[:, 1] - nodes[:, 0] == 1
        weights = np.where(root, 1.0, 2.0) - np.where(leaf, 0.0, 1.0)
        gram = Ranges(self._width, nodes[:, 0], nodes[:, 1]).weighted_gram(weights)
        return np.ascontiguousarray(gram[: self.size, : self.size])

    def column_norms(self, order: Literal[1, 2]) -> Real:
        """Every column has one entry 1 or -1 a level and one of the total."""
        return np.full(self.size, (1 + math.log2(self._width)) ** (1 / order))


def greedy_h(workload: Real, branches: int = 2) -> Ranges:
    """GreedyH: a hierarchy whose weights are chosen from the leaves up, each column of L1 norm 1.

    workload: V = W'W, float64 [n, n]. Its rows take the place of the queries, as in the published figures.

    A node gives a share of its budget, in hundredths, to its own sum, such that the error of the queries at its values
    from the measurements below it is least.

    Source: Li, Hay, Miklau and Wang (2014), section 4.2.
    """
    low, high, weights = zip(*_Greedy(workload, branches).below(0, len(workload), 0).measured, strict=True)
    asked = np.array(weights) > 0
    return Ranges(len(workload), np.array(low)[asked], np.array(high)[asked], np.array(weights)[asked])


@dataclass(frozen=True)
class _Subtree:
    """What is measured at and below a node, with columns of L1 norm 1.

    error: Squared error of the queries at its values.
    sums: X^-1 1, float64 [values], with X the Gram matrix of what is measured.
    measured: First value, value after the last, and weight of every sum.
    """

    error: float
    sums: Real
    measured: list[tuple[int, int, float]]


@dataclass(frozen=True, eq=False)
class _Greedy:
    queries: Real
    branches: int

    def below(self, low: int, high: int, depth: int) -> _Subtree:
        read = self.queries[:, low:high]
        if (read == read[:, :1]).all():
            return _Subtree(float(read[:, 0] @ read[:, 0]), np.full(high - low, 1 / (high - low)), [(low, high, 1.0)])
        parts = _parts(low, high, self.branches)
        below = [self.below(start, stop, depth + 1) for start, stop in parts]
        apart = [self.queries[:, start:stop] @ one.sums for (start, stop), one in zip(parts, below, strict=True)]
        together = sum(apart)
        each, whole = sum(float(one @ one) for one in apart), float(np.sum(np.square(together)))
        error, sums = sum(one.error for one in below), np.concatenate([one.sums for one in below])
        across, decay = float(sums.sum()), self.branches ** (-depth / 2)
        share = np.arange(_STEPS_PER_SHARE) / _STEPS_PER_SHARE
        gain = ((whole - each) * decay + each) * share**2 * decay
        errors = (error - gain / ((1 - share) ** 2 + share**2 * decay * across)) / (1 - share) ** 2
        own = int(np.argmin(errors))
        rest = 1 - own / _STEPS_PER_SHARE
        measured = [(low, high, own / _STEPS_PER_SHARE)]
        measured += [(start, stop, weight * rest) for one in below for start, stop, weight in one.measured]
        return _Subtree(float(errors[own]), sums / (rest**2 + across * (1 - rest) ** 2), measured)


def _nodes(size: int, branches: int) -> NDArray[np.int64]:
    """First value and value after the last of every node, int64 [nodes, 2], level by level from the root."""
    if size < 1 or branches < 2:
        raise ValueError(f"a tree of {size} values with {branches} branches; want one value and two branches or more")
    nodes = [(0, size)]
    for low, high in nodes:
        if high - low > 1:
            nodes += _parts(low, high, branches)
    return np.array(nodes, dtype=np.int64)


def _parts(low: int, high: int, branches: int) -> list[tuple[int, int]]:
    """A node's children, as equal as can be, the larger first."""
    step, larger = divmod(high - low, min(branches, high - low))
    cuts = [low + step * place + min(place, larger) for place in range(min(branches, high - low) + 1)]
    return list(pairwise(cuts))


def _height(size: int, branches: int) -> int:
    """ceil(log_branches size), in integers."""
    height, reach = 0, 1
    while reach < size:
        height, reach = height + 1, reach * branches
    return height
