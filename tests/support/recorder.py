"""The grey-box recorder: runs a mechanism on one dataset, replays its draws on a neighbour, and compares all it shows.

Every sampler that the kernel draws from is watched. On the first dataset it draws and its answer is kept. On the
neighbour the kernel goes the whole way again, from the charge to the input of the sampler, which gives the kept answer.
Whatever differs then was charged for by nobody. What the samplers saw may differ, by no more than the draw was charged.

Idea: Cebere, Erb, Desfontaines, Bellet and Fitzsimons, "Privacy in Theory, Bugs in Practice: Grey-Box Auditing of
Differential Privacy Libraries" (PETS 2026); written anew here.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpcore.exact_statistics import Contribution, QueryAnswers, Request, Statistics
from dpcore.kernel import entropy
from dpcore.kernel import private_statistics as kernel
from dpcore.kernel.budget import Budget, Charge, Currency
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import PrivacyUnit
from dpcore.measurement import Noise
from dpcore.mechanisms.api import Mechanism, Release
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.workload import Workload

_SAMPLED_ROWS = 20  # Synthetic rows that are compared.
_TOLERANCE = 1e-9  # Of costs computed in doubles.
Cost = Callable[["Draw", "Draw", Currency], Fraction | float]


class DivergedError(AssertionError):
    """The neighbour's run asked for a draw that the first run did not make."""


@dataclass(frozen=True, eq=False)
class Draw:
    """One call of a sampler. seen: Its exact input, SENSITIVE. public: What else it was told. answer: What it gave."""

    kind: str
    seen: tuple[NDArray[np.generic], ...]
    public: tuple[Any, ...]
    answer: Any


@dataclass
class Samplers:
    """The kernel's samplers, watched. kept: Answers to give in place of drawing, None to draw."""

    kept: Sequence[Draw] | None = None
    draws: list[Draw] = field(default_factory=list)

    def _draw(self, kind: str, seen: tuple[Any, ...], public: tuple[Any, ...], draw: Callable[[], Any]) -> Any:
        if self.kept is None:
            answer = draw()
        elif len(self.draws) < len(self.kept) and self.kept[len(self.draws)].kind == kind:
            answer = self.kept[len(self.draws)].answer
        else:
            raise DivergedError(f"draw {len(self.draws)} is {kind}; the first run made another one or none")
        copies = tuple(np.array(array) for array in seen)
        self.draws.append(Draw(kind, copies, public, np.array(answer) if isinstance(answer, np.ndarray) else answer))
        return answer

    @contextmanager
    def watched(self) -> Iterator[Samplers]:
        """Puts the watch in place of what the kernel calls."""
        noise, argmax = kernel.add_noise, kernel.noisy_argmax
        draw, bits = kernel.weighted_sampler.draw, kernel.bernoulli.bits

        def add_noise(exact: Any, law: Any, scale: float, *_: Any, **__: Any) -> Any:
            """Reports no progress: threads draw the values, so that its order is not the same twice."""
            return self._draw("noise", (exact,), (law.value, scale, len(exact)), lambda: noise(exact, law, scale))

        def noisy_argmax(scores: Any, currency: Any, scale: float) -> Any:
            public = (currency.value, scale, len(scores))
            return self._draw("argmax", (scores,), public, lambda: argmax(scores, currency, scale))

        def weighted(scores: Any, exact: Any, size: int) -> Any:
            # What a draw sees of the data: counts of the queries and of their complements, clamped.
            both = np.concatenate([exact.counts, exact.units - exact.counts])
            seen = np.minimum(both, scores.total).astype(np.float64)
            named = (scores.step, scores.done, scores.shift, scores.constant, digest(scores.hits), digest(scores.prior))
            public = (scores.slope, size, len(seen), *named)
            return self._draw("sample", (seen,), public, lambda: draw(scores, exact, size))

        def coins(exponents: Any, mantissas: Any) -> Any:
            return self._draw("bits", (exponents, mantissas), (len(exponents),), lambda: bits(exponents, mantissas))

        with contextlib.ExitStack() as stack:
            patches = [(kernel, "add_noise", add_noise), (kernel, "noisy_argmax", noisy_argmax),
                       (kernel.weighted_sampler, "draw", weighted), (kernel.bernoulli, "bits", coins)]  # fmt: skip
            for owner, name, watch in patches:
                stack.enter_context(mock.patch.object(owner, name, watch))
            if self.kept is not None:
                for name in ("words", "below", "each_below"):
                    stack.enter_context(mock.patch.object(entropy, name, _no_entropy))
            yield self


@dataclass
class Trace:
    """Everything one run shows, in order. draws: What the samplers saw. charges: What each draw cost."""

    currency: Currency
    events: list[tuple[Any, ...]] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    charges: tuple[Charge, ...] = ()

    @property
    def requests(self) -> int:
        """Requests to the statistics and draws."""
        return sum(event[0] in ("aggregate", "request") for event in self.events)


@dataclass(frozen=True)
class Scene:
    """What both runs share; public. seed: Of the mechanism's post-processing."""

    mechanism: Mechanism
    workload: Workload
    unit: PrivacyUnit
    budget: Budget
    seed: int = 0


def record(scene: Scene, statistics: Statistics, kept: Sequence[Draw] | None = None) -> Trace:
    """One run. kept: The draws of an earlier run, to be given again."""
    trace = Trace(scene.budget.currency)
    generator = np.random.default_rng(scene.seed)
    printed = io.StringIO()
    with (
        warnings.catch_warnings(record=True) as warned,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        Samplers(kept).watched() as samplers,
    ):
        warnings.simplefilter("always")
        # The garbage collector speaks of what earlier tests left open, whenever it runs.
        warnings.simplefilter("ignore", ResourceWarning)
        _run(scene, statistics, generator, trace)
    trace.draws = samplers.draws
    trace.events += [("draw", draw.kind, *draw.public) for draw in samplers.draws]
    trace.events += [("warned", str(warning.message)) for warning in warned]
    trace.events += [("printed", printed.getvalue()), ("generator", str(generator.bit_generator.state))]
    return trace


@dataclass(frozen=True)
class Reported:
    """A progress that writes down what was reported, with the stages that were named."""

    events: list[Any]

    def __call__(self, done: int, total: int) -> None:
        self.events.append(("progress", done, total))

    def stage(self, text: str) -> None:
        self.events.append(("stage", text))


def _run(scene: Scene, statistics: Statistics, generator: np.random.Generator, trace: Trace) -> None:
    progress = Reported(trace.events)
    private: PrivateStatistics | None = None
    try:
        private = PrivateStatistics(
            _Door(statistics, trace.events), unit=scene.unit, budget=scene.budget,
            ledger=_Ledger(scene.budget, events=trace.events), journal=_Journal(events=trace.events),
        )  # fmt: skip
        release = scene.mechanism.run(private, scene.workload, generator=generator, progress=progress)
        trace.events += shown(release)
    except Exception as error:  # noqa: BLE001 - whatever it is, both runs must show it alike
        trace.events.append(("raised", type(error).__name__, str(error)))
    if private is not None:
        trace.charges = private.charges
        trace.events += [("charge", charge.label, str(charge.amount)) for charge in private.charges]


@dataclass(frozen=True)
class _Door:
    """The Statistics seam: passes on, and writes down what was asked."""

    inner: Statistics
    events: list[tuple[Any, ...]]

    @property
    def contribution(self) -> Contribution:
        return self.inner.contribution

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        asked = request.queries if isinstance(request, QueryAnswers) else request
        self.events.append(("aggregate", asked.digest()))
        answer = self.inner.aggregate(request)
        self.events.append(("aggregated", answer.shape, str(answer.dtype)))
        return answer


@dataclass
class _Ledger(MemoryLedger):
    events: list[tuple[Any, ...]] = field(default_factory=list)

    def reserve(self, budget: Budget) -> None:
        self.events.append(("reserve", budget.currency.value, str(budget.amount)))
        super().reserve(budget)


@dataclass
class _Journal(MemoryJournal):
    """The seam of the verbs: a request's digest is that of the verb with all it was asked."""

    events: list[tuple[Any, ...]] = field(default_factory=list)

    def record(self, index: int, request: str, answer: NDArray[np.int64]) -> None:
        self.events.append(("request", index, request, digest(answer)))
        super().record(index, request, answer)


def shown(release: Release) -> list[tuple[Any, ...]]:
    """Everything in a release, with some synthetic rows, as digests."""
    answers = release.answers
    arrays = (answers.values, answers.stddev, answers.lower, answers.upper)
    found: list[tuple[Any, ...]] = [("answers", answers.measured, *(digest(array) for array in arrays))]
    for measured in release.measurements:
        asked = measured.queries.digest()
        found.append(("measurement", asked, measured.noise.value, measured.scale, digest(measured.values)))
    if release.model is not None:
        rows = release.model.sample(_SAMPLED_ROWS, np.random.default_rng(5))
        found.append(("model", release.model.total, hashlib.sha256(pickle.dumps(vars(rows))).hexdigest()))
    return found


def digest(array: NDArray[np.generic]) -> str:
    """Shape, type and bytes of an array."""
    content = hashlib.sha256(repr((array.shape, str(array.dtype))).encode())
    content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()


def violations(first: Trace, neighbour: Trace) -> list[str]:
    """What differs that no draw's charge covers; empty for a mechanism that keeps its promise."""
    found = []
    for place, (one, other) in enumerate(zip(first.events, neighbour.events, strict=False)):
        if one != other:
            found.append(f"event {place} is {one[0]} {'of other content' if one[0] == other[0] else f'or {other[0]}'}")
            break
    if not found and len(first.events) != len(neighbour.events):
        found.append(f"{len(first.events)} events or {len(neighbour.events)}")
    if any(len(trace.draws) != len(trace.charges) for trace in (first, neighbour)) and not found:
        found.append("the number of draws is not that of charges")
    return found + [
        f"draw {place} ({one.kind}) saw inputs further apart than it was charged for"
        for place, (one, other, charge) in enumerate(zip(first.draws, neighbour.draws, first.charges, strict=False))
        if not affordable(one, other, first.currency, charge.amount)
    ]


def used(first: Trace, neighbour: Trace) -> float:
    """The largest part of a charge that the inputs of its draw account for: near 1, a larger move would be seen."""
    triples = zip(first.draws, neighbour.draws, first.charges, strict=False)
    parts = [float(COSTS[one.kind](one, other, first.currency)) / float(charge.amount)
             for one, other, charge in triples if charge.amount]  # fmt: skip
    return max(parts, default=0.0)


def affordable(first: Draw, neighbour: Draw, currency: Currency, amount: Fraction) -> bool:
    """Whether the loss of one draw, by its two exact inputs, is at most the amount that was charged."""
    if [array.shape for array in first.seen] != [array.shape for array in neighbour.seen]:
        return False
    cost = COSTS[first.kind](first, neighbour, currency)
    return cost <= (amount if isinstance(cost, Fraction) else float(amount) * (1 + _TOLERANCE) + 1e-15)


def _noise_cost(first: Draw, neighbour: Draw, currency: Currency) -> Fraction:
    """Exact: L1 / b, L2^2 / (2 sigma^2) or L2^2 / sigma^2."""
    moves = [abs(int(one) - int(other)) for one, other in zip(first.seen[0], neighbour.seen[0], strict=True)]
    law, scale = Noise(first.public[0]), Fraction(first.public[1])
    if law is Noise.LAPLACE:
        return sum(moves) / scale if currency is Currency.PURE else Fraction(1 << 60)
    square = sum(move * move for move in moves) / scale**2
    return square / 2 if (law, currency) == (Noise.GAUSSIAN, Currency.ZCDP) else square


def _argmax_cost(first: Draw, neighbour: Draw, currency: Currency) -> float:
    """Adding one number to all scores changes no law: only the spread of the moves counts."""
    moves = neighbour.seen[0].astype(np.float64) - first.seen[0].astype(np.float64)
    return range_cost(float(np.ptp(moves)) / first.public[1], currency)


def _sample_cost(first: Draw, neighbour: Draw, currency: Currency) -> float:
    moves = (neighbour.seen[0] - first.seen[0]) * first.public[0] * math.log(2.0)
    return first.public[1] * range_cost(float(np.ptp(moves)), currency)


def _bits_cost(first: Draw, neighbour: Draw, currency: Currency) -> float:
    """Each bit has two outcomes, and a loss at each."""
    chances = [np.ldexp(np.float64(1), draw.seen[0].astype(int) - 30) * draw.seen[1] for draw in (first, neighbour)]
    at_one = np.log(chances[1] / chances[0])
    at_zero = np.log1p(-chances[1]) - np.log1p(-chances[0])
    if currency is Currency.PURE:
        return float(np.maximum(np.abs(at_one), np.abs(at_zero)).sum())
    return sum(range_cost(width, currency) for width in np.abs(at_one - at_zero).tolist())


def range_cost(width: float, currency: Currency) -> float:
    """Cost of a mechanism of bounded range ``width``, by formulas written without the kernel."""
    if currency is Currency.PURE:
        return width
    if currency is Currency.ZCDP:
        return width**2 / 8
    return float(2 * ndtri(1 / (1 + math.exp(-width / 2)))) ** 2


COSTS: dict[str, Cost] = {"noise": _noise_cost, "argmax": _argmax_cost, "sample": _sample_cost, "bits": _bits_cost}


def _no_entropy(_: object) -> NoReturn:
    raise DivergedError("the neighbour's run drew from the operating system")
