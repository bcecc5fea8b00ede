"""Runs of AIM on a small table, with a record of what it asks of the kernel."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.kernel.budget import Budget
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import L1Error
from dpcore.measurement import Measurement, NoisyErrors
from dpcore.mechanisms.aim.aim import Aim
from dpcore.mechanisms.api import Release
from dpcore.queries import Marginals, Products, Queries, UnitCount
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way
from tests.support.constants import with_constants

DOMAIN = Domain.of({"a": 3, "b": 4, "unused": 30, "c": 2, "d": 3, "e": 2})
UNITS = 600
GENERATOR = np.random.default_rng(0)


def chained(units: int = UNITS) -> NDArray[np.int64]:
    """Rows of which each attribute follows the one before it."""
    random = np.random.default_rng(5)
    codes = random.integers(0, DOMAIN.sizes, (units, len(DOMAIN.sizes)))
    for axis in (1, 3, 4, 5):
        before = codes[:, axis - 1 if axis != 3 else 1]
        codes[:, axis] = np.where(random.random(units) < 0.7, before % DOMAIN.sizes[axis], codes[:, axis])
    return codes


TABLE = TinyTable(DOMAIN, chained())
WORKLOAD = all_k_way(DOMAIN, 3, "abcde")
BUDGETS = (Budget.pure(3), Budget.zcdp(Fraction(1, 4)), Budget.gdp(Fraction(1, 4)))
NO_NOISE = Budget.zcdp(10**10)
every_budget = pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.currency.name)


def aim_with(
    like: Aim | None = None,
    *,
    max_model_mb: float | None = None,
    rounds_per_attribute: int | None = None,
    **constants: Any,
) -> Aim:
    """AIM, or a mechanism ``like`` it, with some constants of its profile changed: the changed profile has a name."""
    like = like or Aim()
    settings = {"max_model_mb": max_model_mb, "rounds_per_attribute": rounds_per_attribute}
    mechanism = replace(like, **{key: value for key, value in settings.items() if value is not None})
    return with_constants(mechanism, **constants) if constants else mechanism


@dataclass(frozen=True, eq=False)
class Round:
    """What one selection and the measurement after it were asked. before: Spent before it, as a share."""

    candidates: Marginals
    score: L1Error
    select: Fraction
    chosen: int
    before: Fraction
    measure: Fraction
    measurement: Measurement

    @property
    def clique(self) -> Clique:
        return self.candidates.cliques[self.chosen]

    def answers(self, clique: Clique) -> NDArray[np.float64]:
        """What the model before the round says of a candidate."""
        return self.candidates.split(self.score.estimate)[self.candidates.cliques.index(clique)].ravel()


@dataclass(frozen=True, eq=False)
class Errors:
    """Noisy errors, as they were asked. after: How many measurements came before them."""

    candidates: Marginals
    estimate: NDArray[np.float64]
    share: Fraction
    after: int
    found: NoisyErrors


@dataclass
class Recorder:
    """Passes on to the kernel; keeps what was measured before any selection, residuals of a whole workload among it,
    the noisy errors, the rounds, and what was measured after them.
    """

    inner: PrivateStatistics
    start: list[tuple[Clique, Fraction]] = field(default_factory=list)
    whole: list[tuple[Products, Fraction]] = field(default_factory=list)
    again: list[tuple[Clique, Fraction]] = field(default_factory=list)
    errors: list[Errors] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    _selected: tuple[Any, ...] = ()

    def select(self, candidates: Marginals, score: L1Error, share: Fraction) -> int:
        before = 1 - self.inner.remaining_share
        chosen = self.inner.select(candidates, score, share)
        self._selected = (candidates, score, share, chosen, before)
        return chosen

    def measure_errors(self, candidates: Marginals, estimate: NDArray[np.float64], share: Fraction) -> NoisyErrors:
        assert self._selected == () == tuple(self.rounds), "errors are asked before any selection"
        found = self.inner.measure_errors(candidates, estimate, share)
        self.errors.append(Errors(candidates, estimate.copy(), share, len(self.start), found))
        return found

    def measure(self, queries: Queries | UnitCount, share: Fraction) -> Measurement:
        if isinstance(queries, Products):
            assert self._selected == () == tuple(self.rounds), "a whole workload is measured before any selection"
            self.whole.append((queries, share))
            return self.inner.measure(queries, share)
        assert isinstance(queries, Marginals)
        (clique,) = queries.cliques
        measurement = self.inner.measure(queries, share)
        if self._selected:
            self.rounds.append(Round(*self._selected, share, measurement))
            assert self.rounds[-1].clique == clique
            self._selected = ()
        else:
            (self.again if self.rounds else self.start).append((clique, share))
        return measurement

    def parted(self, batch: tuple[int, int] | None) -> None:
        """Where there were no rounds, the end of the batch tells what came after it."""
        if batch is not None and not self.rounds:
            end = batch[1] - len(self.whole)
            self.start, self.again = self.start[:end], self.start[end:]

    @property
    def shares(self) -> list[Fraction]:
        """Of all calls."""
        rounds = [share for one in self.rounds for share in (one.select, one.measure)]
        measured = [share for _, share in [*self.start, *self.whole, *self.again]]
        return measured + [one.share for one in self.errors] + rounds

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def run(
    mechanism: Aim, budget: Budget, table: TinyTable = TABLE, workload: Workload = WORKLOAD, **options: Any
) -> tuple[Recorder, Release]:
    kernel = Recorder(private_statistics(table, budget, **options))
    release = mechanism.run(kernel, workload, generator=GENERATOR)  # type: ignore[arg-type]
    kernel.parted(release.batch)
    return kernel, release


def model_of(release: Release) -> GraphicalModel:
    assert isinstance(release.model, GraphicalModel)
    return release.model
