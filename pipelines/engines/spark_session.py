# py4j has no annotations.
# mypy: disable-error-code="import-untyped"
"""Spark sessions: a new one, and what kind of session one is. Spark 3.5 and 4 are supported."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dpcore.errors import EngineError
from pipelines.engines.code_archive import PACKAGES, ROOT, write_archive
from pipelines.engines.java import find_java

_SENT = "_marquee_packages_sent"
_DAEMON = "pipelines.engines.spark_daemon"


def open_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """The active session, or else a new one on the configured master (local[*] outside a cluster).

    settings: Spark settings of a new session, by name. With ``spark.remote``, or the environment variable
        ``SPARK_REMOTE``, it is a session of Spark Connect, which needs no Java on this machine.

    Raises: EngineError when there is no Java, or Spark does not start.
    """
    if session := SparkSession.getActiveSession():
        return session
    settings = settings or {}
    remote = "spark.remote" in settings or "SPARK_REMOTE" in os.environ
    # Under spark-submit the JVM is already running; otherwise this process starts it.
    if not remote and "PYSPARK_GATEWAY_PORT" not in os.environ and SparkContext._gateway is None:
        os.environ["JAVA_HOME"] = str(find_java().home)
    # Spark's default is the `python3` on PATH, which may lack the packages of this process.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        own = {} if remote else {**_checkout(), **_daemon(settings)}
        all_settings: dict[str, bool | float | int | str | None] = {**own, **settings}
        return SparkSession.builder.config(map=all_settings).getOrCreate()
    except (Py4JError, PySparkException, OSError) as error:
        raise EngineError(f"Spark does not start ({type(error).__name__}); see its own log for the reason") from None


def context_of(session: SparkSession) -> SparkContext | None:
    """The context of a classic session; None for a session of Spark Connect, which has no RDDs."""
    context = getattr(session, "_sc", None)
    return context if isinstance(context, SparkContext) else None


def send_packages(session: SparkSession) -> None:
    """Sends this project's code to the workers of a Spark Connect server, once a session, unless they have it.

    Raises: EngineError when the server refuses it.
    """
    if getattr(session, _SENT, False):
        return
    if _have_this_code(session):
        setattr(session, _SENT, True)
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "marquee.zip"
        write_archive(archive)
        try:
            _artifacts(session)(str(archive), pyfile=True)
        except PySparkException as error:
            raise EngineError(
                f"Spark Connect does not accept the code of tasks ({type(error).__name__}); want a server that allows "
                "artifacts, or Marquee installed on its workers"
            ) from None
    setattr(session, _SENT, True)


def _code_digest() -> Callable[[], str]:
    """A function that gives the SHA-256 of the code of this project, as it is installed where the function runs.

    A function within a function is sent to workers as it is, and this one imports nothing of this project: a worker
    that had imported another version of it would go on with that version when it gets this one.
    """
    packages = PACKAGES

    def digest() -> str:
        import hashlib
        from importlib.util import find_spec
        from pathlib import Path

        spec = find_spec(packages[0])
        if spec is None or spec.origin is None:
            return ""
        root = Path(spec.origin).parents[1]
        files = [path for package in packages for path in sorted((root / package).rglob("*.py"))]
        total = hashlib.sha256()
        for path in files:
            total.update(f"{path.relative_to(root).as_posix()}\n".encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
        return total.hexdigest()

    return digest


def _have_this_code(session: SparkSession) -> bool:
    """Whether the workers of a server have exactly this project's code. What runs there imports nothing of it."""
    digest = _code_digest()

    def report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"digest": [digest()]})

    try:
        rows = session.range(1).mapInArrow(report, "digest string").collect()
    except PySparkException:
        return False
    return [row["digest"] for row in rows] == [digest()]


def _artifacts(session: SparkSession) -> Any:
    """``addArtifacts``, which Spark 3.5 has on sessions of Spark Connect alone."""
    return getattr(session, "addArtifacts")  # noqa: B009


def _daemon(settings: Mapping[str, str]) -> dict[str, str]:
    """The setting that prepares workers, where this process starts them, so that they have this project's code."""
    local = "PYSPARK_GATEWAY_PORT" not in os.environ and settings.get("spark.master", "local").startswith("local")
    return {"spark.python.daemon.module": _DAEMON} if local else {}


def _checkout() -> dict[str, str]:
    """The setting that lets workers import a checkout, if this code runs from one."""
    return {"spark.executorEnv.PYTHONPATH": str(ROOT)} if (ROOT / "pyproject.toml").is_file() else {}
