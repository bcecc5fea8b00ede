"""What DualQuery and DQRS share: the first measurements, the data player, and the release of its records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, final

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
OracleName = Literal["reductions", "branch_and_bound", "anneal", "enumerate"]

# Where the number of units is private, a plan lists these numbers and shows the one at SHOWN_IN_PLAN.
TYPICAL_UNITS: Final = (1_000, 10_000, 100_000, 1_000_000)
SHOWN_IN_PLAN: Final = 2
# Gap at which the search for a best response ends, as a fraction of the samples: alpha / 4 for alpha = 0.04 in
# Algorithm 2 of DualQuery.
TOLERANCE: Final = 0.01
_NODES: Final = 1_000  # Branch-and-bound nodes per response of the oracle "branch_and_bound".
_SWEEPS: Final = 50  # Annealing sweeps; 4 to 200 changed the largest error less than repeated runs differ.
_TIE_BREAK: Final = 1e-3  # Size of the random preferences: far below one record, so that they only break ties.


@dataclass(frozen=True)
class InitialMeasurements:
    """What is measured before the first round. A share is a fraction of the whole budget.

    free: How undecided columns are filled: "marginals", "clipped", "zeros" or "uniform".
    marginals_share: Share of the one-way marginals, where ``free`` needs them.
    units_share: Share of the number of units, where it is private.
    """

    free: Free
    marginals_share: float
    units_share: float

    def shares(self, terms: PrivacyTerms) -> tuple[Fraction, Fraction]:
        """The shares of the number of units and of the one-way marginals; 0 for what is not measured."""
        for_units = Fraction(self.units_share) if terms.unit.units is None else Fraction(0)
        return for_units, Fraction(self.marginals_share) if self.free in ("marginals", "clipped") else Fraction(0)

    def remaining_share(self, terms: PrivacyTerms) -> Fraction:
        """The share of the budget that remains for the rounds."""
        return 1 - sum(self.shares(terms), Fraction(0))

    def plan(self, terms: PrivacyTerms, view: BinaryView) -> tuple[list[Step], list[Event]]:
        """The steps of a plan, and the kernel calls behind them."""
        for_units, for_marginals = self.shares(terms)
        calls: list[tuple[str, UnitCount | Conjunctions, Fraction]] = [("measure units", UnitCount(), for_units)]
        if self.free == "marginals":
            calls.append(("measure one-way marginals", Conjunctions.single_columns(view), for_marginals))
        scaled = [(label, share, terms.measure_scale(queries, share)) for label, queries, share in calls if share]
        steps = [Step(label, float(share), 1, noise_stddev(terms.noise, scale)) for label, share, scale in scaled]
        events = [terms.measured(share) for _, share, _ in scaled]
        if self.free == "clipped":
            more_steps, more_events = plan_clipped_marginals(terms, view, for_marginals)
            return steps + more_steps, events + more_events
        return steps, events

    def measure(self, private: PrivateStatistics, view: BinaryView) -> InitialEstimates:
        """Measures what the settings require."""
        for_units, for_marginals = self.shares(private.terms)
        measured = []
        total = private.terms.unit.units
        if total is None:
            measured.append(private.measure(UnitCount(), for_units))
            total = max(1, int(measured[-1].values[0]))
        match self.free:
            case "marginals":
                measured.append(private.measure(Conjunctions.single_columns(view), for_marginals))
                probabilities = column_probabilities(measured[-1], view, total)
            case "clipped":
                measured.extend(clipped_marginals(private, view, for_marginals).measurements)
                probabilities = column_probabilities(measured[-1], view, total)
            case "uniform":
                probabilities = uniform_probabilities(view)
            case _:
                probabilities = np.zeros(view.columns)
        return InitialEstimates(total, probabilities, tuple(measured))


@dataclass(frozen=True, eq=False)
class InitialEstimates:
    """The estimates from the measurements before the first round.

    total: n0, the public or noisy number of units, at least 1.
    probabilities: How often a column is to be 1 where no sampled query decides it, float64 [view.columns].
    measured: The measurements, in the order in which they were drawn.
    """

    total: int
    probabilities: NDArray[np.float64]
    measured: tuple[Measurement, ...]


def column_probabilities(measured: Measurement, view: BinaryView, total: int) -> NDArray[np.float64]:
    """Noisy one-way marginals as the probability that each column is 1, float64 [view.columns].

    Within a one-hot group it is the distribution nearest to the noisy frequencies. For a column outside the groups it
    is the noisy frequency, or 0 if the count is at most sqrt(2 ln d) standard deviations, which is about the maximum of
    d independent noise values (Donoho and Johnstone 1994). Otherwise the noise of many rare items would fill every
    basket.

    measured: One value per column.
    view: The d columns of a record.
    total: The public or noisy number of units.
    """
    frequencies = measured.values / total
    if view.groups:
        return np.concatenate([to_simplex(frequencies[start:stop]) for start, stop in view.groups])
    threshold = math.sqrt(2.0 * math.log(max(2, view.columns))) * measured.stddev
    return np.where(measured.values > threshold, np.clip(frequencies, 0.0, 1.0), 0.0)


def uniform_probabilities(view: BinaryView) -> NDArray[np.float64]:
    """Equal probabilities within each one-hot group, 1/2 for a column outside the groups; float64 [view.columns]."""
    if not view.groups:
        return np.full(view.columns, 0.5)
    sizes = np.array([stop - start for start, stop in view.groups])
    return np.repeat(1.0 / sizes, sizes)


def private_units_note(terms: PrivacyTerms, parameters: Sequence[str]) -> tuple[str, ...]:
    """The note of a plan where the number of units is private, else nothing.

    parameters: The parameters in words, one entry per entry of TYPICAL_UNITS.
    """
    if terms.unit.units is not None:
        return ()
    options = ", ".join(f"{units:,} units: {text}" for units, text in zip(TYPICAL_UNITS, parameters, strict=True))
    shown = TYPICAL_UNITS[SHOWN_IN_PLAN]
    return (f"the number of units is private, so rounds follow from its noisy value; shown is {shown:,}. {options}",)


def basket_rows_note(view: BinaryView) -> tuple[str, ...]:
    """The note of a plan where the records of the game are baskets, else nothing."""
    if view.groups:
        return ()
    return (
        "the rows are the records that the game fitted to its queries, not synthetic baskets: their sizes and item "
        "counts may be far from those of the data; for synthetic baskets choose basket_mixture",
    )


@final
class DataPlayer:
    """Answers drawn queries by records, and counts which queries the records satisfy. All of it is public.

    Where the drawn queries leave a column undecided, the record takes the value whose frequency is furthest below its
    probability, over all earlier records and whatever decided them. Compared with independent draws of the same
    probabilities this lowered the mean error by a tenth (DQRS) to a fifth (DualQuery), and the largest error a little.

    hits: int32 [m], the number of records that satisfy each query.
    """

    def __init__(self, game: Game, oracle: Oracle, probabilities: NDArray[np.float64], generator: Generator) -> None:
        """Starts without records.

        game: The game of the workload's queries.
        oracle: Finds best responses.
        probabilities: How often an undecided column is to be 1, float64 [view.columns].
        generator: Breaks ties.
        """
        self._game, self._oracle, self._probabilities, self._generator = game, oracle, probabilities, generator
        self._ones = np.zeros(game.view.columns, dtype=np.float64)
        self._records: list[NDArray[np.uint8]] = []
        self.hits = np.zeros(game.size, dtype=np.int32)

    @property
    def done(self) -> int:
        """The number of records."""
        return len(self._records)

    def respond(self, drawn: NDArray[np.int64]) -> BestResponse:
        """Adds the best response to the drawn queries as the next record.

        drawn: int64 [s], indices from the kernel's ``sample``.
        """
        response = self._oracle.respond(self._game.objective(drawn), self._preferences())
        self._game.add_satisfied(self.hits, response.record)
        self._ones += response.record
        self._records.append(np.packbits(response.record))
        return response

    def model(self, total: int, burn_in: float) -> RecordModel:
        """The records as a dataset of ``total`` units, without the fraction ``burn_in`` of them that came first."""
        return RecordModel(self._game.view, np.stack(self._records[int(burn_in * self.done) :]), float(total))

    def _preferences(self) -> NDArray[np.float64]:
        """The preference for a 1 in each column, float64 [view.columns]; -inf where the probability is 0."""
        deficits = self._probabilities * (self.done + 1) - self._ones
        if not self._game.view.groups:
            deficits -= 0.5  # Positive where a 1 brings the frequency nearer to the probability than a 0.
        deficits += self._generator.random(deficits.size) * _TIE_BREAK
        return np.where(self._probabilities > 0, deficits, -np.inf)


def record_release(workload: Workload, model: RecordModel, initial: InitialEstimates) -> Release:
    """The release of the data player's records and of their answers."""
    return Release(workload, of_model(model.answer(workload.queries)), model, initial.measured)


def prior_log_weights(workload: Workload) -> NDArray[np.float64] | None:
    """The log-weights of the first round, float64 [m], shared by a query and its complement; None if all are equal."""
    if (workload.weights == workload.weights[0]).all():
        return None
    return np.asarray(np.log(cell_weights(workload)))


def spread_of(prior: NDArray[np.float64] | None) -> float:
    """The largest minus the smallest log-weight of the first round."""
    return 0.0 if prior is None else float(np.ptp(prior))


def view_of(queries: CountingQueries) -> BinaryView:
    """The columns of a record."""
    return BinaryView.one_hot(queries.domain) if isinstance(queries, Marginals) else queries.view


def checked_queries(name: str, terms: PrivacyTerms, workload: Workload) -> CountingQueries:
    """The queries of the workload. Raises ConfigError for a workload or a privacy unit that no proof covers."""
    if answer_sensitivity(terms.unit) != 1:
        raise ConfigError(
            f"mechanism {name} has a proof for units of one row or one basket; want dataset.max_rows_per_unit: 1"
        )
    queries = counting_queries(name, workload)
    if isinstance(queries, Marginals):
        marginal_l1_sensitivity(terms.unit)  # Raises ConfigError for baskets.
    return queries


def counting_queries(name: str, workload: Workload) -> CountingQueries:
    """The queries of the workload. Raises ConfigError for products, which are sums of many one-hot columns."""
    if isinstance(workload.queries, Products):
        raise ConfigError(
            f"mechanism {name} has no game for linear queries; want a workload of marginals, conjunctions or parities "
            "without prefix and ranges, or mechanism gaussian, laplace or independent"
        )
    return workload.queries


def check_positive(**settings: float | None) -> None:
    """Raises ConfigError for a setting that is neither None nor positive and finite."""
    for name, value in settings.items():
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ConfigError(f"mechanism.{name} is {value}; want > 0")


def check_data_player(oracle: OracleName, free: Free, view: BinaryView) -> None:
    """Raises ConfigError if the oracle cannot enumerate so many records, or if undecided columns cannot be 0."""
    if oracle == "enumerate":
        Enumeration().check(view)
    if free == "zeros" and view.groups:
        raise ConfigError("mechanism.free: zeros on a table, where every attribute has a value; want marginals")


def oracle_of(name: OracleName, tolerance: float = TOLERANCE) -> Oracle:
    """The oracle of that name; ``tolerance`` is the gap at which its search ends, as a fraction of the samples."""
    match name:
        case "enumerate":
            return Enumeration()
        case "reductions":
            return BestResponseOracle(tolerance, 0, _SWEEPS)
        case "branch_and_bound":
            return BestResponseOracle(tolerance, _NODES, _SWEEPS)
        case _:
            return Annealing(_SWEEPS)


def loop_memory(queries: CountingQueries, samples: int, rounds: int, columns: int) -> int:
    """Peak memory of the rounds in bytes.

    It holds the queries, their hits, weights and counts (about ten vectors of two slots per query), the records and the
    oracle.
    """
    order = queries.order if isinstance(queries, Conjunctions) else 4
    per_query = 5 * order + 8 + 10 * 16
    oracle = 1000 * min(samples, 2 * queries.size) * order
    return per_query * queries.size + 2 * rounds * columns + 64 * columns + oracle
