"""What DualQuery and DQRS share: the first measurements, the data player's records, and the release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.errors import ConfigError
from dpcore.estimation.independent import to_simplex
from dpcore.estimation.record_model import RecordModel
from dpcore.kernel.events import Event
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import answer_sensitivity, marginal_l1_sensitivity
from dpcore.measurement import Measurement, noise_stddev
from dpcore.mechanisms.api import Release, Step
from dpcore.mechanisms.clipping.marginals import clipped_marginals, plan_clipped_marginals
from dpcore.oracles.annealing.anneal import Annealing
from dpcore.oracles.best_response import BestResponseOracle
from dpcore.oracles.enumerate import Enumeration
from dpcore.oracles.objective import Game
from dpcore.oracles.protocol import BestResponse, Oracle
from dpcore.queries import Conjunctions, CountingQueries, Marginals, Products, UnitCount
from dpcore.uncertainty import of_model
from dpcore.workload import Workload, cell_weights

Free = Literal["marginals", "clipped", "zeros", "uniform"]
OracleName = Literal["reductions", "anneal", "enumerate"]

TYPICAL_UNITS = (1_000, 10_000, 100_000, 1_000_000)
FOR_PLAN = 2  # Index of the number that a plan shows where the number of units is private.
TOLERANCE = 0.01  # Gap of a best response, as a fraction of the samples: alpha / 4 of Algorithm 2 for alpha = 0.04.
_SWEEPS = 50  # Of annealing; 4 to 200 moved the largest error by less than two runs of one setting differ.
_TIE = 1e-3  # Far below one record, so that it decides between equals alone.


@dataclass(frozen=True)
class InitialMeasurements:
    """What is measured before the first round; the fields are settings of the mechanisms.

    free: "marginals", "clipped", "zeros" or "uniform".
    free_share: Share of the budget for the one-way marginals.
    total_share: Share for the number of units, where it is private.
    """

    free: Free
    free_share: float
    total_share: float

    def check(self, view: BinaryView) -> None:
        """Raises ConfigError for settings without a meaning."""
        if not (self.total_share > 0 and self.free_share > 0 and self.total_share + self.free_share < 1):
            raise ConfigError("mechanism.total_share and free_share; want both > 0 and a sum < 1")
        if self.free == "zeros" and view.groups:
            raise ConfigError("mechanism.free: zeros on a table, where every attribute has a value; want marginals")

    def shares(self, terms: PrivacyTerms) -> tuple[Fraction, Fraction]:
        """For the number of units, and for the one-way marginals."""
        for_total = Fraction(self.total_share) if terms.unit.units is None else Fraction(0)
        return for_total, Fraction(self.free_share) if self.free in ("marginals", "clipped") else Fraction(0)

    def left(self, terms: PrivacyTerms) -> Fraction:
        """Share of the budget for the rounds."""
        return 1 - sum(self.shares(terms), Fraction(0))

    def planned(self, terms: PrivacyTerms, view: BinaryView) -> tuple[list[Step], list[Event]]:
        """Its part of a plan, and its kernel calls."""
        for_total, for_free = self.shares(terms)
        calls: list[tuple[str, UnitCount | Conjunctions, Fraction]] = [("measure units", UnitCount(), for_total)]
        if self.free == "marginals":
            calls.append(("measure one-way marginals", Conjunctions.single_columns(view), for_free))
        measured_first = [
            (label, share, terms.measure_scale(queries, share)) for label, queries, share in calls if share
        ]
        steps = [
            Step(label, float(share), 1, noise_stddev(terms.noise, scale)) for label, share, scale in measured_first
        ]
        events = [terms.measured(share) for _, share, _ in measured_first]
        if self.free == "clipped":
            more_steps, more_events = plan_clipped_marginals(terms, view, for_free)
            return steps + more_steps, events + more_events
        return steps, events

    def buy(self, private: PrivateStatistics, view: BinaryView) -> InitialEstimates:
        for_total, for_free = self.shares(private.terms)
        measured = []
        total = private.terms.unit.units
        if total is None:
            measured.append(private.measure(UnitCount(), for_total))
            total = max(1, int(measured[-1].values[0]))
        match self.free:
            case "marginals":
                measured.append(private.measure(Conjunctions.single_columns(view), for_free))
                probabilities = frequencies(measured[-1], view, total)
            case "clipped":
                measured.extend(clipped_marginals(private, view, for_free).measurements)
                probabilities = frequencies(measured[-1], view, total)
            case "uniform":
                probabilities = uniform_chances(view)
            case _:
                probabilities = np.zeros(view.columns)
        return InitialEstimates(total, probabilities, tuple(measured))


@dataclass(frozen=True, eq=False)
class InitialEstimates:
    """What the measurements before the first round give.

    total: n0, the number of units, public or noisy, at least 1.
    probabilities: How often a column that no sampled query decides is to be 1, float64 [view.columns].
    """

    total: int
    probabilities: NDArray[np.float64]
    measured: tuple[Measurement, ...]


def frequencies(measured: Measurement, view: BinaryView, total: int) -> NDArray[np.float64]:
    """One-way marginals as chances, float64 [view.columns].

    In a group: the distribution nearest to the noisy frequencies. Outside: the noisy frequency, and 0 below
    sqrt(2 ln d) standard deviations, which is what the largest of d pure noises reaches (Donoho and Johnstone 1994):
    otherwise the noise of many rare items would fill every basket.
    """
    frequencies = measured.values / total
    if view.groups:
        return np.concatenate([to_simplex(frequencies[start:stop]) for start, stop in view.groups])
    threshold = math.sqrt(2.0 * math.log(max(2, view.columns))) * measured.stddev
    return np.where(measured.values > threshold, np.clip(frequencies, 0.0, 1.0), 0.0)


def by_units(terms: PrivacyTerms, schedules: Sequence[str]) -> tuple[str, ...]:
    """What a plan says where the number of units is private. schedules: In words, one for each of TYPICAL_UNITS."""
    if terms.unit.units is not None:
        return ()
    options = ", ".join(f"{units:,} units: {said}" for units, said in zip(TYPICAL_UNITS, schedules, strict=True))
    shown = TYPICAL_UNITS[FOR_PLAN]
    return (f"the number of units is private, so rounds follow from its noisy value; shown is {shown:,}. {options}",)


def uniform_chances(view: BinaryView) -> NDArray[np.float64]:
    """Every value of a group alike, every column outside the groups like a coin; float64 [view.columns]."""
    if not view.groups:
        return np.full(view.columns, 0.5)
    sizes = np.array([stop - start for start, stop in view.groups])
    return np.repeat(1.0 / sizes, sizes)


@final
class Play:
    """The data player: answers drawn queries by records and keeps what they satisfy. Public throughout.

    hits: int32 [m], how many of the records satisfy each query.

    Columns that no drawn query decides keep the records' frequencies near ``chances``: the value is preferred that is
    furthest behind, over all records so far, whatever decided them. Against independent draws with the same chances
    that lowered the mean error by a tenth (DQRS) to a fifth (DualQuery), and the largest error a little.
    """

    def __init__(self, game: Game, oracle: Oracle, probabilities: NDArray[np.float64], generator: Generator) -> None:
        self._game, self._oracle, self._chances, self._generator = game, oracle, probabilities, generator
        self._ones = np.zeros(game.view.columns, dtype=np.float64)
        self._records: list[NDArray[np.uint8]] = []
        self.hits = np.zeros(game.size, dtype=np.int32)

    @property
    def done(self) -> int:
        """Number of records."""
        return len(self._records)

    def respond(self, drawn: NDArray[np.int64]) -> BestResponse:
        """Adds the best response to drawn queries as the next record."""
        response = self._oracle.respond(self._game.objective(drawn), self._preferences())
        self._game.add_satisfied(self.hits, response.record)
        self._ones += response.record
        self._records.append(np.packbits(response.record))
        return response

    def model(self, total: int, burn_in: float) -> RecordModel:
        """The records without a fraction of the first ones, as a dataset of ``total`` units."""
        return RecordModel(self._game.view, np.stack(self._records[int(burn_in * self.done) :]), float(total))

    def _preferences(self) -> NDArray[np.float64]:
        behind = self._chances * (self.done + 1) - self._ones
        if not self._game.view.groups:
            behind -= 0.5  # > 0 where a 1 brings the frequency nearer than a 0 does.
        behind += self._generator.random(behind.size) * _TIE
        return np.where(self._chances > 0, behind, -np.inf)


def release(workload: Workload, model: RecordModel, opened: InitialEstimates) -> Release:
    """The records of the data player, and their answers."""
    return Release(workload, of_model(model.answer(workload.queries)), model, opened.measured)


def log_weights(workload: Workload) -> NDArray[np.float64] | None:
    """Log-weights of the first round, float64 [m], alike for a query and its complement; None where all are equal."""
    if (workload.weights == workload.weights[0]).all():
        return None
    return np.asarray(np.log(cell_weights(workload)))


def view_of(queries: CountingQueries) -> BinaryView:
    """The columns of a record."""
    return BinaryView.one_hot(queries.domain) if isinstance(queries, Marginals) else queries.view


def spread(prior: NDArray[np.float64] | None) -> float:
    """Largest minus smallest log-weight of the first round."""
    return 0.0 if prior is None else float(np.ptp(prior))


def checked_queries(name: str, terms: PrivacyTerms, workload: Workload) -> CountingQueries:
    """The queries. Raises ConfigError for a workload or a privacy unit that there is no proof for."""
    if answer_sensitivity(terms.unit) != 1:
        raise ConfigError(
            f"mechanism {name} has a proof for units of one row or one basket; want dataset.max_rows_per_unit: 1"
        )
    queries = counting_queries(name, workload)
    if isinstance(queries, Marginals):
        marginal_l1_sensitivity(terms.unit)  # Refuses baskets.
    return queries


def counting_queries(name: str, workload: Workload) -> CountingQueries:
    """The queries. Raises ConfigError for products: records and their bits know single columns, no sums of them."""
    if isinstance(workload.queries, Products):
        raise ConfigError(
            f"mechanism {name} has no game for linear queries; want a workload of marginals, conjunctions or parities "
            "without prefix and ranges, or mechanism gaussian, laplace or independent"
        )
    return workload.queries


def check_positive(**settings: float | None) -> None:
    """Raises ConfigError for a setting that is given and not a positive finite number."""
    for name, value in settings.items():
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ConfigError(f"mechanism.{name} is {value}; want > 0")


def check_search(oracle: OracleName, node_limit: int, burn_in: float, view: BinaryView) -> None:
    """Raises ConfigError for settings of the rounds without a meaning."""
    if node_limit < 0:
        raise ConfigError(f"mechanism.node_limit is {node_limit}; want >= 0")
    if not 0 <= burn_in < 1:
        raise ConfigError(f"mechanism.burn_in is {burn_in}; want 0 <= burn_in < 1")
    if oracle == "enumerate":
        Enumeration().check(view)


def oracle_of(name: OracleName, node_limit: int, tolerance: float = TOLERANCE) -> Oracle:
    """The oracle that settings ask for."""
    match name:
        case "enumerate":
            return Enumeration()
        case "reductions":
            return BestResponseOracle(tolerance, node_limit, _SWEEPS)
        case _:
            return Annealing(_SWEEPS)


def loop_memory(queries: CountingQueries, samples: int, rounds: int, columns: int) -> int:
    """Peak of queries and hits, weights and counts (about ten vectors of two slots a query), records and the solver."""
    order = queries.order if isinstance(queries, Conjunctions) else 4
    per_query = 5 * order + 8 + 10 * 16
    solver = 1000 * min(samples, 2 * queries.size) * order
    return per_query * queries.size + 2 * rounds * columns + 64 * columns + solver
