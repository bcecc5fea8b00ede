"""PrivSyn: many pairs selected by their dependence, merged to cliques, and rows that are updated towards them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import ClassVar, Final, final

import networkx as nx
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.estimation.independent import to_simplex
from dpcore.estimation.reconstruction.consistent_tables import ConsistentTables
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.shared.pgm_common import modelled, rows_of, stddev_of
from dpcore.queries import Marginals
from dpcore.strategies.allocation import split_by_size
from dpcore.workload import Workload
from tests.benchmarks.rivals.dependence import Dependence, attribute_marginals, measure_dependence
from tests.benchmarks.rivals.gum import Target, updated
from tests.benchmarks.rivals.synthetic import release_of_rows

_PROJECTIONS: Final = 20  # Rounds of consistency and non-negativity in turn.
_MAX_LISTED: Final = 100_000  # Cliques of the graph that are tried.
_OVERLAP: Final = 2  # Largest number of attributes that a merged clique shares with those before it, as published.


@final
@dataclass(frozen=True)
class PrivSyn:
    """PrivSyn, with our kernel for every draw.

    1. One-way marginals, then the noisy distance of each pair from independence (InDif).
    2. Pairs are selected greedily: each lowers the sum of the distances of pairs that are not selected and of the
       expected L1 noise of those that are.
    3. The cliques of the graph of selected pairs are merged to larger marginals, the largest clique first, if they have
       few cells. All are measured; the expected L1 noise decides how the budget is split.
    4. The marginals are made consistent and non-negative.
    5. Rows are updated until their marginals are close to the measured ones (GUM).

    How ours differs from the paper: distances are those from noisy one-way marginals (``measure_dependence``), whose
    sensitivity is 1 and not 4; at most ``max_rows`` rows are synthesised, each of which then stands for several.

    max_cells: Largest number of cells of a merged marginal; 5,000 as published.
    iterations: Iterations of GUM over all marginals.
    max_rows: Largest number of synthetic rows.

    Guarantee: the budget's, by adaptive composition of the kernel's measurements.

    Source: Zhang, Wang, Li, Honorio, Backes, He, Chen and Zhang, "PrivSyn: Differentially Private Data Synthesis",
    USENIX Security 2021, sections 4 and 5, with its parts of the budget (10, 10, 80 %).
    """

    traits: ClassVar[Traits] = Traits(
        name="privsyn",
        answers=("marginals",),
        shapes=("table",),
        rows=True,
        mostly_gaussian=True,
        recommended_for="a rival in benchmarks",
    )

    max_cells: int = 5_000
    iterations: int = 60
    max_rows: int = 200_000

    one_way_share: ClassVar[Fraction] = Fraction(10, 100)
    pairs_share: ClassVar[Fraction] = Fraction(10, 100)
    cliques_share: ClassVar[Fraction] = Fraction(80, 100)

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = attribute_marginals(workload, "privsyn")
        attributes = len(modelled(queries))
        steps = (
            Step("measure one-way marginals", float(self.one_way_share), attributes),
            Step("measure distances of pairs", float(self.pairs_share), 1),
            Step("measure the merged marginals", float(self.cliques_share), 1),
        )
        memory = self.max_rows * (8 * len(queries.domain.names) + sum(queries.domain.sizes))
        return Plan(steps, 0, memory, None, ("noisy values decide which marginals are measured",))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        known = measure_dependence(private, workload, "privsyn", self.one_way_share, self.pairs_share)  # MEASURE
        pairs = select_pairs(known, stddev_of(private.terms, known.queries.only(known.pairs[:1]), self.cliques_share))
        cliques = merged(known.queries.domain, pairs, self.max_cells)  # SELECT
        progress(1, 3)
        measured = [*known.measured, *_measure_each(private, known, cliques, self.cliques_share)]  # MEASURE
        progress(2, 3)
        total = rows_of(private.terms, known.queries.domain, measured)
        rows = max(1, min(self.max_rows, round(total)))
        targets = consistent_targets(known.queries.domain, measured, total, rows)
        start = independent_rows(known, rows, generator)
        codes = updated(start, targets, self.iterations, generator)  # ESTIMATE
        progress(3, 3)
        return release_of_rows(workload, codes, total, measured)


def select_pairs(known: Dependence, stddev: float) -> list[Clique]:
    """The pairs to measure: each of them lowers the expected L1 error of all pairs.

    stddev: Standard deviation of the noise of a marginal that gets the whole share of the pairs.

    With shares proportional to cells^(2/3), the expected L1 noise of selected pairs is stddev (2 / pi)^(1/2) times the
    sum of their cells^(2/3), to the power 3/2 (equation 4 of the paper). A pair that is not selected has the error of
    its noisy distance.
    """
    sizes = np.array([known.queries.domain.size(pair) for pair in known.pairs], dtype=np.float64) ** (2 / 3)
    factor, distances = stddev * math.sqrt(2 / math.pi), np.maximum(known.values, 0.0)
    selected = np.zeros(len(sizes), dtype=np.bool_)
    while not selected.all():
        weight = sizes[selected].sum()
        change = factor * ((weight + sizes) ** 1.5 - weight**1.5) - distances
        best = int(np.argmin(np.where(selected, np.inf, change)))
        if change[best] >= 0:
            break
        selected[best] = True
    return [pair for pair, chosen in zip(known.pairs, selected.tolist(), strict=True) if chosen]


def merged(domain: Domain, pairs: Sequence[Clique], max_cells: int) -> list[Clique]:
    """Marginals that contain the pairs: cliques of their graph where these are small, and the pairs in none of them.

    Cliques are tried from the largest down; each shares at most two attributes with all before it.
    """
    listed = islice(nx.enumerate_all_cliques(nx.Graph(pairs)), _MAX_LISTED)  # Small ones first.
    cliques = [domain.canonical(clique) for clique in listed if len(clique) > 2]
    chosen: list[Clique] = []
    covered: set[str] = set()
    for clique in sorted(cliques, key=lambda clique: (-len(clique), domain.axes(clique))):
        if domain.size(clique) <= max_cells and len(covered & set(clique)) <= _OVERLAP:
            chosen.append(clique)
            covered |= set(clique)
    return [*chosen, *(pair for pair in pairs if not any(set(pair) <= set(clique) for clique in chosen))]


def consistent_targets(domain: Domain, measured: Sequence[Measurement], total: float, rows: int) -> list[Target]:
    """The measured marginals, made consistent and non-negative in turn, scaled to a number of rows.

    A marginal inside another one is left out, because it is consistent with it.
    """
    parts = [measurement.queries for measurement in measured]
    queries = Marginals(domain, tuple(part.cliques[0] for part in parts if isinstance(part, Marginals)))
    values = np.concatenate([measurement.values for measurement in measured])
    project = ConsistentTables(queries, [measurement.stddev**-2 for measurement in measured], total)
    boundaries = np.cumsum(queries.sizes)[:-1]
    for _ in range(_PROJECTIONS):
        tables = np.split(project(values), boundaries)
        values = total * np.concatenate([to_simplex(table / total) for table in tables])
    tables = np.split(values * (rows / total), boundaries)
    return [
        Target(domain.axes(clique), domain.shape(clique), table)
        for clique, table in zip(queries.cliques, tables, strict=True)
        if not any(set(clique) < set(larger) for larger in queries.cliques)
    ]


def independent_rows(known: Dependence, rows: int, generator: Generator) -> NDArray[np.int32]:
    """Rows of independent attributes with the one-way marginals; attributes without one are uniform."""
    domain = known.queries.domain
    columns = []
    for name, size in zip(domain.names, domain.sizes, strict=True):
        weights = known.one_way.get(name, np.ones(size))
        columns.append(generator.choice(size, rows, p=weights / weights.sum()))
    return np.stack(columns, axis=1).astype(np.int32)


def _measure_each(
    private: PrivateStatistics, known: Dependence, cliques: Sequence[Clique], share: Fraction
) -> list[Measurement]:
    """One measurement for each clique; the one-way marginals again if no clique was selected."""
    cliques = cliques or [(name,) for name in known.names]
    sizes = np.array([known.queries.domain.size(clique) for clique in cliques])
    shares = split_by_size(sizes, np.ones(len(cliques)), share)
    return [
        private.measure(known.queries.only([clique]), part)  # MEASURE
        for clique, part in zip(cliques, shares, strict=True)
    ]
