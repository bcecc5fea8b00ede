"""What a best response is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore.oracles.clauses import SignedClauses


class Status(StrEnum):
    """OPTIMAL: no record has a larger value. FEASIBLE: none is known, and the bound says how far off it is."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"


@dataclass(frozen=True, eq=False)
class BestResponse:
    """A record that satisfies many sampled queries.

    record: bool [view.columns]; exactly one 1 in each one-hot group.
    value: Its objective.
    bound: No record has a larger objective.
    """

    record: NDArray[np.bool_]
    value: int
    bound: int

    @property
    def status(self) -> Status:
        return Status.OPTIMAL if self.value == self.bound else Status.FEASIBLE


class Oracle(Protocol):
    """Maximises an objective over the records of a view. Post-processing: it sees public clauses only.

    Contract, checked for every oracle by tests/contract against enumeration:
        * ``record`` is legal in the view, ``value`` is its objective, and ``value <= optimum <= bound``;
        * ties follow the preferences: no one-hot group, and no column outside the groups, can be changed to a value
          that is preferred without lowering the objective;
        * the same input gives the same response; there is no limit in seconds.
    """

    def respond(self, clauses: SignedClauses, preferences: NDArray[np.float64]) -> BestResponse:
        """The response.

        preferences: float64 [view.columns]. Of two columns of a group the larger is preferred; a column outside the
            groups prefers a 1 where it is > 0.
        """
        ...
