"""What a mechanism is, what it plans and what it releases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, Protocol

from numpy.random import Generator

from dpcore.estimation.graphical.confidence.bounds import Round
from dpcore.estimation.model import Model
from dpcore.kernel.budget import Currency
from dpcore.kernel.events import Event
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.uncertainty import Answers
from dpcore.workload import Workload

Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Reports nothing."""


@dataclass(frozen=True)
class Step:
    """One kind of kernel call in a plan.

    share: Fraction of the whole budget that the step takes, all its calls together.
    calls: How often it is made.
    stddev: Noise of one measured value, in counts; None for selections and draws.
    """

    label: str
    share: float
    calls: int
    stddev: float | None = None


@dataclass(frozen=True)
class Plan:
    """What a run would do, from public facts alone.

    rounds: Adaptive rounds, 0 for a one-shot mechanism.
    memory_bytes: Peak of the driver's arrays.
    predicted_error: Expected absolute error of one answer, in counts, from the noise alone; None where the paper gives
        no formula that says more than a worst-case bound.
    notes: Sentences for the analyst.
    events: Every kernel call, where a numerical bound may hold: the kind, size and number of all of them are fixed in
        advance. Empty where an answer decides what is charged later.
    """

    steps: tuple[Step, ...]
    rounds: int
    memory_bytes: int
    predicted_error: float | None
    notes: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, eq=False)
class Release:
    """Everything a mechanism gives; public.

    measurements: In the order in which they were drawn.
    rounds: Of a mechanism whose rounds prove bounds on the errors of its model, those that it kept; else empty.
    horizon, batch: What goes with them. Any marginal, asked of the workload or not, then has a bound on its error:

            bounds(release.model, release.measurements, release.rounds, cliques, confidence,
                   horizon=release.horizon, batch=release.batch)

        of ``dpcore.estimation.graphical.confidence.bounds``, and cells have intervals by ``answers_with_intervals`` of
        ``dpcore.estimation.graphical.confidence.intervals``, called alike; add ``rows`` where their number is public.
        A published folder holds answers with intervals, and the model, but no rounds: to ask for more, run the
        mechanism in Python, or name the marginals in the workload.
    """

    workload: Workload
    answers: Answers
    model: Model | None
    measurements: tuple[Measurement, ...]
    rounds: tuple[Round, ...] = ()
    horizon: int | None = None
    batch: tuple[int, int] | None = None


QueryKind = Literal["marginals", "products", "conjunctions", "positive conjunctions", "parities"]
DataShape = Literal["table", "baskets"]
ANY_QUERIES: Final[tuple[QueryKind, ...]] = ("marginals", "products", "conjunctions", "parities")


@dataclass(frozen=True)
class Traits:
    """What a mechanism is, for configs, plans and documents: an attribute of its class, and the one place for it.

    name: What a config calls it.
    answers: Kinds of queries that it accepts; "positive conjunctions" are those without negated literals.
    shapes: Shapes of data that it accepts.
    currencies: Privacy definitions for which it has a proof, under every privacy unit.
    rows: Whether a release has a model, and so synthetic rows.
    no_rows_where: A setting and its value with which a release has no model although ``rows`` is true.
    mostly_gaussian: Whether its budget pays for Gaussian noise above all, so that Gaussian DP gives less noise than
        zCDP.
    several_rows: Whether a privacy unit may have several rows of a table.
    recommended_for: What to choose it for, as a part of a sentence.
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

    def gives_rows(self, mechanism: Mechanism) -> bool:
        """Whether a release of the mechanism, with its settings, has synthetic rows."""
        if self.no_rows_where is None:
            return self.rows
        setting, value = self.no_rows_where
        return self.rows and getattr(mechanism, setting) != value


class Mechanism(Protocol):
    """A private algorithm as a frozen dataclass of its settings, all of them public and of plain types.

    Contract, checked for every mechanism by tests/contract:
        * ``plan`` and ``run`` raise ConfigError, before anything is measured, for a workload, privacy unit or currency
          for which there is no proof or no memory;
        * ``run`` asks the kernel only, never spends more than its budget and answers in the workload's shape;
        * with one journal and one generator state two runs release the same values.

    traits: What it is.
    """

    traits: ClassVar[Traits]

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan: ...

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release: ...
