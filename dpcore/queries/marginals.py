"""Marginals: the contingency tables of some cliques."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain


@dataclass(frozen=True)
class Marginals:
    """The contingency tables of some cliques, answered as one vector.

    The answer vector is the concatenation of the tables in the order of ``cliques``. Each table is raveled in C order,
    with its attributes in the order of the domain.

    domain: The attributes.
    cliques: The cliques; their attributes are put in the order of the domain.

    Raises ValueError if there is no clique.
    """

    domain: Domain
    cliques: tuple[Clique, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "cliques", tuple(self.domain.canonical(clique) for clique in self.cliques))
        if not self.cliques:
            raise ValueError("no cliques; want at least one")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each clique."""
        return tuple(self.domain.size(clique) for clique in self.cliques)

    @cached_property
    def size(self) -> int:
        """Length of the answer vector."""
        return sum(self.sizes)

    @property
    def description(self) -> str:
        """A short description for plans and certificates."""
        if len(self.cliques) > 1:
            return f"{len(self.cliques):,} marginals"
        return " x ".join(self.cliques[0]) or "number of rows"

    def split(self, answers: NDArray[np.generic]) -> list[NDArray[np.generic]]:
        """One table per clique, of shape ``domain.shape(clique)``: views of the answer vector."""
        pieces = np.split(answers, np.cumsum(self.sizes)[:-1])
        return [piece.reshape(self.domain.shape(clique)) for piece, clique in zip(pieces, self.cliques, strict=True)]

    def only(self, cliques: Iterable[Clique]) -> Marginals:
        """The marginals of other cliques of the same domain."""
        return Marginals(self.domain, tuple(cliques))

    def digest(self) -> str:
        """A digest of the queries."""
        content = json.dumps(["marginals", self.domain.names, self.domain.sizes, self.cliques])
        return hashlib.sha256(content.encode()).hexdigest()
