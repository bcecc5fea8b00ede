"""What a benchmark consists of: inputs, the measured work, its error, and the targets that it must meet."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

S = TypeVar("S")
R = TypeVar("R")
Figures = Mapping[str, float]
Inputs = Mapping[str, Path]

_RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}


@dataclass(frozen=True)
class Run:
    """One measured fresh process, as the result file stores it.

    cpu_seconds, wall_seconds: Of the measured work; CPU is user and system of the whole process tree.
    process_cpu_seconds: Of the process from its start to the end of the work, imports and preparation included.
    peak_rss_mb: Peak resident memory up to the end of the work, the tree's processes added up.
    error: Measured error of the work's result, for this seed.
    baselines: By name of a trivial baseline, its error in the same terms.
    facts: Other numbers worth keeping.
    """

    seed: int
    cpu_seconds: float
    wall_seconds: float
    process_cpu_seconds: float
    peak_rss_mb: float
    error: Figures
    baselines: Mapping[str, Figures]
    facts: Figures


@dataclass(frozen=True)
class Target:
    """``got`` of the stored runs must stand in ``relation`` to ``limit``."""

    name: str
    relation: str
    limit: float
    got: Callable[[Sequence[Run]], float]

    @property
    def wanted(self) -> str:
        return f"{self.relation} {self.limit:g}"

    def met(self, got: float) -> bool:
        return bool(_RELATIONS[self.relation](got, self.limit))


@dataclass(frozen=True)
class Judgement:
    """What is computed after the clock has stopped; see Run."""

    error: Figures
    baselines: Mapping[str, Figures] = field(default_factory=dict)
    facts: Figures = field(default_factory=dict)


@dataclass(frozen=True)
class Peer(Generic[S]):
    """Another implementation of the same work, timed in a fresh process of its own on the same inputs.

    figures: From what its work gave, what is stored beside its times.
    seeds: One fresh process each; None for the seeds of the case.
    missing: Why it cannot run here, or None. The case runs without it.
    """

    name: str
    work: Callable[[S], Any]
    figures: Callable[[Any], Figures] | None = None
    seeds: Sequence[int] | None = None
    missing: Callable[[], str | None] = lambda: None


@dataclass(frozen=True)
class Case(Generic[S, R]):
    """One benchmark.

    params: Sizes and settings, stored with the result.
    seeds: One fresh process each.
    inputs: Paths of the inputs by name, below a folder that is kept between runs; makes those that are missing.
    prepare: What a run needs besides its inputs; not measured.
    work: The measured work.
    judge: Error and baselines of the result; not measured.
    cold: Whether a run with an empty compile cache comes first; without it the first seed's run is the cold one.
    """

    params: Mapping[str, Any]
    seeds: Sequence[int]
    inputs: Callable[[Path], Inputs]
    prepare: Callable[[Inputs, int], S]
    work: Callable[[S], R]
    judge: Callable[[S, R], Judgement]
    targets: Sequence[Target]
    peer: Peer[S] | None = None
    cold: bool = True


def load_case(module: str) -> Case[Any, Any]:
    """The CASE of a module."""
    case = importlib.import_module(module).CASE
    assert isinstance(case, Case)
    return case


def mean_cpu_seconds(runs: Sequence[Run]) -> float:
    return sum(run.cpu_seconds for run in runs) / len(runs)
