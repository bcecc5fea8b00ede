"""How far one unit moves clipped sums: the proof, and the numbers that it needs. TRUSTED.

Setting. The queries lie in groups. A unit holds one row or one basket, and satisfies k_g queries of group g. It adds
the weight w_g(k_g) to the answer of each of those k_g queries and 0 to the other answers of the group; ``weights[g,
k]`` is w_g(k), an integer, public and fixed before the sums are asked for.

Claim. Adding a unit to the data moves the answers by a vector v, and for p = 1 and p = 2

    sum of v_i^p  <=  sum over groups g of  max over k = 1 .. size of g of  k w_g(k)^p.

Proof. v depends on the unit alone: which queries it satisfies, and with them every k_g, does not change with the other
units. So the answers are sums over units, and adding a unit adds its own v. In group g exactly k_g entries of v are
w_g(k_g) and the others are 0, which gives k_g w_g(k_g)^p; no unit gives more than the largest of these over all k. The
groups share no query, so their parts add up.

Weights are at least 0 (``ClippedSums`` checks it), so v is not negative. Removing a unit moves the answers by -v.
Replacing one unit by another moves them by v' - v, with |v' - v|_1 <= |v|_1 + |v'|_1 and, as no entry is negative,
|v' - v|_2^2 <= |v|_2^2 + |v'|_2^2: at most twice the bound in both cases. ``sensitivity`` applies this factor.

Clipping is what makes the bound small: with w_g(k) = min(1, C / sqrt(k)), scaled and rounded down to integers, every k
gives k w_g(k)^2 <= C^2 for each group. The bound is computed from the very weights that are used, in exact integers, so
that no property of the weights beyond their signs is assumed.

Source: this project; ``dpcore/PRIVACY.md`` has the choice of C from a noisy histogram.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.queries import ClippedSums


def largest_clipped(queries: ClippedSums, power: int) -> list[int]:
    """For each group the largest sum over its queries of (what one unit adds)^power: max over k of k w^power."""
    rows = zip(queries.weights, queries.group_sizes.tolist(), strict=True)
    return [_largest(weights[1 : size + 1], power) for weights, size in rows]


def _largest(weights: NDArray[np.int64], power: int) -> int:
    """max over k of k weights[k - 1]^power, exactly: with Python's integers where 64 bits might not do."""
    fits = int(weights.max()) ** power * weights.size < 1 << 62
    values = weights if fits else weights.astype(object)
    return int((np.arange(1, weights.size + 1) * values**power).max())
