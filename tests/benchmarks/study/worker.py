"""A child process that makes releases, ended from outside once one takes too many CPU seconds or too much memory."""

from __future__ import annotations

import functools
import multiprocessing
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np
import psutil
from numpy.typing import NDArray

from dpcore.errors import MarqueeError
from dpcore.evaluation import exact_answers
from tests.benchmarks.figures.runs import Remembered
from tests.benchmarks.graphical.definition26 import workload_error
from tests.benchmarks.graphical.releases import Settings, made, mechanism, private_of
from tests.benchmarks.study.configurations import Configuration, configuration
from tests.benchmarks.study.facts import facts_of

CANDIDATES: Final[Mapping[str, tuple[str, Settings]]] = {
    "gaussian": ("gaussian", {}),
    "independent": ("independent", {}),
    "mst": ("mst", {}),
    "hdmm": ("hdmm", {}),
    "hdmm_nonnegative": ("hdmm", {"answers": "nonnegative"}),
    "adaptive_residuals": ("adaptive_residuals", {}),
    "clique_tree": ("clique_tree", {}),
    "gaussian_pgm": ("gaussian_pgm", {}),
    "mwem_pgm": ("mwem_pgm", {}),
    "aim": ("aim", {}),
}
_POLL: Final = 0.5  # Seconds between two looks at the child.
_BYTES: Final = 6 * 2**30


@dataclass(frozen=True)
class Task:
    """A release of the setting ``family``-``number`` by a candidate; an empty candidate asks for the facts."""

    family: str
    number: int
    candidate: str = ""
    seed: int = 0


class EndedError(Exception):
    """The child ended without an answer, mostly because its task took too much."""


@dataclass
class Worker:
    """Serves one task after another, so that compiled code is loaded once.

    seconds: CPU seconds that a task may take. The child is started again after a task that took more.
    spent: CPU seconds of all children until now.
    """

    seconds: float
    spent: float = 0.0
    _process: Any = field(default=None, repr=False)
    _pipe: Connection | None = field(default=None, repr=False)

    def ask(self, task: Task, seconds: float | None = None) -> Any:
        """The facts of a setting, or (error, CPU seconds), or the text of a refusal.

        Raises EndedError after ``seconds``, too much memory, or where the child ends by itself.
        """
        self._start()
        assert self._pipe is not None
        self._pipe.send(task)
        try:
            self._wait(self.seconds if seconds is None else seconds)
            return self._pipe.recv()
        except (EOFError, ConnectionError, psutil.NoSuchProcess) as error:
            self.stop()
            raise EndedError from error

    def _wait(self, seconds: float) -> None:
        """Until there is an answer. Raises EndedError."""
        assert self._pipe is not None
        child = psutil.Process(self._process.pid)
        before = used = _cpu(child)
        while not self._pipe.poll(_POLL):
            used = _cpu(child)
            if used - before > seconds or child.memory_info().rss > _BYTES:
                self.spent += used - before
                self.stop()
                raise EndedError
        self.spent += _cpu(child) - before

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process, self._pipe = None, None

    def _start(self) -> None:
        if self._process is None:
            context = multiprocessing.get_context("spawn")  # A fork would share threads of compiled code
            self._pipe, inner = context.Pipe()
            self._process = context.Process(target=_serve, args=(inner,), daemon=True)
            self._process.start()


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _serve(pipe: Connection) -> None:
    while True:
        task = pipe.recv()
        try:
            if task.candidate:
                pipe.send(release(task))
            else:
                pipe.send(facts_of(configuration(task.family, task.number)))
        except (MarqueeError, ValueError, MemoryError) as error:
            pipe.send(f"{type(error).__name__}: {error}"[:120])


@dataclass(frozen=True, eq=False)
class _Opened:
    """SENSITIVE, were the rows anybody's."""

    configuration: Configuration
    statistics: Remembered
    exact: NDArray[np.int64]


@functools.lru_cache(maxsize=1)
def _opened(family: str, number: int) -> _Opened:
    setting = configuration(family, number)
    statistics = Remembered(setting.table())
    return _Opened(setting, statistics, exact_answers(statistics, setting.workload.queries))


def release(task: Task) -> tuple[float, float]:
    """Error by Definition 26, and CPU seconds of the release, counting included where it asks for other marginals.

    Raises ConfigError and others where the mechanism does not accept the setting.
    """
    opened, asked = _opened(task.family, task.number), mechanism(*CANDIDATES[task.candidate])
    setting = opened.configuration
    start = time.process_time()
    private = private_of(opened.statistics, asked, setting.epsilon)
    answers = made(asked, private, setting.workload, task.seed, rows=False).release.answers.values
    seconds = time.process_time() - start
    return workload_error(setting.workload, answers, opened.exact, setting.rows), seconds
