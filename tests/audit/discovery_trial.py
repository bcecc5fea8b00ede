"""Runs of ``discover`` on neighbours that are hardest to keep apart: both items are popular, and the unit holds one."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpcore.exact_statistics import Contribution, NamedSums, Shape
from dpcore.kernel.item_threshold import WEIGHT_BITS
from dpcore.kernel.private_items import ItemTerms, PrivateItems
from dpcore.kernel.sensitivity import PrivacyUnit
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from tests.audit.lower_bounds import Sample
from tests.audit.worst_pairs import Claim

_UNITS = 1 << 30  # More than any sum takes.
_THRESHOLD_DELTA = Fraction(1, 1000)
_BASKETS = Contribution(Shape.BASKETS, 2)


@dataclass(frozen=True)
class Popular:
    """Two items with equal sums; one more unit holds the first, the second, or none."""

    common: int
    extra: int | None
    contribution: Contribution = _BASKETS
    item_parts: int = 1

    def item_sums(self, weights: np.ndarray, part: int, excluded: tuple[bytes, ...] = ()) -> NamedSums:
        sums = np.full(2, self.common)
        if self.extra is not None:
            sums[self.extra] += weights[1]
        kept = [item for item, name in enumerate((b"a", b"b")) if name not in excluded]
        data = np.frombuffer(b"ab", dtype=np.uint8)[kept]
        return NamedSums(data, np.arange(len(kept) + 1), sums[kept], _UNITS)


@dataclass(frozen=True)
class Discovering:
    """Calls of ``discover``. What tells the neighbours apart is the noisy sum of the item that the unit holds.

    The sums lie between the thresholds of the rounds, so that nearly every item is released in the last round, which
    has most of the budget.
    """

    claim: Claim
    through: str = "discover"

    def draw(self, neighbour: bool, runs: int) -> Sample:
        extra = (1 if self.claim.replaced else None) if neighbour else 0
        unit = PrivacyUnit(self.claim.neighbours, _BASKETS, _UNITS if self.claim.replaced else None)
        terms = ItemTerms(unit, self.claim.budget, _THRESHOLD_DELTA, 2)
        first, last = terms.rounds[0], terms.rounds[-1]
        common = int((first.threshold_in_units + last.threshold_in_units) / 2 * (1 << WEIGHT_BITS))
        return np.array([self._told(Popular(common, extra), terms) for _ in range(runs)])

    def _told(self, statistics: Popular, terms: ItemTerms) -> float:
        ledger, expected = MemoryLedger(terms.budget), statistics.common / (1 << WEIGHT_BITS)
        items = PrivateItems(statistics, terms, ledger=ledger, journal=MemoryJournal()).discover()
        above = dict(zip(items.names, (items.values - expected).tolist(), strict=True))
        first, second = above.get(b"a", 0.0), above.get(b"b", 0.0)
        return second - first if self.claim.replaced else -first
