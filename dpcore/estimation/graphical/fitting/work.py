"""What a fit costs, and a limit of it that counts work in place of seconds, so that equal runs do equal work.

Work is counted in *reads*: a read is the time in which the marginal oracle reads one cell of a table, about a
nanosecond. The constants below are CPU nanoseconds, measured on one core of a current server
(``dpcore/decisions/work.md``). They are part of what a limit means: changing them changes releases that end at one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

UNIT: Final = 1 << 30
"""Reads in a unit of work, the unit of the setting ``max_work`` of mechanisms."""

SECONDS_PER_UNIT: Final = 1.0
"""CPU seconds of a unit of work, about. The translation of minutes into units uses this number."""

_READ: Final = 1.2  # A cell that the marginal oracle reads.
_ROW: Final = 35.0  # A row of the measurement matrix, per call: centring it, and the memory of the descent.
_MEASUREMENT: Final = 2_000.0  # A measured component, per call.
_MATRIX: Final = 50_000.0  # A matrix of a measured product, per call: an array operation on its own.
_CALL: Final = 200_000.0  # A call, whatever its size.
_PART: Final = 60_000.0  # A component of a clique, per sweep.
_CELL: Final = 90.0  # A cell of a measured clique, per sweep: an equation in one variable.
_SWEPT: Final = 4.0  # A cell that the marginal oracle reads, per sweep: it is read and multiplied.


@final
class WorkMeter:
    """Counts the work of a run down. What it has counted follows from structure and released values alone.

    limit: The most reads; infinite for no limit.
    parent: A meter that counts the same work; None if there is none.
    watch: Called after each step, for whoever shows the progress.

    spent: Reads so far.
    """

    def __init__(
        self, limit: float = math.inf, parent: WorkMeter | None = None, watch: Callable[[], None] | None = None
    ) -> None:
        self._limit, self._parent, self._watch, self.spent = limit, parent, watch, 0.0

    @property
    def fraction(self) -> float:
        """Part of the limit that is spent; it may exceed 1, because the last step is never cut short."""
        return self.spent / self._limit if self._limit > 0 else 1.0

    @property
    def remaining(self) -> float:
        """Reads until the limit, at least 0; infinite without one."""
        own = max(0.0, self._limit - self.spent)
        return own if self._parent is None else min(own, self._parent.remaining)

    def spend(self, reads: float) -> None:
        """Counts work that was done, here and in all parents."""
        self.spent += reads
        if self._watch is not None:
            self._watch()
        if self._parent is not None:
            self._parent.spend(reads)

    def part(self, fraction: float) -> WorkMeter:
        """A meter whose limit is a fraction of what remains, in (0, 1]. This one counts its work as well."""
        return WorkMeter(fraction * self.remaining, self)


@final
@dataclass(frozen=True)
class FitCosts:
    """What the two kinds of steps of a fit cost, in reads.

    call: A call of the marginal oracle with the step of the descent that it serves.
    sweep: A sweep over all measured cliques (``BlockDescent.sweep``).
    """

    call: float
    sweep: float

    @classmethod
    def of(
        cls, oracle_work: int, rows: int, measurements: int, parts: int = 0, clique_cells: int = 0, matrices: int = 0
    ) -> FitCosts:
        """The costs of a fit.

        oracle_work: Cells that a call of the marginal oracle reads (``MarginalOracle.work``).
        rows: Rows of the measurement matrix.
        measurements: Measured components.
        parts: Pairs of a clique that sweeps visit and a component of it.
        clique_cells: Cells of all those cliques together.
        matrices: Matrices of all measured products together; marginals have none.
        """
        call = _READ * oracle_work + _ROW * rows + _MEASUREMENT * measurements + _MATRIX * matrices + _CALL
        return cls(call, _PART * parts + _CELL * clique_cells + _SWEPT * oracle_work)


@final
@dataclass(frozen=True, eq=False)
class FitWork:
    """The work of one fit: what its steps cost, and the meter that counts them.

    costs: Of a call and of a sweep.
    meter: Counts all steps.
    """

    costs: FitCosts
    meter: WorkMeter

    @property
    def is_spent(self) -> bool:
        """Whether there is no work left for another call."""
        return self.meter.remaining < self.costs.call

    def allows_sweeps(self, times: int) -> bool:
        """Whether the remaining work pays for so many sweeps and for the call that checks them."""
        return self.meter.remaining >= times * self.costs.sweep + self.costs.call

    def called(self) -> None:
        """Counts a call of the marginal oracle."""
        self.meter.spend(self.costs.call)

    def swept(self, times: int) -> None:
        """Counts sweeps."""
        self.meter.spend(times * self.costs.sweep)


def without_limit() -> FitWork:
    """Counts nothing."""
    return FitWork(FitCosts(0.0, 0.0), WorkMeter())
