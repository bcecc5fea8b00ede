"""The model of baskets: sizes, tastes, and a rejective sample of items in each class of both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpcore.compiled import compiled
from dpcore.domain import BinaryView
from dpcore.errors import ConfigError
from dpcore.estimation.baskets.fixed_size import pair_sums_of, pair_terms
from dpcore.estimation.baskets.mixture import Parameters
from dpcore.estimation.baskets.rounded_baskets import RoundedBaskets
from dpcore.estimation.baskets.size_law import SizeLaw
from dpcore.estimation.model import SyntheticRows
from dpcore.estimation.row_partitions import LARGEST_UNITS
from dpcore.queries import Conjunctions, Parities, Queries

_ITEMS_AT_ONCE: Final = 1 << 22  # Probabilities that are computed at a time.
_NEWTON_STEPS: Final = 6  # Of the level of a class, which starts near its end.


@final
@dataclass(frozen=True, eq=False)
class BasketMixture:
    """A distribution of baskets. Implements Model.

    view: The items, one column each.
    total: Number of units, >= 0.
    law: The distribution of basket sizes.
    nodes: int64 [S], the node of each size of the law, ascending from 0, and -1 for size 0.
    logs: float64 [J], x of each node; ``mixture.Nodes``.
    popular: int64 [M], the items of ``parameters``.
    parameters: Their logits, and the tastes.
    base: float64 [items], the base of every item; those of popular items are those of ``parameters``.
    levels: float64 [J, T].

    Answers: for k literals, the product of their probabilities in a class, plus corrections for the fixed size that are
    symmetric polynomials of their c (``fixed_size``), up to order k. They are exact for a size of 1, and those of the
    hypergeometric law where probabilities are small. Each answer is a number of units in [0, total].
    """

    view: BinaryView
    total: float
    law: SizeLaw
    nodes: NDArray[np.int64]
    logs: NDArray[np.float64]
    popular: NDArray[np.int64]
    parameters: Parameters
    base: NDArray[np.float64]
    levels: NDArray[np.float64]

    @property
    def _classes(self) -> int:
        return int(self.levels.size)

    @cached_property
    def _masses(self) -> NDArray[np.float64]:
        """The probability of each class, float64 [J, T]; what is missing to 1 is that of empty baskets."""
        held = self.nodes >= 0
        by_node = np.bincount(self.nodes[held], weights=self.law.probabilities[held], minlength=len(self.logs))
        return np.asarray(by_node[:, None] * self.parameters.taste_shares(self.logs))

    @cached_property
    def _pair_sums(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """C of each class, float64 [classes], and the item that dominates it or -1, int64 [classes]."""
        sums, dominant = np.empty(self._classes), np.empty(self._classes, dtype=np.int64)
        ones = np.ones(self.view.columns)
        step = max(1, _ITEMS_AT_ONCE // self.view.columns)
        for start in range(0, self._classes, step):
            rows = slice(start, start + step)
            sums[rows], dominant[rows] = pair_sums_of(expit(self._class_logits(rows)), ones)
        return sums, dominant

    def probabilities(self, items: NDArray[np.integer]) -> NDArray[np.float64]:
        """The probability of each of some items in each class, float64 [len(items), classes]."""
        logits = self.base[items][:, None] + self.levels.ravel()
        position = np.full(self.view.columns, -1, dtype=np.int64)
        position[self.popular] = np.arange(len(self.popular))
        inside = np.flatnonzero(position[items] >= 0)
        own = position[items][inside]
        tilts = self.logs[None, :, None] * self.parameters.tilts[own][:, None, None]
        logits[inside] += (tilts + self.parameters.tastes[:, own].T[:, None, :]).reshape(len(inside), self._classes)
        return np.asarray(expit(logits))

    def answer(self, queries: Queries) -> NDArray[np.float64]:
        """Expected counts, float64 [queries.size]; see ``Model``. A literal that is repeated in a row counts once.

        Raises ConfigError for marginals and products, and for other columns than the model's.
        """
        if not isinstance(queries, Conjunctions | Parities):
            raise ConfigError("marginals of baskets; want conjunctions or parities")
        if queries.view != self.view:
            raise ConfigError("queries over other columns than the model's; want its own view")
        items, places = np.unique(queries.columns, return_inverse=True)
        columns = np.where(queries.columns < 0, -1, places.reshape(queries.columns.shape) - int((items < 0).any()))
        p, slopes = self._means_and_slopes(items[items >= 0])
        masses, corrections = self._masses.ravel(), corrections_of(self._pair_sums[0] ** 2, columns.shape[1])
        empty = max(0.0, 1.0 - float(masses.sum()))
        parity = isinstance(queries, Parities)
        negated = queries.negated if isinstance(queries, Conjunctions) else np.zeros(columns.shape, dtype=np.bool_)
        values = np.empty(queries.size)
        _answers(columns.astype(np.int64), negated, parity, p, slopes, masses, corrections, empty, values)
        return np.asarray(self.total * np.clip(values, 0.0, 1.0))

    def _means_and_slopes(self, items: NDArray[np.integer]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """p and c C of each item in each class, float32 [len(items), classes]."""
        p, slopes = (np.empty((len(items), self._classes), dtype=np.float32) for _ in range(2))
        sums, dominant = self._pair_sums
        step = max(1, _ITEMS_AT_ONCE // self._classes)
        for start in range(0, len(items), step):
            part = items[start : start + step]
            own = self.probabilities(part)
            p[start : start + step] = own
            dominates = part[:, None] == dominant
            slopes[start : start + step] = sums * pair_terms(own * (1 - own), sums, dominates)
        return p, slopes

    def sample(self, units: int, generator: np.random.Generator) -> SyntheticRows:
        """Baskets with rounded counts; see ``Model``."""
        return self.rounded(units, generator).rows(generator)

    def rounded(self, units: int, generator: np.random.Generator) -> RoundedBaskets:
        """The number of units of each class and size, and of those of each class that hold each item; see ``Model``.

        The number of units of each size, and of those that hold each item, is its mean up to a few units.

        Raises ValueError for more than ``LARGEST_UNITS`` units.
        """
        if units > LARGEST_UNITS:
            raise ValueError(f"units is {units}; want at most {LARGEST_UNITS}")
        tastes = self.levels.shape[1]
        sizes = np.repeat(self.law.sizes, tastes)
        classes = (np.maximum(self.nodes, 0)[:, None] * tastes + np.arange(tastes)).ravel()
        shares = self.parameters.taste_shares(self.logs)[np.maximum(self.nodes, 0)]
        means = (self.law.probabilities[:, None] * shares).ravel()
        ends = np.floor(np.cumsum(means / means.sum()) * units + generator.random())
        ends[-1] = units
        cells: NDArray[np.int32] = np.diff(np.clip(ends, 0, units), prepend=0.0).astype(np.int32)
        filled = cells > 0
        kept = sizes[filled].astype(np.int32), classes[filled].astype(np.int32), cells[filled]
        return RoundedBaskets(*kept, self._holders(*kept, generator))

    def _holders(
        self,
        sizes: NDArray[np.int32],
        classes: NDArray[np.int32],
        cells: NDArray[np.int32],
        generator: np.random.Generator,
    ) -> NDArray[np.int32]:
        """Rounded numbers of holders, int32 [classes, items]; those of each class sum to its basket sizes.

        Classes are rounded one after another, and each is corrected by the rounding of those before.
        """
        units_of_class = np.bincount(classes, weights=cells, minlength=self._classes)
        pairs_of_class = np.bincount(classes, weights=cells * sizes.astype(np.float64), minlength=self._classes)
        holders = np.zeros((self._classes, self.view.columns), dtype=np.int32)
        carried = np.zeros(self.view.columns)
        step = max(1, _ITEMS_AT_ONCE // self.view.columns)
        for start in range(0, self._classes, step):
            logits = self._class_logits(slice(start, start + step))
            for offset, row in enumerate(logits):
                number = start + offset
                if pairs_of_class[number]:
                    limit = int(units_of_class[number])
                    means = limit * _summing_to(row, pairs_of_class[number] / limit)
                    _round_to_sum(means + carried, int(pairs_of_class[number]), limit, generator, holders[number])
                    # Bounded, so that what one class could not hold does not gather in another.
                    carried = np.clip(carried + means - holders[number], -1.0, 1.0)
        return holders

    def _class_logits(self, classes: slice) -> NDArray[np.float64]:
        """The logits of all items in some classes, float64 [classes, items]."""
        tastes = self.levels.shape[1]
        numbers = np.arange(self._classes)[classes]
        logits = self.base[None, :] + self.levels.ravel()[numbers][:, None]
        extra = self.logs[numbers // tastes][:, None] * self.parameters.tilts + self.parameters.tastes[numbers % tastes]
        logits[:, self.popular] += extra
        return np.asarray(logits)


def _summing_to(logits: NDArray[np.float64], size: float) -> NDArray[np.float64]:
    """Probabilities with the logits plus a common term, such that they sum to ``size``, up to a rounding error."""
    level = 0.0
    for _ in range(_NEWTON_STEPS):
        p = expit(logits + level)
        level -= float(np.clip((p.sum() - size) / max(float((p * (1 - p)).sum()), 1e-9), -1.0, 1.0))
    return np.asarray(p * (size / p.sum()))


def corrections_of(draws: NDArray[np.float64], order: int) -> NDArray[np.float64]:
    """Coefficients of the elementary symmetric polynomials of c C, float64 [classes, order + 1].

    draws: float64 [classes], D = C^2.

    They are those for which m rare literals hold together with the product of their probabilities times
    (1 - 1/D) (1 - 2/D) .. (1 - (m - 1)/D), the law of D draws without replacement.
    """
    falling = np.ones((len(draws), order + 1))
    for m in range(1, order + 1):
        falling[:, m] = falling[:, m - 1] * np.maximum(0.0, 1.0 - (m - 1) / draws)
    signs = [[(-1.0) ** (m - j) * comb(m, j) for j in range(order + 1)] for m in range(order + 1)]
    return np.asarray(falling @ np.array(signs).T)


@compiled
def _answers(
    columns: NDArray[np.int64],
    negated: NDArray[np.bool_],
    parity: bool,
    p: NDArray[np.float32],
    slopes: NDArray[np.float32],
    masses: NDArray[np.float64],
    corrections: NDArray[np.float64],
    empty: float,
    values: NDArray[np.float64],
) -> None:
    """Probabilities of conjunctions, or of an even number of ones; -1 pads parities.

    A literal with the value f(x) has the mean a = E f and the slope b = (f(1) - f(0)) c C. The mean of a product
    of literals is the sum over m of the correction m times the sum, over sets of m literals, of their b times the
    others' a.
    """
    order = columns.shape[1]
    sums = np.empty(order + 1)
    for query in range(columns.shape[0]):
        total = empty
        for literal in range(order):
            if not parity and not negated[query, literal]:
                total = 0.0
        for number in range(masses.size):
            sums[:] = 0.0
            sums[0] = 1.0
            for literal in range(order):
                column = columns[query, literal]
                if column < 0 or (not parity and literal > 0 and column == columns[query, literal - 1]):
                    continue
                x = np.float64(p[column, number])
                mean, slope = x, np.float64(slopes[column, number])
                if parity:
                    mean, slope = 1.0 - 2.0 * x, -2.0 * slope
                elif negated[query, literal]:
                    mean, slope = 1.0 - x, -slope
                for m in range(literal + 1, 0, -1):
                    sums[m] = sums[m] * mean + sums[m - 1] * slope
                sums[0] *= mean
            value = 0.0
            for m in range(order + 1):
                value += corrections[number, m] * sums[m]
            total += masses[number] * (value if parity else max(0.0, value))
        values[query] = (1.0 + total) / 2.0 if parity else total


@compiled
def _round_to_sum(
    wanted: NDArray[np.float64], total: int, limit: int, generator: np.random.Generator, rounded: NDArray[np.int32]
) -> None:
    """Rounds numbers up or down to 0 .. ``limit``, so that they sum to ``total``, which is about their sum.

    Numbers below 0 become 0. The fractions of all others are decided by one systematic sample, in which each is rounded
    up with a probability in proportion to its fraction; where too much would be given, wholes are reduced likewise.
    """
    fractions = np.zeros(len(wanted))
    sum_of_fractions, given = 0.0, 0
    for item in range(len(wanted)):
        whole = min(limit, max(0, int(np.floor(wanted[item]))))
        rounded[item] = whole
        given += whole
        if whole < limit:
            fractions[item] = max(0.0, wanted[item] - whole)
            sum_of_fractions += fractions[item]
    step = 1
    if given > total:
        step, sum_of_fractions = -1, 0.0
        for item in range(len(wanted)):
            fractions[item] = max(0.0, 1.0 - wanted[item] + rounded[item]) if rounded[item] > 0 else 0.0
            sum_of_fractions += fractions[item]
    missing = abs(total - given)
    offset, reached, before = generator.random(), 0.0, 0
    for item in range(len(wanted)):
        reached += fractions[item] * missing / max(sum_of_fractions, 1e-300)
        end = min(missing, int(np.floor(reached + offset)))
        if end > before and 0 <= rounded[item] + step * (end - before) <= limit:
            rounded[item] += step * (end - before)
            given += step * (end - before)
        before = max(before, end)
    for everywhere in range(2):  # What rounding errors left, or what ``limit`` cut off.
        while given != total:
            start = given
            for item in range(len(wanted)):
                allowed = rounded[item] < limit if step > 0 else rounded[item] > 0
                if given != total and allowed and (everywhere == 1 or wanted[item] > 0.5):
                    rounded[item] += step
                    given += step
            if given == start:
                break
