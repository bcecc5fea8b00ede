"""PrivMRF: a Markov random field of the marginals that fit a junction tree of dependent attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice
from typing import ClassVar, Final, final

import numpy as np
from numpy.random import Generator

from dpcore.domain import Clique
from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.graphical.structure.triangulation import Triangulation
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, mean_absolute_part
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.shared.pgm_common import (
    CELLS_IN_MB,
    COPIES,
    LAST_WORK,
    ROUND_WORK,
    check_model_size,
    modelled,
    rows_of,
    stddev_of,
)
from dpcore.uncertainty import of_model
from dpcore.workload import Workload
from tests.benchmarks.rivals.dependence import Dependence, attribute_marginals, measure_dependence

_MAX_LISTED: Final = 20_000  # Candidates that are listed, from which those of a round are drawn.
_ROUND_FIT: Final = FitSettings(work=ROUND_WORK)
_ROUNDING: Final = Fraction(1, 1000)  # A smaller share may remain because shares are rounded down.


@final
@dataclass(frozen=True)
class PrivMrf:
    """PrivMRF, with our kernel for every draw and our fit in place of 3,000 steps of mirror descent.

    1. Noisy distances of all pairs from independence give a graph: the most dependent pair is an edge first, and a pair
       is left out if the junction tree would grow beyond its limit.
    2. A Bayesian network inside the nodes of the tree gives the first marginals, one for each attribute: the attribute
       with the parents on which it depends most. They are measured with equal noise.
    3. In each round a random sample of the marginals inside a node is compared with the model, in one noisy call; those
       with the largest L1 errors are measured, and the model is fitted again. Where candidates run out, the
       rest of the budget measures the first marginals again.

    A marginal is useful if the mean count of its cells is at least ``theta`` times the noise. Marginals that are not
    useful are never measured.

    How ours differs from the paper: distances are those from noisy one-way marginals (``measure_dependence``), which
    take 10 % of the budget from the other marginals; attribute hierarchies are left out; the network of the first
    marginals is greedy; the tree is limited in the sum of its nodes' cells, as our mechanisms' trees are, and to less
    than on the authors' GPU.

    max_model_mb: Maximum size of the junction tree, in MiB.
    theta: Smallest mean count of a useful marginal, in mean absolute values of its noise; 6 as published.
    max_attributes: Largest number of attributes of a marginal; 6 as published for Adult.
    sampled: Number of marginals that one round compares; 400 as published.

    Guarantee: the budget's, by adaptive composition of the kernel's measurements.

    Source: Cai, Lei, Wei and Xiao, "Data Synthesis via Differentially Private Markov Random Fields", VLDB 14(11), 2021;
    parts of the budget (10 % distances, 10 % errors, 80 % marginals with equal noise), number of rounds (half of that
    of attributes, at most 8) and of marginals that they add (.8 of that of attributes) as in the authors' defaults.
    """

    traits: ClassVar[Traits] = Traits(
        name="privmrf",
        answers=("marginals",),
        shapes=("table",),
        rows=True,
        graphical=True,
        mostly_gaussian=True,
        recommended_for="a rival in benchmarks",
    )

    max_model_mb: float = 8.0
    theta: float = 6.0
    max_attributes: int = 6
    sampled: int = 400

    one_way_share: ClassVar[Fraction] = Fraction(10, 100)
    pairs_share: ClassVar[Fraction] = Fraction(10, 100)
    errors_share: ClassVar[Fraction] = Fraction(10, 100)
    marginals_share: ClassVar[Fraction] = Fraction(70, 100)

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        check_model_size(self.max_model_mb)
        attributes = len(modelled(attribute_marginals(workload, "privmrf")))
        rounds, marginals = _rounds(attributes), attributes + _added(attributes)
        steps = (
            Step("measure one-way marginals", float(self.one_way_share), attributes),
            Step("measure distances of pairs", float(self.pairs_share), 1),
            Step("measure errors of marginals", float(self.errors_share), rounds),
            Step("measure marginals", float(self.marginals_share), marginals),
        )
        memory = int(COPIES * 8 * self.max_model_mb * CELLS_IN_MB)
        return Plan(steps, rounds, memory, None, ("noisy values decide which marginals are measured",))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        known = measure_dependence(private, workload, "privmrf", self.one_way_share, self.pairs_share)  # MEASURE
        structure = _Structure(self._tree(known), known, self._max_cells(private.terms, known), self.max_attributes)
        first = structure.bayesian_network() or [(name,) for name in known.names]
        candidates = [clique for clique in structure.marginals() if clique not in first]
        added = min(len(candidates), _added(len(known.names)))
        share, rounds = self.marginals_share / (len(first) + added), _rounds(len(known.names))
        measured = [*known.measured, *_measure_each(private, known, first, share)]  # MEASURE
        fit = _fit(private.terms, known, measured, None)  # ESTIMATE
        for number in range(rounds):
            progress(number, rounds)
            count = added * (number + 1) // rounds - added * number // rounds
            worst = self._worst(private, known, fit, candidates, count, self.errors_share / rounds, generator)  # SELECT
            if worst:
                candidates = [clique for clique in candidates if clique not in worst]
                measured += _measure_each(private, known, worst, share)  # MEASURE
                fit = _fit(private.terms, known, measured, fit)  # ESTIMATE
        if private.remaining_share > _ROUNDING:
            measured += _measure_each(private, known, first, private.remaining_share / len(first))  # MEASURE
        fit = _fit(private.terms, known, measured, fit, FitSettings(work=LAST_WORK))  # ESTIMATE
        progress(rounds, rounds)
        return Release(workload, of_model(fit.model.answer(workload.queries)), fit.model, tuple(measured))

    def _max_cells(self, terms: PrivacyTerms, known: Dependence) -> float:
        """The largest number of cells of a useful marginal."""
        attributes = len(known.names)
        share = self.marginals_share / (attributes + _added(attributes))
        noise = stddev_of(terms, known.queries.only([known.names[:1]]), share) * mean_absolute_part(terms.noise)
        return known.total / (self.theta * noise)

    def _tree(self, known: Dependence) -> JunctionTree:
        """The tree of the dependent pairs, the most dependent first, as far as its size allows."""
        structure, max_cells = Triangulation.of(known.queries.domain, []), self.max_model_mb * CELLS_IN_MB
        edges = []
        for pair, _ in sorted(known.beyond_noise.items(), key=lambda item: -item[1]):
            if structure.cells_with(pair) <= max_cells:
                structure = structure.with_clique(pair)
                edges.append(pair)
        return JunctionTree.of(known.queries.domain, edges)

    def _worst(
        self,
        private: PrivateStatistics,
        known: Dependence,
        fit: GraphicalFit,
        candidates: Sequence[Clique],
        count: int,
        share: Fraction,
        generator: Generator,
    ) -> list[Clique]:
        """The ``count`` of a random sample of the candidates whose noisy errors are largest."""
        size = min(self.sampled, len(candidates))
        if not count:
            return []
        sample = [candidates[index] for index in np.sort(generator.choice(len(candidates), size, replace=False))]
        estimate = fit.total * fit.calibrated.vector(sample)
        errors = private.measure_errors(known.queries.only(sample), estimate, share)  # MEASURE
        return [sample[index] for index in np.argsort(-errors.values, kind="stable")[:count]]


def _rounds(attributes: int) -> int:
    return max(1, min(attributes // 2, 8))


def _added(attributes: int) -> int:
    """Number of marginals that all rounds together add."""
    return attributes * 8 // 10


@final
@dataclass(frozen=True, eq=False)
class _Structure:
    """The useful marginals inside the nodes of a junction tree.

    max_cells, max_attributes: The largest numbers of cells and attributes of a useful marginal.
    """

    tree: JunctionTree
    known: Dependence
    max_cells: float
    max_attributes: int

    def marginals(self) -> list[Clique]:
        """The useful marginals of two attributes or more, small ones first."""
        return list(islice(self._subsets(), _MAX_LISTED))

    def bayesian_network(self) -> list[Clique]:
        """For each attribute a marginal with its parents among the attributes before it, the most dependent first.

        An attribute without a useful parent has no marginal, because its one-way marginal is known already.
        """
        weights = _symmetric(self.known.beyond_noise)
        remaining = list(self.known.names)
        placed: list[str] = []
        marginals: list[Clique] = []
        while remaining:
            parents = {name: self._parents(name, placed, weights) for name in remaining}
            name = max(
                remaining,
                key=lambda name: (sum(weights[name, parent] for parent in parents[name]), _total(name, weights)),
            )
            if parents[name]:
                marginals.append(self.tree.domain.canonical([name, *parents[name]]))
            remaining.remove(name)
            placed.append(name)
        return list(dict.fromkeys(marginals))

    def _parents(self, name: str, placed: Sequence[str], weights: Mapping[tuple[str, str], float]) -> list[str]:
        """Parents of an attribute, the most dependent first, as long as the marginal is useful and inside a node."""
        parents: list[str] = []
        linked = [parent for parent in placed if (name, parent) in weights]
        for parent in sorted(linked, key=lambda parent: -weights[name, parent]):
            if self._is_useful([name, *parents, parent]) and self.tree.holds([name, *parents, parent]):
                parents.append(parent)
        return parents

    def _subsets(self) -> Iterator[Clique]:
        domain = self.tree.domain
        for order in range(2, self.max_attributes + 1):
            nodes = (domain.canonical(node) for node in self.tree.nodes)
            subsets = dict.fromkeys(
                subset for node in nodes for subset in islice(combinations(node, order), _MAX_LISTED)
            )
            yield from (subset for subset in subsets if self._is_useful(subset))

    def _is_useful(self, clique: Sequence[str]) -> bool:
        return len(clique) <= self.max_attributes and self.tree.domain.size(clique) <= self.max_cells


def _symmetric(pairs: Mapping[Clique, float]) -> dict[tuple[str, str], float]:
    return {ends: value for (first, second), value in pairs.items() for ends in ((first, second), (second, first))}


def _total(name: str, weights: Mapping[tuple[str, str], float]) -> float:
    return sum(value for (first, _), value in weights.items() if first == name)


def _measure_each(
    private: PrivateStatistics, known: Dependence, cliques: Sequence[Clique], share: Fraction
) -> list[Measurement]:
    """One measurement for each clique, each for the same share."""
    return [private.measure(known.queries.only([clique]), share) for clique in cliques]


def _fit(
    terms: PrivacyTerms,
    known: Dependence,
    measured: Sequence[Measurement],
    warm: GraphicalFit | None,
    settings: FitSettings = _ROUND_FIT,
) -> GraphicalFit:
    domain = known.queries.domain
    return fit_model(domain, measured, rows_of(terms, domain, measured), settings, warm)
