"""MWEM for single linear queries: the answers of a workload, or the parities of binary attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import ClassVar, Final, Literal, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.estimation.multiplicative_weights.dense import DenseModel, check_size
from dpcore.estimation.multiplicative_weights.parity_weights import parity_indices, walsh_hadamard
from dpcore.estimation.multiplicative_weights.query_weights import MeasuredQuery, QueryWeights
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import LinearL1Error
from dpcore.mechanisms.api import Plan, Progress, Release, Traits, check_profile, silent
from dpcore.mechanisms.mwem.profile import MWEM_QUERIES, MwemQueriesProfile
from dpcore.mechanisms.mwem.shares import Shares, starting_distribution
from dpcore.mechanisms.shared.pgm_common import modelled, modelled_domain, table_marginals
from dpcore.mechanisms.shared.totals import row_total
from dpcore.queries import Marginals, Product, Products
from dpcore.strategies.fourier_basis import parities_below
from dpcore.uncertainty import of_model
from dpcore.workload import Workload, cell_weights, relative

LARGEST_CELLS: Final = 1 << 20
LARGEST_CANDIDATES: Final = 20_000  # Every round scores each candidate.


@final
@dataclass(frozen=True)
class MwemQueries:
    """Selects the linear query that the model answers worst, measures it, and updates the model towards it.

    The model is one dense table of the attributes that the workload names.

    queries: What is selected from: the "answers" of a workload of products, each of which is a query; or, for a
        workload over binary attributes, the "parities" of its marginals. Parities have values -1 and 1, and all answers
        of the workload are linear combinations of them.
    rounds: T in the paper, the number of selections and measurements, at least 1. The default of 10 is that of the
        paper's experiments with ranges.
    profile: "default", or "published" for Fig. 1 of the paper: one pass over the newest measurement with step 1/2, and
        the average of the rounds.

    Guarantee: the budget's, by adaptive composition of the kernel's selections and measurements.

    Source: Hardt, Ligett and McSherry (2012), Fig. 1. The default profile adds variations of section 2.3.2. Under pure
    DP the selection is permute-and-flip, which is at least as good as the exponential mechanism.
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
    profile: Literal["default", "published"] = "default"

    retired: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            *("distribution", "passes", "newest_only", "polish", "within"),
            *("step", "start", "start_share", "total_share", "select_share"),
        ),
        "it is a constant of a profile; leave it out, or write mechanism.profile: published",
    )

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        candidates = self._candidates(workload)
        shares = Shares.of(terms, self.rounds, self._profile)
        start_queries = self._start_queries(workload)
        candidate = Products(candidates.domain, candidates.terms[:1])
        steps = shares.steps(terms, candidates.domain, self._profile.start, start_queries, candidate)
        matrices = sum(matrix.size for term in candidates.terms for matrix in term.matrices)
        cells = modelled_domain(table_marginals(workload, "mwem_queries")).size()
        memory = (6 * 8 + self.rounds) * cells + 32 * matrices
        return Plan(steps, self.rounds, memory, None, events=shares.events(terms, len(start_queries)))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        profile, candidates = self._profile, self._candidates(workload)
        shares = Shares.of(private.terms, self.rounds, profile)
        private.expect(candidates.marginals)
        total, measured = row_total(private, candidates.domain, shares.total or Fraction(1))
        domain = modelled_domain(table_marginals(workload, "mwem_queries"))
        start = np.ones(domain.size())
        for cells in self._start_queries(workload):
            measured = [*measured, private.measure(cells, shares.start)]
            start = starting_distribution(measured[-1].values)
        weights = QueryWeights(domain, start, total, profile.step)
        average, measured_queries = np.zeros(domain.size()), list[MeasuredQuery]()
        score_weights = self._score_weights(workload, candidates)
        for done in range(self.rounds):
            average += weights.table / self.rounds
            estimate = self._answers(workload, candidates, weights)
            score = LinearL1Error(estimate, score_weights, np.zeros_like(score_weights))
            worst = private.select(candidates, score, shares.select)  # SELECT
            selected = Products(candidates.domain, (candidates.terms[worst],))
            measured = [*measured, private.measure(selected, shares.measure)]  # MEASURE
            value, tolerance = float(measured[-1].values[0]), profile.tolerance * measured[-1].stddev
            measured_queries.append((weights.query(candidates.terms[worst]), value, tolerance))
            followed = measured_queries[-1:] if profile.newest_only else measured_queries
            weights.follow(followed, profile.passes)  # ESTIMATE
            progress(done + 1, self.rounds)
        if profile.distribution == "final":
            weights.follow(measured_queries, profile.final_passes)
        model = DenseModel(domain, weights.table.copy() if profile.distribution == "final" else average)
        return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))

    def _candidates(self, workload: Workload) -> Products:
        """The queries to select from, one per term. Answers of the workload keep their order."""
        self._check()
        domain = modelled_domain(table_marginals(workload, "mwem_queries"))
        check_size(domain, f"the dense table of mechanism mwem_queries over {' x '.join(domain.names)}", LARGEST_CELLS)
        if self.queries == "answers":
            candidates = _single_answers(workload)
        else:
            marginals = table_marginals(workload, "mwem_queries")
            try:
                candidates = parities_below(marginals.domain, marginals.cliques, total=False)
            except ValueError as error:
                raise ConfigError(f"mechanism mwem_queries: {error}, or mechanism.queries answers") from error
        _check_number(len(candidates.terms))
        return candidates

    def _answers(self, workload: Workload, candidates: Products, weights: QueryWeights) -> NDArray[np.float64]:
        """The table's answers of all candidates, by the fast method for each kind of query."""
        if self.queries == "answers":
            return DenseModel(weights.domain, weights.table).answer(workload.queries)
        return walsh_hadamard(weights.table)[parity_indices(weights.domain, [term.clique for term in candidates.terms])]

    def _score_weights(self, workload: Workload, candidates: Products) -> NDArray[np.float64]:
        return relative(cell_weights(workload)) if self.queries == "answers" else np.ones(len(candidates.terms))

    def _start_queries(self, workload: Workload) -> list[Marginals]:
        """What the start measures: nothing, or the counts of all cells of the dense table."""
        if self._profile.start == "uniform":
            return []
        marginals = table_marginals(workload, "mwem_queries")
        return [Marginals(marginals.domain, (modelled(marginals),))]

    @property
    def _profile(self) -> MwemQueriesProfile:
        return MWEM_QUERIES[self.profile]

    def _check(self) -> None:
        check_profile(self.profile, MWEM_QUERIES)
        if self.rounds < 1:
            raise ConfigError(f"mechanism.rounds is {self.rounds}; want rounds >= 1")


def _single_answers(workload: Workload) -> Products:
    """Each answer of a workload of products as a term of its own."""
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
