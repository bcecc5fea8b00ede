"""MWEM over single linear queries: ranges, or the parities of binary attributes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import ClassVar, Final, Literal, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.errors import ConfigError
from dpcore.estimation.multiplicative_weights.dense import DenseModel, check_size
from dpcore.estimation.multiplicative_weights.parity_weights import parity_indices, walsh_hadamard
from dpcore.estimation.multiplicative_weights.query_weights import MeasuredQuery, QueryWeights
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import LinearL1Error
from dpcore.measurement import noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.mwem.shares import Shares, check_split, start_chances
from dpcore.mechanisms.shared.pgm_common import modelled, table_marginals
from dpcore.mechanisms.shared.totals import row_total
from dpcore.queries import Marginals, Product, Products
from dpcore.strategies.fourier_basis import parities_below
from dpcore.uncertainty import of_model
from dpcore.workload import Workload, cell_weights, relative

LARGEST_CELLS: Final = 1 << 20
LARGEST_CANDIDATES: Final = 20_000  # Single queries; a round looks at each of them.
_LARGEST_STEP: Final = {"answers": 4.0, "parities": 1.0}  # A longer one may overshoot.


@final
@dataclass(frozen=True)
class MwemQueries:
    """Selects the worst answered linear query, measures it alone, and lets a dense table follow the measurements.

    queries: What is selected from: the "answers" of a workload of products, each a query; or for a workload over binary
        attributes the "parities" of its marginals, with values -1 and 1, in which all its answers are linear.
    rounds: T, selections and measurements.
    distribution: "final" or, as in Fig. 1, the "average" of the rounds.
    passes: How often a round follows all measurements so far; 1 pass over only the newest is Fig. 1.
    newest_only: A round follows the newest measurement alone, as in Fig. 1.
    polish: Passes over all measurements after the last round.
    within: A pass leaves a measurement alone that the table agrees with within so many standard deviations of its noise
        ("within error", section 2.3.2), and takes one that no table of n rows has as the nearest that some table has; 0
        follows each as it is (Fig. 1).
    step: Length of a multiplicative step; 1/2 in Fig. 1. At most 4 for answers and 1 for parities, which cannot
        overshoot the measured value.
    start: Where the table starts: "uniform" (Fig. 1) or noisy counts of all "cells" (section 2.3.2).
    start_share: Share of the budget for those noisy counts.
    total_share: Share for the number of rows where it is private.
    select_share: Part of each round that selects; the rest measures.

    Source: Hardt, Ligett and McSherry (2012), Fig. 1, with the three variations of section 2.3.2. Under pure DP the
    selection is permute-and-flip, which is at least as good as the exponential mechanism.
    """

    traits: ClassVar[Traits] = Traits(
        name="mwem_queries",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        mostly_gaussian=False,
        recommended_for="comparison with the published mechanism on prefixes and ranges",
    )

    queries: Literal["answers", "parities"] = "answers"
    rounds: int = 10
    distribution: Literal["final", "average"] = "final"
    passes: int = 10
    newest_only: bool = False
    polish: int = 100
    within: float = 1.0
    step: float = 1.0
    start: Literal["uniform", "cells"] = "uniform"
    start_share: float = 0.5
    total_share: float = 0.02
    select_share: float = 0.5

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        candidates, shares = self._candidates(workload), self._shares(terms)
        first_term = Products(candidates.domain, candidates.terms[:1])
        stddev = noise_stddev(terms.noise, terms.measure_scale(first_term, shares.measure))
        steps = [
            Step("select", float(shares.select * self.rounds), self.rounds),
            Step("measure", float(shares.measure * self.rounds), self.rounds, stddev),
        ]
        if shares.start:
            scale = terms.measure_scale(_cells(workload), shares.start)
            steps.insert(
                0, Step("measure cells to start from", float(shares.start), 1, noise_stddev(terms.noise, scale))
            )
        if shares.total:
            scale = terms.measure_scale(Marginals(candidates.domain, ((),)), shares.total)
            steps.insert(0, Step("measure rows", float(shares.total), 1, noise_stddev(terms.noise, scale)))
        memory = (6 * 8 + self.rounds) * _domain(workload).size() + 32 * sum(
            m.size for term in candidates.terms for m in term.matrices
        )
        return Plan(
            tuple(steps), self.rounds, memory, None, events=shares.events(terms, self.rounds, int(bool(shares.start)))
        )

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        candidates, shares = self._candidates(workload), self._shares(private.terms)
        private.expect(candidates.marginals)
        total, measured = row_total(private, candidates.domain, shares.total or Fraction(1))
        domain = _domain(workload)
        start = np.ones(domain.size())
        if shares.start:
            measured = [*measured, private.measure(_cells(workload), shares.start)]
            start = start_chances(measured[-1].values)
        weights = QueryWeights(domain, start, total, self.step)
        average, followed = np.zeros(domain.size()), list[MeasuredQuery]()
        score_weights = self._score_weights(workload, candidates)
        for done in range(self.rounds):
            average += weights.table / self.rounds
            score = LinearL1Error(
                self._answers(workload, candidates, weights), score_weights, np.zeros_like(score_weights)
            )
            worst = private.select(candidates, score, shares.select)  # SELECT
            chosen = Products(candidates.domain, (candidates.terms[worst],))
            measured = [*measured, private.measure(chosen, shares.measure)]  # MEASURE
            near = self.within * measured[-1].stddev
            followed.append((weights.query(candidates.terms[worst]), float(measured[-1].values[0]), near))
            weights.follow(followed[-1:] if self.newest_only else followed, self.passes)  # ESTIMATE
            progress(done + 1, self.rounds)
        if self.distribution == "final":
            weights.follow(followed, self.polish)
        model = DenseModel(domain, weights.table.copy() if self.distribution == "final" else average)
        return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))

    def _candidates(self, workload: Workload) -> Products:
        """Terms of one answer each, in the order of the workload's answers."""
        self._check()
        domain = _domain(workload)
        check_size(domain, f"the dense table of mechanism mwem_queries over {' x '.join(domain.names)}", LARGEST_CELLS)
        if self.queries == "answers":
            workload_queries = _single(workload)
        else:
            marginals = table_marginals(workload, "mwem_queries")
            try:
                workload_queries = parities_below(marginals.domain, marginals.cliques, total=False)
            except ValueError as error:
                raise ConfigError(f"mechanism mwem_queries: {error}, or mechanism.queries answers") from error
        _check_number(len(workload_queries.terms))
        return workload_queries

    def _answers(self, workload: Workload, candidates: Products, weights: QueryWeights) -> NDArray[np.float64]:
        """Of all candidates, each kind by its fast way."""
        if self.queries == "answers":
            return DenseModel(weights.domain, weights.table).answer(workload.queries)
        return walsh_hadamard(weights.table)[parity_indices(weights.domain, [term.clique for term in candidates.terms])]

    def _score_weights(self, workload: Workload, candidates: Products) -> NDArray[np.float64]:
        return relative(cell_weights(workload)) if self.queries == "answers" else np.ones(len(candidates.terms))

    def _shares(self, terms: PrivacyTerms) -> Shares:
        start = 0.0 if self.start == "uniform" else self.start_share
        return Shares.of(terms, self.rounds, self.total_share, start, self.select_share)

    def _check(self) -> None:
        if self.rounds < 1 or self.passes < 1 or self.polish < 0:
            given = f"mechanism.rounds {self.rounds}, passes {self.passes}, polish {self.polish}"
            raise ConfigError(f"{given}; want rounds and passes >= 1, polish >= 0")
        if not 0 <= self.within < float("inf"):
            raise ConfigError(f"mechanism.within is {self.within}; want 0 <= within < inf")
        if not 0 < self.step <= _LARGEST_STEP[self.queries]:
            wanted = f"0 < step <= {_LARGEST_STEP[self.queries]:g} for queries {self.queries}"
            raise ConfigError(f"mechanism.step is {self.step}; want {wanted}")
        check_split(self.start_share, self.total_share, self.select_share)


def _single(workload: Workload) -> Products:
    """Every answer of a workload of products as a term of its own."""
    queries = workload.queries
    if not isinstance(queries, Products):
        raise ConfigError(
            "mechanism mwem_queries selects from prefixes and ranges of a table, one by one; want workload.marginals "
            "with prefix or ranges, workload.products, mechanism.queries parities, or mechanism mwem for whole "
            "marginals"
        )
    _check_number(queries.size)
    if not all(matrix.any(axis=1).all() for term in queries.terms for matrix in term.matrices):
        raise ConfigError("mechanism mwem_queries: a query of the workload asks for no value; want one or more")
    terms = (
        Product(term.clique, tuple(matrix[row : row + 1] for matrix, row in zip(term.matrices, rows, strict=True)))
        for term in queries.terms
        for rows in product(*map(range, term.shape))
    )
    return Products(queries.domain, tuple(terms))


def _check_number(candidates: int) -> None:
    if candidates > LARGEST_CANDIDATES:
        raise ConfigError(
            f"mechanism mwem_queries would select from {candidates:,} queries; want at most {LARGEST_CANDIDATES:,}: "
            "fewer ranges, or mechanism hdmm or aim, which measure many queries at once"
        )


def _domain(workload: Workload) -> Domain:
    """The attributes that the workload names."""
    marginals = table_marginals(workload, "mwem_queries")
    return marginals.domain.project(modelled(marginals))


def _cells(workload: Workload) -> Marginals:
    """The counts of all cells of the dense table."""
    marginals = table_marginals(workload, "mwem_queries")
    return Marginals(marginals.domain, (modelled(marginals),))
