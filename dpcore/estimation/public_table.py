"""A public table with the attributes of the private one. Its counts are exact, and cost nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain


@final
@dataclass(frozen=True, eq=False)
class PublicTable:
    """The rows of a public table, as codes.

    domain: Attributes and their sizes.
    codes: Integers [rows, attributes], each at least 0 and below the size of its attribute.

    Raises ValueError without rows, for another number of columns, and for codes outside the domain.
    """

    domain: Domain
    codes: NDArray[np.integer]

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.domain.names) or not len(self.codes):
            shape = self.codes.shape
            raise ValueError(f"codes of shape {shape}; want one row or more of {len(self.domain.names)} attributes")
        if (self.codes.min(axis=0) < 0).any() or (self.codes.max(axis=0) >= self.domain.sizes).any():
            raise ValueError("codes outside the domain; want each at least 0 and below the size of its attribute")

    @property
    def rows(self) -> int:
        return len(self.codes)

    def counts(self, clique: Clique) -> NDArray[np.float64]:
        """Exact counts of the cells of a marginal, float64 [cells], in C order of the clique."""
        cells = np.zeros(self.rows, dtype=np.int64)
        for name in clique:
            axis = self.domain.index(name)
            cells *= self.domain.sizes[axis]
            cells += self.codes[:, axis]
        return np.bincount(cells, minlength=self.domain.size(clique)).astype(np.float64)

    def project(self, clique: Clique) -> PublicTable:
        """The columns of some attributes."""
        return PublicTable(self.domain.project(clique), self.codes[:, list(self.domain.axes(clique))])
