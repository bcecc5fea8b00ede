"""Processes that run ``marquee run``, each with a fault of its own, forked from one process that is already warm.

Starting Python, importing everything and loading the compiled kernels takes ten times as long as a small release.
"""

from __future__ import annotations

import base64
import importlib
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import psutil

from tests.support.datasets import ROOT

Prepare = Callable[[], None]
SECONDS = 300.0
HUNG = 1000  # In place of an exit code.
_COUNT = [0]


@dataclass(frozen=True)
class Ended:
    """A process that has ended.

    code: As ``Popen.returncode``: minus the signal, if one killed it; HUNG if it did not end within SECONDS.
    said: What it wrote to stdout and stderr.
    """

    code: int
    said: str


@dataclass(frozen=True)
class Running:
    """A process that was started. said: A pipe, because a full disk must not swallow what it says."""

    process: psutil.Process
    said: int
    server: Drivers

    def end(self) -> Ended:
        """Waits until the process has ended."""
        code = self.server.wait(self.process.pid)
        os.set_blocking(self.said, False)
        text = bytearray()
        try:
            while part := os.read(self.said, 1 << 16):
                text += part
        except BlockingIOError:
            pass
        os.close(self.said)
        return Ended(code, text.decode(errors="replace"))


@dataclass(frozen=True)
class Drivers:
    """The warm process. requests, replies: Its stdin and stdout. folder: For pipes."""

    requests: IO[bytes]
    replies: IO[bytes]
    folder: Path

    def start(self, config: Path, prepare: Sequence[Prepare] = ()) -> Running:
        """Starts ``marquee run config``. prepare: What the new process calls first; each can be pickled."""
        _COUNT[0] += 1
        pipe = self.folder / str(_COUNT[0])
        os.mkfifo(pipe)
        said = os.open(pipe, os.O_RDWR)  # Reading and writing, so that neither end waits for the other.
        task = pickle.dumps((str(config), str(pipe), tuple(prepare)))
        pid = self._ask(b"start " + base64.b64encode(task))
        return Running(psutil.Process(pid), said, self)

    def run(self, config: Path, *prepare: Prepare) -> Ended:
        """Runs ``marquee run config`` to its end."""
        return self.start(config, prepare).end()

    def wait(self, pid: int) -> int:
        return self._ask(b"wait %d" % pid)

    def _ask(self, request: bytes) -> int:
        self.requests.write(request + b"\n")
        self.requests.flush()
        return int(self.replies.readline())


@contextmanager
def warm_drivers() -> Iterator[Drivers]:
    """Starts the warm process, and ends it with all that it started."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment
        )
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdout.readline()  # It is warm.
        try:
            yield Drivers(server.stdin, server.stdout, Path(folder))
        finally:
            children = psutil.Process(server.pid).children(recursive=True)
            server.stdin.close()
            for child in children:
                child.kill()
            server.wait()
            server.stdout.close()


def main() -> None:
    """The warm process: answers each line of stdin with a number on stdout."""
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # A release writes events to stdout where nothing is configured.
        _warm_up()
        replies.write("0\n")
        replies.flush()
        for line in sys.stdin.buffer:
            word, _, argument = line.strip().partition(b" ")
            replies.write(f"{_fork(argument) if word == b'start' else _wait(int(argument))}\n")
            replies.flush()


def _warm_up() -> None:
    from jobs.planning.job import load_job
    from jobs.release.run import release
    from tests.reliability.scene import new_scene

    importlib.import_module("tests.reliability.faults")  # Its actions are unpickled in every process.
    with TemporaryDirectory() as folder:
        release(load_job(new_scene(Path(folder) / "warm").config))


def _fork(task: bytes) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        config, pipe, prepare = pickle.loads(base64.b64decode(task))
        said = os.open(pipe, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(said, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _drive(config, prepare)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException as error:  # noqa: BLE001 - the process must end here, and must not go on as the server
        sys.stderr.write(f"the driver failed before or after the command: {error!r}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _drive(config: str, prepare: Sequence[Prepare]) -> None:
    from jobs import cli

    for step in prepare:
        step()
    cli.main(["run", config])


def _wait(pid: int) -> int:
    deadline = time.monotonic() + SECONDS
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return HUNG
        time.sleep(0.01)


if __name__ == "__main__":
    main()
