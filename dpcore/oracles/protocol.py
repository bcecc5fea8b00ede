"""The protocol of an oracle, and the best response that it returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore.oracles.clauses import SignedClauses


class Status(StrEnum):
    """OPTIMAL: no record has a larger objective. FEASIBLE: the objective is proved only to be within the bound."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"


@dataclass(frozen=True, eq=False)
class BestResponse:
    """A record that satisfies many sampled queries.

    record: bool [view.columns], with exactly one 1 in each one-hot group.
    value: The objective of the record.
    bound: An upper bound on the objective of every record.
    """

    record: NDArray[np.bool_]
    value: int
    bound: int

    @property
    def status(self) -> Status:
        """OPTIMAL if value and bound are equal."""
        return Status.OPTIMAL if self.value == self.bound else Status.FEASIBLE


class Oracle(Protocol):
    """Maximises an objective over the records of a view. It is post-processing: it sees public clauses only.

    Contract, checked for every oracle by tests/contract against enumeration:
        * ``record`` is legal in the view, ``value`` is its objective, and ``value <= optimum <= bound``;
        * ties follow the preferences: no one-hot group, and no column outside the groups, can be changed to a value
          that is preferred without lowering the objective;
        * the same input gives the same response; work is limited by counts, never by seconds.
    """

    def respond(self, clauses: SignedClauses, preferences: NDArray[np.float64]) -> BestResponse:
        """A record with a large objective, and a bound.

        clauses: The objective.
        preferences: float64 [view.columns], which break ties. Of two columns of a group the one with the larger
            preference is preferred; a column outside the groups prefers a 1 where its preference is > 0.
        """
        ...
