"""Programs that run in the background of a test, and end with it whatever happens."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

STOP_SECONDS = 20


@contextmanager
def daemon(
    command: Sequence[str], log: Path, environment: Mapping[str, str], cwd: Path | None = None
) -> Iterator[None]:
    """One program in a process group of its own, so that what it starts ends with it.

    log: File of its output.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=dict(environment), cwd=cwd, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield
    finally:
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, how)
                process.wait(STOP_SECONDS)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def free_port(address: str = "127.0.0.1") -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as chosen:
        chosen.bind((address, 0))
        port: int = chosen.getsockname()[1]
        return port
