"""The verb of the kernel that discovers items: the only call through which names in the data become public. TRUSTED.

As every verb, it charges the filter from public facts, then replays the stored answer of the journal, or reads the
exact sums, draws, and stores the new answer, and only then returns. ``item_threshold`` has the proof.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import IntegrityError
from dpcore.exact_statistics import ItemStatistics, NamedSums, Shape
from dpcore.kernel.budget import Bound, Budget, Charge, CostBasis, Currency, Filter
from dpcore.kernel.item_threshold import WEIGHT_BITS, squared_norm, threshold_steps, weights_of
from dpcore.kernel.noise import add_noise
from dpcore.kernel.ports import Journal, Ledger
from dpcore.kernel.scales import noise_of, noise_scale
from dpcore.kernel.sensitivity import PrivacyUnit
from dpcore.measurement import GRID_BITS, Noise

ROUNDS: Final = (Fraction(1, 10), Fraction(9, 10))
"""Shares of the budget and of the threshold delta. A later round leaves out what earlier ones have released."""


@final
@dataclass(frozen=True, eq=False)
class DiscoveredItems:
    """The released items, in the order of their names as bytes. Public.

    names: Name of each item, as UTF-8.
    values: Noisy weighted sum of each item, float64 [items], in units of a unit of one item. A unit with k items that
        no earlier round has released adds 1 / sqrt(k).
    stddevs: Standard deviation of the noise in each sum, float64 [items], in the same unit.
    """

    names: tuple[bytes, ...]
    values: NDArray[np.float64]
    stddevs: NDArray[np.float64]

    def readable(self) -> DiscoveredItems:
        """The items without those whose names are not valid UTF-8, which no query could name."""
        kept = [index for index, name in enumerate(self.names) if _is_text(name)]
        return DiscoveredItems(tuple(self.names[index] for index in kept), self.values[kept], self.stddevs[kept])


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


@final
@dataclass(frozen=True)
class RoundTerms:
    """The public terms of one round.

    unit: The privacy unit, of baskets.
    budget: The budget of the noise of the sums, in zCDP or Gaussian DP.
    threshold_delta: t of the proof in ``item_threshold``, of this round.
    """

    unit: PrivacyUnit
    budget: Budget
    threshold_delta: Fraction

    @cached_property
    def weights(self) -> NDArray[np.int64]:
        """Weight by the number of items of a unit, int64 [bound + 1]."""
        return weights_of(self.unit.contribution.bound)

    @property
    def noise(self) -> Noise:
        """The law of the noise."""
        return noise_of(self.budget.currency)

    @property
    def steps(self) -> int:
        """Noise steps per step of the weights."""
        return 1 << GRID_BITS if self.noise is Noise.ROUNDED_GAUSSIAN else 1

    @cached_property
    def basis(self) -> CostBasis:
        """What the charge follows from."""
        squared_l2 = squared_norm(self.weights) * (2 if self.unit.replaced else 1)
        scale = noise_scale(self.budget.currency, self.budget.amount, 0, squared_l2)
        sensitivity, denominator = Fraction(squared_l2), 1 << WEIGHT_BITS
        return CostBasis(
            "discover", self.noise.value, Bound.SQUARED_L2, sensitivity, "integer answers", scale, denominator
        )

    @cached_property
    def threshold(self) -> int:
        """Smallest noisy sum that is released, in noise steps."""
        return threshold_steps(self.weights, self.basis.scale, self.steps, self.threshold_delta)

    @property
    def threshold_in_units(self) -> float:
        """The same in units of a unit of one item."""
        return self.threshold / (self.steps << WEIGHT_BITS)

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise, in units of a unit of one item."""
        return self.basis.scale / (1 << WEIGHT_BITS)


@final
@dataclass(frozen=True)
class ItemTerms:
    """The public terms of a discovery.

    unit: The privacy unit, of baskets.
    budget: The budget of the noise of all rounds, in zCDP or Gaussian DP.
    threshold_delta: t of the proof in ``item_threshold``: the delta of the whole release exceeds that of its budget by
        t.
    max_items: Maximum number of released items. Earlier rounds come first, and in a round the largest noisy sums.

    Raises ValueError for a table, a pure budget, a bound or a threshold delta out of range, or fewer than one item.
    """

    unit: PrivacyUnit
    budget: Budget
    threshold_delta: Fraction
    max_items: int

    def __post_init__(self) -> None:
        if self.unit.contribution.shape is not Shape.BASKETS:
            raise ValueError("items are discovered in baskets; want no table")
        if self.budget.currency is Currency.PURE:
            raise ValueError("a discovery has a delta above 0; want zCDP or Gaussian DP")
        if self.max_items < 1:
            raise ValueError(f"at most {self.max_items} items may be discovered; want at least 1")
        for each in self.rounds:
            _ = each.threshold

    @cached_property
    def rounds(self) -> tuple[RoundTerms, ...]:
        """The terms of the rounds, whose budgets and threshold deltas add up to those of the discovery."""
        currency, amount = self.budget.currency, self.budget.amount
        return tuple(
            RoundTerms(self.unit, Budget(currency, share * amount), share * self.threshold_delta) for share in ROUNDS
        )


@final
class PrivateItems:
    """Names and sums of items behind a privacy filter.

    statistics: The source of exact sums. SENSITIVE.
    terms: The public terms. The whole budget is spent by ``discover``.
    ledger: Reserves the whole budget of the release before anything is read.
    journal: Stores the answers before they are returned.

    Formal guarantee: that of the claim in ``item_threshold``, where the rest is whatever sees the result of
        ``discover``. The ledger reserves before the data are read, and an answer is durable before it is used.

    Raises: ValueError when the statistics enforce another contribution than the unit declares, and the error of the
        ledger when it refuses the budget.
    """

    def __init__(self, statistics: ItemStatistics, terms: ItemTerms, *, ledger: Ledger, journal: Journal) -> None:
        if statistics.contribution != terms.unit.contribution:
            raise ValueError(
                f"statistics enforce {statistics.contribution}; want {terms.unit.contribution} as declared"
            )
        self._statistics = statistics  # SENSITIVE
        self._terms = terms
        self._filter = Filter(terms.budget)
        self._journal = journal
        ledger.reserve(terms.budget)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What each round has cost, and why."""
        return tuple(self._filter.charges)

    def discover(self) -> DiscoveredItems:
        """Releases in each round the items whose noisy sums reach its threshold.

        Raises: BudgetExceededError for a second call; IntegrityError, after the charge, when the journal holds the
            answer of another request, or the statistics contradict their declared contribution.
        """
        released: dict[bytes, tuple[float, float]] = {}
        for number, terms in enumerate(self._terms.rounds):
            names, values = self._round(number, terms, tuple(sorted(released)))
            per_unit = terms.steps << WEIGHT_BITS
            released |= {
                name: (value / per_unit, terms.stddev) for name, value in zip(names, values.tolist(), strict=True)
            }
        ordered = tuple(sorted(released))
        figures = np.array([released[name] for name in ordered], dtype=np.float64).reshape(-1, 2)
        return DiscoveredItems(ordered, figures[:, 0], figures[:, 1])

    def _round(
        self, number: int, terms: RoundTerms, released: tuple[bytes, ...]
    ) -> tuple[tuple[bytes, ...], NDArray[np.int64]]:
        """The names that a round releases, and their noisy sums in noise steps: replayed, or drawn and stored."""
        basis = terms.basis
        self._filter.charge(f"discover items, round {number + 1}", terms.budget.amount, basis)
        bound, before = terms.unit.contribution.bound, hashlib.sha256(repr(released).encode()).hexdigest()
        parts = ("discover", bound, terms.noise.value, basis.scale.hex(), str(terms.threshold_delta), terms.threshold)
        request = hashlib.sha256(json.dumps([*parts, self._terms.max_items, before]).encode()).hexdigest()
        answer = self._journal.recall(number, request)
        if answer is None:
            answer = _packed(*self._drawn(terms, released))
            self._journal.record(number, request, answer)
        return _unpacked(answer)

    def _drawn(self, terms: RoundTerms, released: tuple[bytes, ...]) -> tuple[list[bytes], NDArray[np.int64]]:
        """What a round releases, in the order of names. One part of the items is read at a time."""
        weights, threshold = terms.weights, terms.threshold
        names: list[bytes] = []
        values: list[NDArray[np.int64]] = []
        for part in range(self._statistics.item_parts):
            sums = self._statistics.item_sums(weights, part, released)  # SENSITIVE
            _check(sums, int(weights.max()))
            noisy = add_noise(sums.sums, terms.noise, terms.basis.scale)
            passing = np.flatnonzero(noisy >= threshold)
            names += [sums.name(item) for item in passing.tolist()]
            values.append(noisy[passing])
        if set(names) & set(released):
            raise IntegrityError("an item is released in two rounds; want sums without those of earlier rounds")
        all_values = np.concatenate([np.empty(0, dtype=np.int64), *values])
        return _largest(names, all_values, self._terms.max_items - len(released))


def _check(sums: NamedSums, max_weight: int) -> None:
    """Raises IntegrityError for sums that no units can make."""
    if sums.sums.size and not 0 < sums.sums.min() <= sums.sums.max() <= sums.units * max_weight:
        raise IntegrityError("the sum of an item is not what its units can make; want all units once each")


def _largest(names: list[bytes], values: NDArray[np.int64], count: int) -> tuple[list[bytes], NDArray[np.int64]]:
    """The items with the largest noisy sums, among equal ones the first by name, in the order of names."""
    order = sorted(range(len(names)), key=lambda item: (-int(values[item]), names[item]))[:count]
    kept = sorted(order, key=lambda item: names[item])
    chosen = [names[item] for item in kept]
    if len(set(chosen)) != len(chosen):
        raise IntegrityError("an item has two sums; want one for each name")
    return chosen, values[kept]


def _packed(names: list[bytes], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Names and values as one vector: their number, the values, the lengths of the names, and the names as bytes."""
    lengths = np.array([len(name) for name in names], dtype=np.int64)
    text = b"".join(names)
    padded = np.frombuffer(text + bytes(8 - len(text) % 8), dtype="<i8").astype(np.int64)  # Padding is never empty.
    return np.concatenate([np.array([len(names)], dtype=np.int64), values, lengths, padded])


def _unpacked(answer: NDArray[np.int64]) -> tuple[tuple[bytes, ...], NDArray[np.int64]]:
    count = int(answer[0])
    values, lengths, padded = answer[1 : 1 + count], answer[1 + count : 1 + 2 * count], answer[1 + 2 * count :]
    text, stops = padded.astype("<i8").tobytes(), np.cumsum(lengths).tolist()
    return tuple(text[stop - size : stop] for stop, size in zip(stops, lengths.tolist(), strict=True)), values
