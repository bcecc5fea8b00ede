"""DualQuery+PGM: the draws of DualQuery as a sample whose likelihood a graphical model maximises."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Final, Literal, final

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
from dpcore.mechanisms.api import Plan, Progress, Release, Traits, silent
from dpcore.mechanisms.query_game.dual_loop import InitialEstimates, OracleName, log_weights
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB, COPIES, check_model_size, uniform_note
from dpcore.queries import Conjunctions, Marginals
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

LARGEST_TERMS: Final = 1 << 25  # Of a likelihood: rounds times the queries that records satisfied.


@final
@dataclass(frozen=True)
class DualQueryPgm:
    """Runs DualQuery over the cells of a workload's marginals; the model is the one that makes its draws likeliest.

    Formal guarantees and the settings up to ``node_limit`` are those of ``DualQuery``. The draws, the tilts that they
    were drawn with and the one-way marginals are all that the fit sees; the records only play.

    max_model_mb: Largest junction tree, in MiB; it holds every marginal of the workload.
    strength: Weight of the prior that attributes are independent: the likelihood alone follows chance in the draws.
    iterations: Most calls of the marginal oracle; a fit ends before where 50 of them gain next to nothing.

    Source: thesis of McKenna (2022), section 4.5. Beyond it there are the prior, noisy one-way marginals in the
    likelihood where they are measured, and where very many queries are satisfied only the last rounds, which say most:
    the information in a draw of round t grows with the square of its slope, eta (t - 1).
    """

    traits: ClassVar[Traits] = Traits(
        name="dual_query_pgm",
        answers=("marginals",),
        shapes=("table",),
        rows=True,
        mostly_gaussian=False,
        several_rows=False,
        recommended_for="comparison with the published mechanism",
    )

    eta: float | None = None
    samples: int | None = None
    rounds: int | None = None
    oracle: OracleName = "reductions"
    free: Literal["marginals", "uniform"] = "marginals"
    free_share: float = 0.2
    total_share: float = 0.05
    node_limit: int = 0
    max_model_mb: float = 80.0
    strength: float = 0.2
    iterations: int = 1000

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries, tree = self._model(workload)
        plan = self._dual_query.plan(terms, workload)
        satisfied = min(queries.size, plan.rounds * len(queries.cliques))
        kept = 16 * min(LARGEST_TERMS, plan.rounds * satisfied) + 128 * queries.size
        memory = plan.memory_bytes + kept + COPIES * 8 * tree.cells
        notes = (*plan.notes[:1], *plan.notes[3:], *uniform_note(queries))
        return replace(plan, memory_bytes=memory, notes=notes)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        _, tree = self._model(workload)
        rounds: deque[DualQueryRound] = deque()

        def keep(slope: Fraction, tilt: LogWeights, drawn: NDArray[np.int64]) -> None:
            rounds.append(DualQueryRound.of(float(slope), tilt.step, tilt.done, tilt.hits, drawn))
            while len(rounds) > 1 and len(rounds) * rounds[-1].satisfied.size > LARGEST_TERMS:
                rounds.popleft()

        _, opened = self._dual_query.play(private, workload, generator, progress, keep)
        model = self._fitted(workload, tree, rounds, opened)  # ESTIMATE
        return Release(workload, of_model(model.answer(workload.queries)), model, opened.measured)

    @property
    def _dual_query(self) -> DualQuery:
        return DualQuery(
            eta=self.eta,
            samples=self.samples,
            rounds=self.rounds,
            oracle=self.oracle,
            free=self.free,
            free_share=self.free_share,
            total_share=self.total_share,
            node_limit=self.node_limit,
        )

    def _fitted(
        self, workload: Workload, tree: JunctionTree, rounds: Sequence[DualQueryRound], opened: InitialEstimates
    ) -> GraphicalModel:
        total, queries = float(opened.total), workload.queries
        assert isinstance(queries, Marginals)
        losses: list[Loss] = [SampleLogLikelihood(queries, rounds, total, log_weights(workload))]
        used = {name for clique in queries.cliques for name in clique}
        losses += [
            SquaredLoss(queries.domain, [measurement])
            for measurement in _one_way(queries.domain, opened.measured, used)
        ]
        oracle = Inference(tree, losses[0].queries.cliques)
        start = _independent(oracle.queries, opened.probabilities)
        losses.append(IndependencePrior(oracle.queries, total * oracle.marginals(start), self.strength))
        loss = SumOfLosses(queries.domain, losses)
        found = AcceleratedMirrorDescent(iterations=self.iterations).estimate(oracle, loss, total, start)
        return GraphicalModel(tree, oracle.conditionals(found.potentials), total)

    def _model(self, workload: Workload) -> tuple[Marginals, JunctionTree]:
        """The queries and the structure. Raises ConfigError for others, DomainTooLargeError where it is too large."""
        check_model_size(self.max_model_mb)
        if self.iterations < 1 or not self.strength > 0:
            given = f"mechanism.iterations {self.iterations}, strength {self.strength:g}"
            raise ConfigError(f"{given}; want iterations >= 1, strength > 0")
        if self.free not in ("marginals", "uniform"):
            raise ConfigError(f"mechanism.free is {self.free}; want marginals or uniform")
        queries = workload.queries
        if not isinstance(queries, Marginals):
            raise ConfigError(
                "mechanism dual_query_pgm answers marginals of a table; want workload.marginals without prefix and "
                "ranges, or mechanism dual_query for conjunctions and parities"
            )
        tree = JunctionTree.of(queries.domain, queries.cliques)
        if tree.cells > self.max_model_mb * CELLS_IN_MB:
            advice = (
                "choose cliques that overlap less, a larger max_model_mb, or mechanism dual_query, aim or clique_tree"
            )
            largest = int(self.max_model_mb * CELLS_IN_MB)
            raise DomainTooLargeError("the model of mechanism dual_query_pgm", tree.cells, largest, advice)
        return queries, tree


@final
class IndependencePrior:
    """1/2 sum over cells of strength (mu - e)^2 / e^1.5, with e the counts of independent attributes.

    The prior of ``FitSettings`` as a loss of marginals; no e is below one count.
    """

    def __init__(self, queries: Marginals, expected: NDArray[np.float64], strength: float) -> None:
        self.queries = queries
        self._expected = expected
        self._precisions = strength * np.maximum(expected, 1.0) ** -1.5
        self.curvature = len(queries.cliques) * strength / 2

    def __call__(self, marginals: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        gap = marginals - self._expected
        weighted = self._precisions * gap
        return 0.5 * float(gap @ weighted), weighted


@final
class SumOfLosses:
    """The sum of losses, each of the marginals of some of the cliques."""

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
        found = [loss(table) for loss, table in zip(self._losses, tables, strict=True)]
        gradient = self._tables.apply_transpose(np.concatenate([slope for _, slope in found]))
        return sum(value for value, _ in found), gradient


def _one_way(domain: Domain, measured: Sequence[Measurement], used: set[str]) -> list[Measurement]:
    """What was measured of single columns, as marginals of the attributes that are used."""
    ends = np.cumsum(domain.sizes)
    found = []
    for measurement in measured:
        if isinstance(measurement.queries, Conjunctions):
            tables = zip(domain.names, np.split(measurement.values, ends[:-1]), strict=True)
            kept = {(name,): table for name, table in tables if name in used}
            values = np.concatenate(list(kept.values()))
            found.append(Measurement(Marginals(domain, tuple(kept)), values, measurement.noise, measurement.scale))
    return found


def _independent(queries: Marginals, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-potentials of independent attributes, float64 [queries.size]. chances: Of each value of each attribute."""
    domain, seen = queries.domain, set[str]()
    logs = np.log(np.maximum(probabilities, 0.1 / max(10.0, float(probabilities.size))))
    alone = dict(zip(domain.names, np.split(logs, np.cumsum(domain.sizes)[:-1]), strict=True))
    parts = []
    for clique in queries.cliques:
        parts.append(_sum_of([alone[name] * (name not in seen) for name in clique]))
        seen.update(clique)
    return np.concatenate(parts)


def _sum_of(vectors: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """All sums of one entry of each vector, in C order."""
    found = np.zeros(1)
    for vector in vectors:
        found = np.add.outer(found, vector).ravel()
    return found
