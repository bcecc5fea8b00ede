"""DualQuery+PGM: DualQuery's draws are a sample, and a graphical model is fitted to them by maximum likelihood."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal, cast, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.fitting.linear_measurements import LinearMeasurement
from dpcore.estimation.graphical.fitting.measurement_matrix import MeasurementMatrix
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.likelihood.losses import Loss, SquaredLoss
from dpcore.estimation.graphical.likelihood.mirror_descent import AcceleratedMirrorDescent
from dpcore.estimation.graphical.likelihood.sample_likelihood import DualQueryRound, SampleLogLikelihood
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.mechanisms.api import Plan, Progress, Release, Traits, check_profile, silent
from dpcore.mechanisms.query_game.dual_loop import InitialEstimates, OracleName, prior_log_weights
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.mechanisms.query_game.profiles import (
    DUAL_QUERY_PGM_PROFILES,
    RETIRED_FROM_DUAL_QUERY_PGM,
    DualQueryPgmProfile,
)
from dpcore.mechanisms.shared.pgm_common import (
    CELLS_IN_MB,
    COPIES,
    check_model_size,
    check_names_attribute,
    uniform_note,
)
from dpcore.queries import Conjunctions, Marginals
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

MAX_LIKELIHOOD_TERMS: Final = 1 << 25  # Rounds times the queries that records satisfied.


@final
@dataclass(frozen=True)
class DualQueryPgm:
    """Runs DualQuery over the cells of a workload's marginals, and releases the model that makes its draws most likely.

    Formal guarantees: those of ``DualQuery`` without ``alpha``. The fit sees the draws, the log-weights with which they
    were drawn, and the one-way marginals. It does not see the records, which only answer the draws.

    eta: Step size of the multiplicative weights, above 0. By default it is 0.7.
    samples: Number of queries drawn per round. By default it is derived from the budget and the number of units (see
        ``dual_query_schedule``).
    rounds: Maximum number of rounds. By default the budget is the only limit.
    oracle: How best responses are found; see ``DualQuery``.
    free: How a record fills the columns that no sampled query decides. "marginals" follows noisy one-way marginals,
        which also enter the fit; "uniform" gives all values the same frequency, and nothing else is measured.
    max_model_mb: Maximum size of the junction tree in MiB. The tree holds every marginal of the workload.
    profile: "default" adds a prior that attributes are independent, because the likelihood alone follows the sampling
        error of the draws; "published" leaves the prior out.

    Source: McKenna (2022), thesis, section 4.5. Three things differ: the prior of the default profile; the one-way
    marginals, which enter the likelihood where they are measured; and where very many queries are satisfied, the
    likelihood keeps only the last rounds. These are the most informative ones, because the information in a draw of
    round t grows with the square of its slope, eta (t - 1).
    """

    traits: ClassVar[Traits] = Traits(
        name="dual_query_pgm",
        answers=("marginals",),
        shapes=("table",),
        rows=True,
        graphical=True,
        mostly_gaussian=False,
        several_rows=False,
        recommended_for="comparison with the published mechanism",
    )

    eta: float | None = None
    samples: int | None = None
    rounds: int | None = None
    oracle: OracleName = "reductions"
    free: Literal["marginals", "uniform"] = "marginals"
    max_model_mb: float = 80.0
    profile: Literal["default", "published"] = "default"

    retired: ClassVar[Mapping[str, str]] = RETIRED_FROM_DUAL_QUERY_PGM

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries, tree = self._checked(workload)
        plan = self._dual_query.plan(terms, workload)
        satisfied = min(queries.size, plan.rounds * len(queries.cliques))
        likelihood = 16 * min(MAX_LIKELIHOOD_TERMS, plan.rounds * satisfied) + 128 * queries.size
        memory = plan.memory_bytes + likelihood + COPIES * 8 * tree.cells
        notes = (*plan.notes[:1], *plan.notes[3:], *uniform_note(queries))
        return replace(plan, memory_bytes=memory, notes=notes)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        _, tree = self._checked(workload)
        rounds: deque[DualQueryRound] = deque()

        def keep(slope: Fraction, weights: LogWeights, drawn: NDArray[np.int64]) -> None:
            rounds.append(DualQueryRound.of(float(slope), weights.step, weights.done, weights.hits, drawn))
            while len(rounds) > 1 and len(rounds) * rounds[-1].satisfied.size > MAX_LIKELIHOOD_TERMS:
                rounds.popleft()

        _, initial = self._dual_query.play(private, workload, generator, progress, keep)  # SAMPLE, RESPOND
        model = self._fit(workload, tree, rounds, initial)  # ESTIMATE
        return Release(workload, of_model(model.answer(workload.queries)), model, initial.measured)

    @property
    def _dual_query(self) -> DualQuery:
        return DualQuery(
            eta=self.eta,
            samples=self.samples,
            rounds=self.rounds,
            oracle=self.oracle,
            free=self.free,
            profile=cast(Any, "dual_query_pgm"),  # A profile that no config can name, so that it is not in the type.
        )

    @property
    def _constants(self) -> DualQueryPgmProfile:
        return DUAL_QUERY_PGM_PROFILES[self.profile]

    def _fit(
        self, workload: Workload, tree: JunctionTree, rounds: Sequence[DualQueryRound], initial: InitialEstimates
    ) -> GraphicalModel:
        """The model of maximum penalised likelihood; the descent starts at independent attributes."""
        total, queries = float(initial.total), workload.queries
        assert isinstance(queries, Marginals)
        losses: list[Loss] = [SampleLogLikelihood(queries, rounds, total, prior_log_weights(workload))]
        used = {name for clique in queries.cliques for name in clique}
        losses += [
            SquaredLoss(queries.domain, [measurement])
            for measurement in _one_way_measurements(queries.domain, initial.measured, used)
        ]
        oracle = Inference(tree, losses[0].queries.cliques)
        start = _independent_potentials(oracle.queries, initial.probabilities)
        independent = total * oracle.marginals(start)
        losses.append(IndependencePrior(oracle.queries, independent, self._constants.prior_strength))
        loss = SumOfLosses(queries.domain, losses)
        descent = AcceleratedMirrorDescent(iterations=self._constants.iterations)
        fit = descent.estimate(oracle, loss, total, start)
        return GraphicalModel(tree, oracle.conditionals(fit.potentials), total)

    def _checked(self, workload: Workload) -> tuple[Marginals, JunctionTree]:
        """The queries and the structure of the model.

        Raises ConfigError for other queries than marginals, for marginals of no attribute and for invalid settings,
        and DomainTooLargeError if the junction tree is larger than ``max_model_mb``.
        """
        check_profile(self.profile, DUAL_QUERY_PGM_PROFILES)
        check_model_size(self.max_model_mb)
        if self.free not in ("marginals", "uniform"):
            raise ConfigError(f"mechanism.free is {self.free}; want marginals or uniform")
        queries = workload.queries
        if not isinstance(queries, Marginals):
            raise ConfigError(
                "mechanism dual_query_pgm answers marginals of a table; want workload.marginals without prefix and "
                "ranges, or mechanism dual_query for conjunctions and parities"
            )
        check_names_attribute(queries.cliques, "dual_query_pgm")
        tree = JunctionTree.of(queries.domain, queries.cliques)
        if tree.cells > self.max_model_mb * CELLS_IN_MB:
            advice = (
                "choose cliques that overlap less, a smaller workload.marginals.max_cells, which leaves out large "
                "marginals, a larger max_model_mb, or mechanism dual_query, aim or clique_tree"
            )
            max_cells = int(self.max_model_mb * CELLS_IN_MB)
            raise DomainTooLargeError("the model of mechanism dual_query_pgm", tree.cells, max_cells, advice)
        return queries, tree


@final
class IndependencePrior:
    """1/2 sum over cells of strength (mu - e)^2 / e^1.5, with e the counts of independent attributes.

    It is the prior of ``FitSettings`` as a loss of marginals; e is at least one count.

    queries: The marginals.
    expected: e, float64 [queries.size].
    strength: The weight of the prior, at least 0.
    """

    def __init__(self, queries: Marginals, expected: NDArray[np.float64], strength: float) -> None:
        self.queries = queries
        self._expected = expected
        self._precisions = strength * np.maximum(expected, 1.0) ** -1.5
        self.curvature = len(queries.cliques) * strength / 2

    def __call__(self, marginals: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        difference = marginals - self._expected
        weighted = self._precisions * difference
        return 0.5 * float(difference @ weighted), weighted


@final
class SumOfLosses:
    """The sum of several losses, each of which may be of the marginals of only some of the cliques.

    domain: The attributes.
    losses: The losses to add.
    """

    def __init__(self, domain: Domain, losses: Sequence[Loss]) -> None:
        cliques = [(loss.queries.cliques, loss.queries.sizes) for loss in losses]
        tables = [LinearMeasurement(c, np.zeros(size), 1.0) for part in cliques for c, size in zip(*part, strict=True)]
        self._losses = tuple(losses)
        self._tables = MeasurementMatrix(domain, tables, merge=False)
        self._ends = np.cumsum([loss.queries.size for loss in losses])[:-1]
        self.queries = self._tables.queries
        self.curvature = sum(loss.curvature for loss in losses)

    def __call__(self, marginals: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        tables = np.split(self._tables.apply(marginals), self._ends)
        parts = [loss(table) for loss, table in zip(self._losses, tables, strict=True)]
        gradient = self._tables.apply_transpose(np.concatenate([slope for _, slope in parts]))
        return sum(value for value, _ in parts), gradient


def _one_way_measurements(domain: Domain, measured: Sequence[Measurement], used: set[str]) -> list[Measurement]:
    """The measurements of single columns, as measurements of the one-way marginals of the used attributes."""
    ends = np.cumsum(domain.sizes)
    one_way = []
    for measurement in measured:
        if isinstance(measurement.queries, Conjunctions):
            tables = zip(domain.names, np.split(measurement.values, ends[:-1]), strict=True)
            kept = {(name,): table for name, table in tables if name in used}
            values = np.concatenate(list(kept.values()))
            one_way.append(Measurement(Marginals(domain, tuple(kept)), values, measurement.noise, measurement.scale))
    return one_way


def _independent_potentials(queries: Marginals, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-potentials of independent attributes, float64 [queries.size].

    queries: The cliques of the model.
    probabilities: The probability of each value of each attribute, float64 [view.columns].
    """
    domain, seen = queries.domain, set[str]()
    logs = np.log(np.maximum(probabilities, 0.1 / max(10.0, float(probabilities.size))))
    log_of = dict(zip(domain.names, np.split(logs, np.cumsum(domain.sizes)[:-1]), strict=True))
    potentials = []
    for clique in queries.cliques:
        potentials.append(_outer_sum([log_of[name] * (name not in seen) for name in clique]))
        seen.update(clique)
    return np.concatenate(potentials)


def _outer_sum(vectors: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """All sums of one entry per vector, in C order."""
    sums = np.zeros(1)
    for vector in vectors:
        sums = np.add.outer(sums, vector).ravel()
    return sums
