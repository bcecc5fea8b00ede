"""MST: a maximum spanning tree of noisy pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar, Final, final

import numpy as np
from numpy.random import Generator

from dpcore.domain import Clique, Domain
from dpcore.estimation.graphical.fitting.fit import GraphicalFit, fit_model
from dpcore.kernel.events import Event
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import L1Error
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.shared.pgm_common import (
    CELLS_IN_MB,
    COPIES,
    check_model_size,
    check_shares,
    modelled,
    rows_of,
    stddev_of,
    table_marginals,
    uniform_note,
)
from dpcore.queries import Marginals
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

_LARGEST_CANDIDATES: Final = 1 << 26  # Cells of all pairs that are compared.


@final
@dataclass(frozen=True)
class Mst:
    """Measures all one-way marginals, then the pairs of a tree that joins the attributes that depend most.

    The tree grows as Kruskal's: in each round the exponential mechanism selects, among the pairs that join two parts
    of it, one that the independent model of the one-way marginals answers worst in L1. Then every selected pair is
    measured, and one graphical model is fitted to everything. Of the workload it only takes the attributes.

    one_way_share: Part of the budget, in (0, 1), that measures the one-way marginals, the same for each; a third as
        published.
    select_share: Part of the budget, in (0, 1), that selects, the same for each round; a third as published. It is 0
        where the pairs form one tree only. What remains measures the selected pairs.
    max_model_mb: Largest size of the model's junction tree in MiB. A pair with more cells than an equal part of it is
        no candidate, so that the model may fall into several trees.

    Source: McKenna, Miklau and Sheldon, "Winning the NIST Contest" (2021), section 4, with thirds of the budget as
    there. Rare values are not merged: the fit, which leans towards independent attributes, takes the place of that.
    """

    traits: ClassVar[Traits] = Traits(
        name="mst",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        mostly_gaussian=True,
        recommended_for="synthetic rows from pairs of attributes, quickly",
    )

    one_way_share: float = 1 / 3
    select_share: float = 1 / 3
    max_model_mb: float = 80.0

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        chosen = self._design(terms, workload)
        steps = [Step(*chosen.one_way.step("measure one-way marginals", terms))]
        if chosen.select.calls:
            steps.append(Step("select pairs", float(chosen.select.share), chosen.select.calls))
        if chosen.measure.calls:
            steps.append(Step(*chosen.measure.step("measure pairs", terms)))
        candidates = sum(map(chosen.queries.domain.size, chosen.pairs))
        memory = 32 * candidates + COPIES * 8 * chosen.largest_model
        notes = ("every pair counts as much, whatever the workload's weights", *chosen.notes)
        return Plan(tuple(steps), chosen.select.calls, memory, None, notes, chosen.events(terms))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        chosen = self._design(private.terms, workload)
        private.expect(chosen.queries.only([*chosen.one_way.first, *chosen.pairs]))
        measured = [
            private.measure(chosen.queries.only([clique]), chosen.one_way.each)  # MEASURE
            for clique in chosen.one_way.first
        ]
        independent = _fitted(private.terms, chosen.queries.domain, measured)
        steps = chosen.measure.calls + 1
        tree = _selected(private, chosen, independent) if chosen.select.calls else chosen.pairs  # SELECT
        for done, pair in enumerate(tree):
            progress(done + 1, steps)
            measured.append(private.measure(chosen.queries.only([pair]), chosen.measure.each))  # MEASURE
        model = _fitted(private.terms, chosen.queries.domain, measured, independent).model  # ESTIMATE
        progress(steps, steps)
        return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))

    def _design(self, terms: PrivacyTerms, workload: Workload) -> _Design:
        """What is asked of the kernel, from public facts alone: the same for a plan and for its run."""
        check_model_size(self.max_model_mb)
        check_shares([("one_way_share", self.one_way_share), ("select_share", self.select_share)])
        queries = table_marginals(workload, "mst")
        names = modelled(queries)
        everything = list(combinations(names, 2))
        pairs = _small(queries.domain, everything, int(self.max_model_mb * CELLS_IN_MB) // max(1, len(names) - 1))
        rounds = len(list(_kruskal(names, pairs)))
        first = Fraction(self.one_way_share) if rounds else Fraction(1)
        select = Fraction(self.select_share) if len(pairs) > rounds else Fraction(0)
        left = len(everything) - len(pairs)
        notes = (f"{left} of {len(everything)} pairs have too many cells to be candidates",) if left else ()
        return _Design(
            queries,
            pairs,
            _Part(queries, first, len(names), tuple((name,) for name in names)),
            _Part(queries, select, rounds if select else 0),
            _Part(queries, 1 - first - select, rounds, pairs[:1]),
            (*notes, *uniform_note(queries)),
        )


@dataclass(frozen=True)
class _Part:
    """Calls of one kind that cost the same. first: Cliques that it is about, or one that stands for them."""

    queries: Marginals
    share: Fraction
    calls: int
    first: tuple[Clique, ...] = ()

    @property
    def each(self) -> Fraction:
        return self.share / self.calls

    def step(self, label: str, terms: PrivacyTerms) -> tuple[str, float, int, float]:
        """Fields of a Step that measures."""
        return label, float(self.share), self.calls, stddev_of(terms, self.queries.only(self.first[:1]), self.each)


@dataclass(frozen=True)
class _Design:
    """pairs: The candidates. The other parts are those of the budget."""

    queries: Marginals
    pairs: tuple[Clique, ...]
    one_way: _Part
    select: _Part
    measure: _Part
    notes: tuple[str, ...]

    @property
    def largest_model(self) -> int:
        """Cells of the largest tree of candidates, at most."""
        sizes = sorted(map(self.queries.domain.size, self.pairs), reverse=True)
        alone = map(self.queries.domain.size, self.one_way.first)
        return sum(sizes[: self.measure.calls]) + sum(alone)

    def events(self, terms: PrivacyTerms) -> tuple[Event, ...]:
        """All kernel calls; only which pairs are measured depends on answers."""
        events = [terms.measured(part.each, part.calls) for part in (self.one_way, self.measure) if part.calls]
        return (*events, terms.selected(self.select.each, self.select.calls)) if self.select.calls else tuple(events)


def _selected(private: PrivateStatistics, chosen: _Design, independent: GraphicalFit) -> list[Clique]:
    """A spanning tree: each round selects among the pairs that join two parts."""
    estimates = dict(zip(chosen.pairs, independent.calibrated.marginals(chosen.pairs), strict=True))
    rounds = _Forest(chosen.one_way.first)
    while candidates := rounds.joining(chosen.pairs):
        estimate = independent.total * np.concatenate([estimates[pair].ravel() for pair in candidates])
        score = L1Error(estimate, np.ones(len(candidates)), np.zeros(len(candidates)))
        rounds.join(candidates[private.select(chosen.queries.only(candidates), score, chosen.select.each)])
    return rounds.pairs


class _Forest:
    """Attributes in parts that pairs join."""

    def __init__(self, alone: Sequence[Clique]) -> None:
        self._part = {name: index for index, (name,) in enumerate(alone)}
        self.pairs: list[Clique] = []

    def joining(self, pairs: Sequence[Clique]) -> list[Clique]:
        return [pair for pair in pairs if self._part[pair[0]] != self._part[pair[1]]]

    def join(self, pair: Clique) -> None:
        kept, lost = (self._part[name] for name in pair)
        self._part = {name: kept if part == lost else part for name, part in self._part.items()}
        self.pairs.append(pair)


def _kruskal(names: Sequence[str], pairs: Sequence[Clique]) -> Iterator[Clique]:
    """A spanning forest: every one of the same pairs has as many edges."""
    forest = _Forest([(name,) for name in names])
    while joining := forest.joining(pairs):
        forest.join(joining[0])
        yield joining[0]


def _small(domain: Domain, pairs: Sequence[Clique], largest: int) -> tuple[Clique, ...]:
    """The pairs of at most so many cells, small ones first as long as all of them together fit the memory; in order."""
    sizes = np.array([domain.size(pair) for pair in pairs], dtype=np.float64)
    order = np.argsort(sizes, kind="stable")
    fits = (sizes[order] <= largest) & (np.cumsum(sizes[order]) <= _LARGEST_CANDIDATES)
    return tuple(pairs[index] for index in sorted(order[fits].tolist()))


def _fitted(
    terms: PrivacyTerms, domain: Domain, measured: list[Measurement], warm: GraphicalFit | None = None
) -> GraphicalFit:
    return fit_model(domain, measured, rows_of(terms, domain, measured), warm=warm)
