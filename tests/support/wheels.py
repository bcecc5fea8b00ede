"""The wheel of this source, interpreters that are present, and fresh environments that hold the wheel alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.datasets import ROOT

REQUIRED = "3.11"
VERSIONS = ("3.11", "3.12", "3.13")


def build_wheel(folder: Path) -> Path:
    """Builds the wheel of the working tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def interpreters() -> dict[str, Path]:
    """By version, an interpreter that works: this one, one on the path, or one of pyenv."""
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    by_version: dict[str, Path] = {}
    for version in VERSIONS:
        paths = [Path(sys.executable)] if version == running else []
        paths += [Path(path) for path in [shutil.which(f"python{version}")] if path]
        paths += sorted(pyenv.glob(f"{version}.*/bin/python"))
        working = [path for path in paths if _is(path, version)]
        if working:
            by_version[version] = working[0]
    return by_version


def _is(path: Path, version: str) -> bool:
    """Whether a program is Python of a version; a shim may stand for an interpreter that is not installed."""
    code = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", code], check=False, capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.strip() == version


def installed(python: Path, wheel: Path, folder: Path) -> Path:
    """The folder of programs of a fresh environment into which pip installed the wheel, and no source package.

    Raises:
        RuntimeError: pip failed, for example for want of a wheel of a dependency. The message holds what pip said.
    """
    subprocess.run([python, "-m", "venv", folder], check=True, capture_output=True)
    command = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    command += ["--no-compile", "--only-binary", ":all:", wheel]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise RuntimeError(
            f"the wheel cannot be installed on {python.name}; want wheels of all dependencies:\n{done.stderr}"
        )
    return folder / "bin"
