"""Sensitivity of clipped sums, with its proof. TRUSTED.

Setting. The queries are partitioned into groups. A unit holds one row or one basket, and satisfies k_g queries of group
g. It adds the weight w_g(k_g) to the answer of each of these k_g queries and 0 to the other answers of the group. Here
w_g(k) is ``weights[g, k]``, a public integer that is fixed before the sums are computed.

Claim. Adding a unit to the data moves the answers by a vector v, and for p = 1 and p = 2

    sum of v_i^p  <=  sum over groups g of  max over k = 1 .. size of g of  k w_g(k)^p.

Proof. Which queries a unit satisfies, and therefore every k_g, does not depend on other units. The answers are
therefore sums over units, and adding a unit adds a vector v that depends on this unit alone. In group g, exactly k_g
entries of v equal w_g(k_g) and the others are 0. Their powers sum to k_g w_g(k_g)^p, which is at most the maximum over
k. The groups share no query, so their sums add up.

Weights are at least 0 (``ClippedSums`` checks this), so v is non-negative. Removing a unit moves the answers by -v.
Replacing a unit moves them by v' - v. The triangle inequality gives |v' - v|_1 <= |v|_1 + |v'|_1, and because no entry
is negative, |v' - v|_2^2 <= |v|_2^2 + |v'|_2^2. Both are at most twice the bound; ``sensitivity`` applies this factor.

Clipping makes the bound small: for w_g(k) = min(1, C / sqrt(k)), scaled and rounded down to integers, k w_g(k)^2 <= C^2
holds in every group and for every k. The bound is computed in exact integers from the weights that are applied, so it
assumes nothing about the weights except that they are non-negative.

Source: this project; ``dpcore/PRIVACY.md`` describes how C is chosen from a noisy histogram.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import ClippedSums


def largest_clipped(queries: ClippedSums, power: int) -> list[int]:
    """Maximum over k of k w(k)^power for each group, exact.

    This is the largest sum over the queries of the group of what one unit adds to each answer, raised to ``power``.
    """
    groups = zip(queries.weights, queries.group_sizes.tolist(), strict=True)
    return [_largest(weights[1 : size + 1], power) for weights, size in groups]


def _largest(weights: NDArray[np.int64], power: int) -> int:
    """Maximum over k of k weights[k - 1]^power, exact; in Python integers when 64 bits could overflow."""
    fits = int(weights.max()) ** power * weights.size < 1 << 62
    values = weights if fits else weights.astype(object)
    return int((np.arange(1, weights.size + 1) * values**power).max())
