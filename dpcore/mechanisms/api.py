"""The interface of a mechanism: its settings and traits, its plan, and its release."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, Protocol, runtime_checkable

from numpy.random import Generator

from dpcore.errors import ConfigError
from dpcore.estimation.graphical.confidence.bounds import Round
from dpcore.estimation.itemsets.supports import FrequentItemsets
from dpcore.estimation.model import Model
from dpcore.estimation.public_table import PublicTable
from dpcore.kernel.budget import Currency
from dpcore.kernel.events import Event
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.uncertainty import Answers
from dpcore.workload import Workload

Progress = Callable[[int, int], None]  # Called with the number of steps done, and of all steps.


def silent(done: int, total: int) -> None:
    """Reports nothing."""


def tell_stage(progress: Progress, stage: str) -> None:
    """Names the stage that a run has come to, if the progress has a method ``stage`` to show it.

    progress: The progress of the run.
    stage: Name of the stage, and after a colon how far it is. It is public: it follows from the plan and from released
        values.
    """
    show: Callable[[str], None] | None = getattr(progress, "stage", None)
    if show is not None:
        show(stage)


@dataclass(frozen=True)
class Step:
    """One kind of kernel call in a plan.

    label: A verb and its object, for the plan report.
    share: Part of the whole budget that all calls of the step take together.
    calls: Number of calls.
    stddev: Standard deviation of the noise in one measured value, in counts; None for selections and draws.
    weighted_sums: Whether the measured values are sums of counts with large integer weights, so that ``stddev`` cannot
        be compared with the error of a count.
    """

    label: str
    share: float
    calls: int
    stddev: float | None = None
    weighted_sums: bool = False


@dataclass(frozen=True)
class Plan:
    """What a run will do, computed from public facts alone.

    steps: The kinds of kernel calls, in order.
    rounds: Number of adaptive rounds; 0 for a mechanism without rounds.
    memory_bytes: Peak memory of the driver's arrays.
    predicted_error: Expected absolute error of an answer from the noise alone, in counts, as the mean over all answers;
        None where only a worst-case bound is known.
    notes: Sentences for the analyst.
    cpu_seconds: Predicted CPU seconds of the run on one core of a current server, without reading the data and without
        synthetic rows: within a factor of 2 in most cases (``dpcore/decisions/work.md``). What depends on the data is
        taken at its middle: how many rounds are made, and how many steps a fit takes. None where there is no
        prediction.
    events: Every kernel call, if the kind, size and number of all calls are fixed in advance, so that a numerical bound
        may hold. Empty if answers decide what is charged later.
    """

    steps: tuple[Step, ...]
    rounds: int
    memory_bytes: int
    predicted_error: float | None
    notes: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    cpu_seconds: float | None = None


@dataclass(frozen=True, eq=False)
class Release:
    """Everything that a run of a mechanism returns. All of it is public.

    workload: The workload that was answered.
    answers: Its answers, with standard deviations and intervals where they are known.
    model: The model that the answers come from; None for a mechanism without a model.
    measurements: All measurements, in the order in which they were drawn.
    rounds: The rounds that were kept because they bound the errors of the model; empty for mechanisms without such
        bounds.
    horizon: The largest number of rounds that the run could have made, which was fixed before the run; None if
        ``rounds`` are all rounds.
    batch: First index and end of the measurements that were chosen together; None if there are none.
    itemsets: The frequent itemsets and their rules, if the workload asks for them; ``workload`` then holds the itemsets
        that were found.

    A release of a graphical model with ``rounds`` or a ``batch`` bounds the error of every marginal, whether the
    workload has it or not:

        bounds(release.model, release.measurements, release.rounds, cliques, confidence,
               horizon=release.horizon, batch=release.batch)

    of ``dpcore.estimation.graphical.confidence.bounds``. Intervals for cells come from ``answers_with_intervals`` of
    ``dpcore.estimation.graphical.confidence.intervals``, called in the same way. Add ``rows`` where the number of rows
    is public. A published folder holds the model and the answers with their intervals, but not the rounds. For bounds
    on other marginals, run the mechanism in Python or name the marginals in the workload.
    """

    workload: Workload
    answers: Answers
    model: Model | None
    measurements: tuple[Measurement, ...]
    rounds: tuple[Round, ...] = ()
    horizon: int | None = None
    batch: tuple[int, int] | None = None
    itemsets: FrequentItemsets | None = None


QueryKind = Literal["marginals", "products", "conjunctions", "parities", "itemsets"]
DataShape = Literal["table", "baskets"]
ANY_QUERIES: Final[tuple[QueryKind, ...]] = ("marginals", "products", "conjunctions", "parities")


@dataclass(frozen=True)
class Traits:
    """Facts about a mechanism that configs, plans and documents need; a class attribute of the mechanism.

    name: The mechanism's name in a config.
    answers: Kinds of queries that it accepts.
    shapes: Shapes of data that it accepts.
    rows: Whether a release has a model, and therefore synthetic rows.
    mostly_gaussian: Whether most of its budget pays for Gaussian noise, so that Gaussian DP gives less noise than zCDP.
    recommended_for: What to choose it for, as part of a sentence.
    currencies: Privacy definitions for which it has a proof, under every privacy unit.
    no_rows_where: A setting and the value of it with which a release has no model although ``rows`` is true.
    several_rows: Whether a privacy unit may have several rows of a table.
    graphical: Whether the model of every release is a graphical one, which its folder then contains.
    own_answers: Whether answers may be consistent estimates of their own, and not those of the release's model.
    """

    name: str
    answers: tuple[QueryKind, ...]
    shapes: tuple[DataShape, ...]
    rows: bool
    mostly_gaussian: bool
    recommended_for: str
    currencies: tuple[Currency, ...] = tuple(Currency)
    no_rows_where: tuple[str, object] | None = None
    several_rows: bool = True
    graphical: bool = False
    own_answers: bool = False

    def gives_rows(self, mechanism: Mechanism) -> bool:
        """Whether a release of the mechanism, with its settings, has synthetic rows."""
        if self.no_rows_where is None:
            return self.rows
        setting, value = self.no_rows_where
        return self.rows and getattr(mechanism, setting) != value


def check_profile(profile: str, profiles: Container[str]) -> None:
    """Raises ConfigError unless ``profile`` names one of the profiles of a mechanism."""
    if profile not in profiles:
        raise ConfigError(f"mechanism.profile is {profile!r}; want default or published")


class Mechanism(Protocol):
    """A private algorithm, as a frozen dataclass of its settings. Settings are public and of plain types.

    Contract, which tests/contract checks for every mechanism:
        * ``plan`` and ``run`` raise ConfigError, before anything is measured, for a workload, privacy unit or currency
          for which the mechanism has no proof or too little memory;
        * ``run`` sees data through the kernel alone, never spends more than the budget, and returns one answer for each
          query of the workload, in order;
        * two runs with the same journal and the same state of the generator release the same values.

    traits: Facts about the mechanism.
    """

    traits: ClassVar[Traits]

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan: ...

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release: ...


@runtime_checkable
class TakesPublic(Protocol):
    """A mechanism that takes a public table for prior knowledge.

    The table is fixed before the data are read, and equal for neighbouring datasets: it enters public estimates alone.
    """

    def with_public(self, table: PublicTable) -> Mechanism:
        """The same mechanism with a public table of the domain of its workloads."""
        ...
