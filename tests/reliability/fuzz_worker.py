"""Runs inputs in a process that may die: each is in a shared file before it is read, with a limit of CPU and memory.

``python -m tests.reliability.fuzz_worker PLAN`` reads a plan (JSON) and writes every crash to the file that it names.
"""

from __future__ import annotations

import base64
import itertools
import json
import logging
import mmap
import os
import random
import re
import resource
import signal
import struct
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import structlog

from tests.reliability.fuzz_mutations import LARGEST
from tests.reliability.fuzz_seeds import make_world
from tests.reliability.fuzz_targets import Target, targets
from tests.support.recorded_randomness import recorded

CPU_SECONDS = 2.0  # Of one input; more kill the process.
MEMORY = 1 << 30  # Bytes of address space that inputs may need in addition.
ROOT = Path(__file__).parents[2]
_HEADER = struct.Struct("<4Q")
STATE_BYTES = _HEADER.size + LARGEST
_TRACED = 32  # One in so many inputs is run with a trace of the lines of the product that it reaches.
_CORPUS = 400
_TRIES = 400  # Of making a crashing input smaller.


@dataclass
class State:
    """What the parent can read after this process has died.

    target: Number of the target in the plan. done: Inputs that were begun. refused: Inputs that were refused.
    """

    memory: Any
    target: int = 0
    done: int = 0
    refused: int = 0

    def begin(self, data: bytes) -> None:
        header = _HEADER.pack(self.target, self.done, self.refused, len(data))
        self.memory[: _HEADER.size + len(data)] = header + data

    @staticmethod
    def read(content: bytes) -> tuple[int, int, int, bytes]:
        """(target, done, refused, the last input)."""
        target, done, refused, length = _HEADER.unpack_from(content)
        return target, done, refused, content[_HEADER.size : _HEADER.size + length]


@dataclass
class Coverage:
    """Lines of the product that were reached, by the interpreter's trace."""

    lines: set[tuple[CodeType, int]] = field(default_factory=set)
    known: dict[CodeType, bool] = field(default_factory=dict)

    def grows(self, action: Callable[[], None]) -> bool:
        """Runs the action; whether it reached a new line."""
        before = len(self.lines)
        sys.settrace(self._enter)
        try:
            action()
        finally:
            sys.settrace(None)
        return len(self.lines) > before

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        if code not in self.known:
            path = Path(code.co_filename)
            inside = ROOT in path.parents and path.relative_to(ROOT).parts[0] in ("dpcore", "pipelines", "jobs")
            self.known[code] = inside
        return self._line if self.known[code] else None

    def _line(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            self.lines.add((frame.f_code, frame.f_lineno))
        return self._line


class Fuzzer:
    """Mutates the inputs of one target. An input that reaches a new line, or a refusal in new words, joins them."""

    def __init__(self, target: Target, rng: random.Random, state: State, crashes: Path) -> None:
        self.target, self.rng, self.state, self.crashes = target, rng, state, crashes
        self.corpus = list(target.seeds)
        self.coverage = Coverage()
        self.said: set[str] = set()
        self.found: set[str] = set()

    def run(self, count: int) -> None:
        for number in range(count):
            former = self.rng.choice(self.target.seeds if self.rng.random() < 0.5 else self.corpus)
            data = self.target.mutate(self.rng, former, self.corpus)
            self.state.done += 1
            outcome: list[str] = []
            if number % _TRACED:
                self._outcome(data, outcome)
                is_new = False
            else:
                is_new = self.coverage.grows(lambda data=data, outcome=outcome: self._outcome(data, outcome))  # type: ignore[misc]
            kept = is_new or (not outcome and self.rng.random() < 0.02)
            if kept and len(self.corpus) < _CORPUS and data not in self.corpus:
                self.corpus.append(data)

    def _outcome(self, data: bytes, outcome: list[str]) -> None:
        self.state.begin(data)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            self.target.read(data)
        except self.target.refusals as error:
            self.state.refused += 1
            outcome.append(str(error))
            words = re.sub(r"[^a-z ]+|'[^']*'", "", str(error)[:200])
            if words not in self.said and len(self.corpus) < _CORPUS:
                self.said.add(words)
                self.corpus.append(data)
        except Exception as error:  # noqa: BLE001 - whatever the target does not promise is a crash
            self._crash(data, error)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _crash(self, data: bytes, error: Exception) -> None:
        signature = signature_of(error)
        line: dict[str, Any] = {"target": self.target.name, "signature": signature}
        if signature not in self.found:
            self.found.add(signature)
            line |= {"input": base64.b64encode(self._smaller(data, signature)).decode(), "message": str(error)[:300]}
        with open(self.crashes, "a") as file:
            file.write(json.dumps(line) + "\n")

    def _smaller(self, data: bytes, signature: str) -> bytes:
        """The input without what the crash does not need."""
        tries = itertools.count()
        size = max(1, len(data) // 2)
        while size and next(tries) < _TRIES:
            for start in range(0, len(data), size):
                shorter = data[:start] + data[start + size :]
                if next(tries) < _TRIES and self._signature(shorter) == signature:
                    data = shorter
                    break
            else:
                size //= 2
        return data

    def _signature(self, data: bytes) -> str | None:
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            self.target.read(data)
        except self.target.refusals:
            return None
        except Exception as error:  # noqa: BLE001 - as in _outcome
            return signature_of(error)
        return None


def signature_of(error: Exception) -> str:
    """The kind of an exception, and the innermost line of the product that it went through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if re.search(r"/(dpcore|pipelines|jobs)/", frame.filename.removeprefix(str(ROOT)))
           and frame.filename.startswith(str(ROOT)) and "site-packages" not in frame.filename]  # fmt: skip
    last = (own or frames)[-1]
    return f"{type(error).__name__} at {os.path.relpath(last.filename, ROOT)}:{last.lineno}"


def main(plan_path: str) -> None:
    """Runs a plan: folder, seed, state and crashes (files), targets (a list of name and count), and planted faults."""
    plan = json.loads(Path(plan_path).read_text())
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    folder = Path(tempfile.mkdtemp(dir=plan["folder"]))
    with open(plan["state"], "r+b") as file:
        state = State(mmap.mmap(file.fileno(), STATE_BYTES), plan["first"])
        (folder / "inputs").mkdir()
        known = {target.name: target for target in planted(plan["planted"])}
        if not known:
            with recorded(f"{plan['seed']} world"):
                known = targets(make_world(folder / "world"), folder / "inputs")
        for target, _ in plan["targets"]:  # Also loads what the first input would otherwise wait for.
            for seed in known[target].seeds:
                known[target].read(seed)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        _limit_memory()
        for state.target, (target, count) in enumerate(plan["targets"][plan["first"] :], plan["first"]):
            state.done = plan["done"] if state.target == plan["first"] else 0
            state.refused = plan["refused"] if state.target == plan["first"] else 0
            rng = random.Random(f"{plan['seed']} {target} {state.done}")
            Fuzzer(known[target], rng, state, Path(plan["crashes"])).run(count - state.done)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            end = {"target": target, "inputs": state.done, "refused": state.refused, "peak": peak}
            with open(plan["crashes"], "a") as crashes:
                crashes.write(json.dumps(end) + "\n")


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def planted(names: Sequence[str]) -> list[Target]:
    """Readers with a fault each, for the tests of this program."""

    def read(data: bytes) -> object:
        number = data.count(b"!")
        if number < 3:
            return None
        match names[0] if len(names) == 1 else "raises":
            case "raises":
                raise KeyError(number)
            case "never ends":
                while True:
                    pass
            case "takes all memory":
                return bytearray(1 << 34)
            case _:
                os.kill(os.getpid(), signal.SIGSEGV)
        return None

    def more(rng: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
        return data + rng.choice((b"a", b"b", b"!"))

    return [Target(f"planted: {name}", [b"ab!", b"!!c"], more, read, ()) for name in names]


if __name__ == "__main__":
    main(sys.argv[1])
