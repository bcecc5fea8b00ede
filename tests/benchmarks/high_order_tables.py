"""Generated tables whose structure is not in low-order marginals: parities of bits, and mixtures of dense Gaussians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

LABEL: Final = "label"
_FLIPPED: Final = 0.1  # Fraction of the labels of a parity that are wrong.
_BITS: Final = 10
_CLASSES: Final = 4
_BINS: Final = 12
_WIDEST: Final = 2.5  # Standard deviations at which the outer bins of a Gaussian begin.
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows of a table whose last attribute is a class.

    sizes: By attribute, its number of values; the last is LABEL.
    codes: int64 [rows, attributes].
    """

    sizes: dict[str, int]
    codes: Codes


def parity(relevant: int, rows: int, seed: int) -> Labelled:
    """Uniform bits, and as label the XOR of ``relevant`` of them, wrong in a tenth of the rows.

    No marginal of the label with fewer than ``relevant`` bits differs from independence.
    """
    generator = np.random.default_rng([seed, relevant])
    chosen = np.random.default_rng(relevant).choice(_BITS, relevant, replace=False)  # The same in every part.
    bits = generator.integers(0, 2, (rows, _BITS))
    label = (bits[:, chosen].sum(axis=1) + (generator.random(rows) < _FLIPPED)) % 2
    names = [f"bit{axis:02d}" for axis in range(_BITS)]
    return Labelled(dict.fromkeys([*names, LABEL], 2), np.column_stack([bits, label]))


def gaussians(dimensions: int, rows: int, seed: int) -> Labelled:
    """A mixture of Gaussians with dense covariances, values in equally wide bins; the label is the component.

    Means differ little and covariances much, so that pairs of attributes within a class say more than single ones.
    """
    law = np.random.default_rng(dimensions)  # The same in every part.
    means = law.normal(0, 1.6 / np.sqrt(dimensions), (_CLASSES, dimensions))
    factors = law.normal(0, 1, (_CLASSES, dimensions, dimensions // 2))
    generator = np.random.default_rng([seed, dimensions])
    label = generator.choice(_CLASSES, rows, p=law.dirichlet(np.full(_CLASSES, 8.0)))
    values = np.empty((rows, dimensions))
    for component in range(_CLASSES):
        members = label == component
        hidden = generator.normal(size=(int(members.sum()), factors.shape[2]))
        spread = np.sqrt((factors[component] ** 2).sum(axis=1) + 1)
        own = generator.normal(size=(len(hidden), dimensions))
        values[members] = means[component] + (hidden @ factors[component].T + own) / spread
    edges = np.linspace(-_WIDEST, _WIDEST, _BINS - 1)
    names = [f"x{axis:02d}" for axis in range(dimensions)]
    sizes = dict.fromkeys(names, _BINS) | {LABEL: _CLASSES}
    return Labelled(sizes, np.column_stack([np.digitize(values, edges), label]).astype(np.int64))


TABLES: Final[dict[str, Callable[[int, int], Labelled]]] = {
    "xor2": lambda rows, seed: parity(2, rows, seed),
    "xor3": lambda rows, seed: parity(3, rows, seed),
    "gauss10": lambda rows, seed: gaussians(10, rows, seed),
    "gauss50": lambda rows, seed: gaussians(50, rows, seed),
}
"""By name: rows of the law, of which each seed gives other ones."""
