"""Rounds of select, measure and learn, which rivals share that answer queries by a synthetic dataset.

Every draw is a call of the kernel with its own charge. Published code of RAP++ draws new noise for all earlier queries
in each round while it charges for the new ones alone; here an earlier answer is used as it was drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.record_model import RecordModel
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import L1Error
from dpcore.measurement import Measurement, mean_absolute_noise
from dpcore.mechanisms.api import Plan, Progress, Release
from dpcore.mechanisms.mwem.shares import Shares
from dpcore.mechanisms.shared.pgm_common import LARGEST_PENALTY, check_names_attribute, clique_weights, modelled
from dpcore.mechanisms.shared.totals import row_total, total_share
from dpcore.queries import Marginals
from dpcore.uncertainty import of_model
from dpcore.workload import Workload, relative

_TOTAL_SHARE: Final = Fraction(1, 100)
_START_SHARE: Final = Fraction(1, 10)  # One-way marginals, which none of the papers measures; all gain by it.


class Learner(Protocol):
    """A synthetic dataset that follows measured marginals."""

    def answers(self, queries: Marginals) -> NDArray[np.float64]:
        """Fractions of the rows, float64 [queries.size]."""
        ...

    def learn(self, measured: Sequence[Measurement], total: float) -> None:
        """Moves the dataset towards all measurements."""
        ...

    def codes(self) -> NDArray[np.int64]:
        """Its rows, int64 [rows, attributes]."""
        ...


@dataclass(frozen=True)
class Adaptive:
    """How often to select.

    rounds: Selections; by default one for each attribute that the workload names, and one more, but not more than there
        are marginals.
    name: Of the mechanism.
    """

    rounds: int | None
    name: str

    def plan(self, terms: PrivacyTerms, workload: Workload, memory: int) -> Plan:
        queries = marginals(workload, self.name)
        shares, one_way = self._shares(terms, queries), one_way_of(queries)
        steps = shares.steps(terms, queries.domain, "one_way", one_way, queries.only(queries.cliques[:1]))
        return Plan(steps, shares.rounds, memory + 40 * queries.size, None, (), shares.events(terms, len(one_way)))

    def run(self, private: PrivateStatistics, workload: Workload, learner: Learner, progress: Progress) -> Release:
        """The release, from the rows of the learner after the last round."""
        queries = marginals(workload, self.name)
        shares, one_way = self._shares(private.terms, queries), one_way_of(queries)
        private.expect(queries.only([*queries.cliques, *(part.cliques[0] for part in one_way), ()]))
        total, counted = row_total(private, queries.domain, shares.total or Fraction(1))
        measured = [private.measure(part, shares.start / len(one_way)) for part in one_way]  # MEASURE
        learner.learn(measured, total)
        weights, candidates = clique_weights(workload, queries), list(range(len(queries.cliques)))
        for done in range(shares.rounds):
            offered = queries.only([queries.cliques[index] for index in candidates])
            scale = private.terms.measure_scale(offered.only(offered.cliques[:1]), shares.measure)
            noise = mean_absolute_noise(private.terms.noise, scale)
            penalties = np.minimum(noise * np.array(offered.sizes, dtype=np.float64), LARGEST_PENALTY)
            score = L1Error(total * learner.answers(offered), relative(weights[candidates]), penalties)
            chosen = private.select(offered, score, shares.select)  # SELECT
            measured.append(private.measure(offered.only([offered.cliques[chosen]]), shares.measure))  # MEASURE
            del candidates[chosen]
            learner.learn(measured, total)  # ESTIMATE
            progress(done + 1, shares.rounds)
        model = records_of(queries.domain, learner.codes(), total)
        return Release(workload, of_model(model.answer(workload.queries)), model, (*counted, *measured))

    def _shares(self, terms: PrivacyTerms, queries: Marginals) -> Shares:
        rounds = len(modelled(queries)) + 1 if self.rounds is None else self.rounds
        if rounds < 1:
            raise ConfigError(f"mechanism.rounds is {rounds}; want rounds >= 1")
        rounds = min(rounds, len(queries.cliques))
        total = total_share(terms, _TOTAL_SHARE)
        each = (1 - total - _START_SHARE) / rounds / 2
        return Shares(rounds, total, _START_SHARE, each, each)


def marginals(workload: Workload, name: str) -> Marginals:
    """The marginals of the workload, each once. Raises ConfigError for other queries, or without an attribute."""
    if not isinstance(workload.queries, Marginals):
        raise ConfigError(f"mechanism {name} answers marginals of a table; want workload.marginals")
    check_names_attribute(workload.queries.cliques, name)
    return workload.queries.only(dict.fromkeys(workload.queries.cliques))


def one_way_of(queries: Marginals) -> list[Marginals]:
    return [queries.only([(name,)]) for name in modelled(queries)]


def records_of(domain: Domain, codes: NDArray[np.int64], total: float) -> RecordModel:
    """The model of rows, int64 [rows, attributes]."""
    view = BinaryView.one_hot(domain)
    rows = np.zeros((len(codes), view.columns), dtype=np.bool_)
    for axis, (start, _) in enumerate(view.groups):
        rows[np.arange(len(codes)), start + codes[:, axis]] = True
    return RecordModel.of_rows(view, rows, total)
