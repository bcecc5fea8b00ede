"""How MWEM splits its budget, and what noisy counts of cells start it from."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.estimation.independent import to_simplex
from dpcore.kernel.events import Event
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.mechanisms.shared.totals import total_share

START_MIX: Final = 0.001


@final
@dataclass(frozen=True)
class Shares:
    """Shares of the whole budget: for the rows, for all calls of the start, and for each selection and measurement."""

    total: Fraction
    start: Fraction
    select: Fraction
    measure: Fraction

    @classmethod
    def of(cls, terms: PrivacyTerms, rounds: int, total: float, start: float, select: float) -> Shares:
        """total: Where the number of rows is private. start: 0 for a uniform one. select: Part of a round."""
        rows, first = total_share(terms, Fraction(total)), Fraction(start)
        a_round = (1 - rows - first) / rounds
        chosen = a_round * Fraction(select)
        return cls(rows, first, chosen, a_round - chosen)

    def events(self, terms: PrivacyTerms, rounds: int, starts: int) -> tuple[Event, ...]:
        """All kernel calls; only what is measured in a round depends on answers. starts: Calls of the start."""
        events = [terms.selected(self.select, rounds), terms.measured(self.measure, rounds)]
        if starts:
            events.append(terms.measured(self.start / starts, starts))
        if self.total:
            events.append(terms.measured(self.total))
        return tuple(events)


def check_split(start: float, total: float, select: float) -> None:
    """Raises ConfigError for settings start_share, total_share and select_share that leave nothing for something."""
    if not 0 < select < 1:
        raise ConfigError(f"mechanism.select_share is {select}; want 0 < select_share < 1")
    if min(start, total) <= 0 or start + total >= 1:
        raise ConfigError("mechanism.start_share and mechanism.total_share; want both > 0 and their sum < 1")


def start_chances(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Noisy counts as a distribution, mixed with a little of the uniform so that no cell starts at 0."""
    return (1 - START_MIX) * to_simplex(counts / max(1.0, counts.sum())) + START_MIX / counts.size
