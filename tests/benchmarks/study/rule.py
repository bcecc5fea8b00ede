"""A small decision tree over public facts, learnt from the study, and judged on families that it has not seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.study.comparison import Comparison
from tests.benchmarks.study.facts import Facts

DEPTH: Final = 4
LEAST_SETTINGS: Final = 5  # Of a leaf.
_LEAST_GAIN: Final = 0.75  # Of the loss, which a miss raises by a half or more.
_MISS, _LARGEST_LOSS = 0.5, 1.5

Losses = NDArray[np.float64]


@dataclass(frozen=True)
class Leaf:
    """ranking: Mechanisms, best first: later ones serve where those before are refused.

    settings: How many it was learnt from.
    """

    ranking: tuple[str, ...]
    settings: int

    def choose(self, facts: Facts) -> tuple[str, ...]:
        return self.ranking

    def lines(self) -> Iterator[str]:
        yield f"{self.ranking[0]} (then {self.ranking[1]}; {self.settings} settings)"


@dataclass(frozen=True)
class Split:
    """Settings whose fact is at most the limit go to ``low``."""

    fact: str
    limit: float
    low: Rule
    high: Rule

    def choose(self, facts: Facts) -> tuple[str, ...]:
        return (self.low if float(facts[self.fact]) <= self.limit else self.high).choose(facts)

    def lines(self) -> Iterator[str]:
        for sign, branch in (("<=", self.low), (">", self.high)):
            yield f"{self.fact} {sign} {self.limit:.3g}:"
            yield from (f"    {line}" for line in branch.lines())


Rule = Leaf | Split


def learnt(settings: Sequence[Comparison], features: Sequence[str], mechanisms: Sequence[str]) -> Rule:
    """The tree of greedily chosen splits that lower the loss the most."""
    facts = np.array([[float(one.facts[name]) for name in features] for one in settings])
    losses = np.array([[loss(one, name) for name in mechanisms] for one in settings])
    return _grown(facts, losses, tuple(features), tuple(mechanisms), DEPTH)


def loss(setting: Comparison, mechanism: str) -> float:
    """0 for the best or one as good; else a half and the log of its error over the least one, together at most 1.5."""
    if setting.is_best(mechanism):
        return 0.0
    return float(min(_LARGEST_LOSS, _MISS + np.log(setting.ratio(mechanism))))


def left_out(settings: Sequence[Comparison], features: Sequence[str], mechanisms: Sequence[str]) -> dict[str, str]:
    """For each setting, what a rule chooses that was learnt from all other families."""
    chosen: dict[str, str] = {}
    for family in sorted({one.family for one in settings}):
        others = [one for one in settings if one.family != family]
        if not others:
            continue
        rule = learnt(others, features, mechanisms)
        chosen |= {one.key: choice(rule, one) for one in settings if one.family == family}
    return chosen


def choice(rule: Rule, setting: Comparison) -> str:
    """The first mechanism of the rule's ranking that accepts the setting."""
    ranking = rule.choose(setting.facts)
    return next((name for name in ranking if setting.accepts(name)), ranking[0])


def _grown(facts: Losses, losses: Losses, features: tuple[str, ...], mechanisms: tuple[str, ...], depth: int) -> Rule:
    totals = losses.sum(axis=0)
    leaf = Leaf(tuple(mechanisms[index] for index in np.argsort(totals, kind="stable")), len(losses))
    if depth == 0:
        return leaf
    candidates = [_best_limit(facts[:, axis], losses) for axis in range(len(features))]
    axis = int(np.argmin([total for total, _ in candidates]))
    total, limit = candidates[axis]
    if total > totals.min() - _LEAST_GAIN:
        return leaf
    low = facts[:, axis] <= limit
    branches = [_grown(facts[part], losses[part], features, mechanisms, depth - 1) for part in (low, ~low)]
    return Split(features[axis], limit, *branches)


def _best_limit(values: NDArray[np.float64], losses: Losses) -> tuple[float, float]:
    """The least loss after a split by these values, and its limit; infinite where a part would be too small."""
    order = np.argsort(values, kind="stable")
    ordered, sums = values[order], np.cumsum(losses[order], axis=0)
    totals = sums[:-1].min(axis=1) + (sums[-1] - sums[:-1]).min(axis=1)
    sizes = np.arange(1, len(values))
    allowed = (ordered[:-1] < ordered[1:]) & (np.minimum(sizes, len(values) - sizes) >= LEAST_SETTINGS)
    if not allowed.any():
        return float("inf"), 0.0
    index = int(np.argmin(np.where(allowed, totals, np.inf)))
    return float(totals[index]), _between(float(ordered[index]), float(ordered[index + 1]))


def _between(low: float, high: float) -> float:
    """A limit between two values: their geometric mean, for facts that are all positive."""
    return float(np.sqrt(low) * np.sqrt(high)) if np.isfinite(high) and low > 0 else low
