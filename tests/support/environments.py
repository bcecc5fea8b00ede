"""Environments of programs that cannot live in this one, because their pinned packages conflict with Marquee's.

Each is installed from a locked file of ``deploy/requirements``, as `make` installs this one, and kept beside it.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from tests.support.datasets import ROOT


def environment(name: str) -> Path:
    """The folder of programs of the environment of ``deploy/requirements/NAME.txt``, installed when it is first needed.

    Raises:
        RuntimeError: The packages cannot be installed. The message says what pip said.
    """
    lock = ROOT / "deploy" / "requirements" / f"{name}.txt"
    folder = ROOT / f".venv-{name}"
    stamp = folder / ".lock.sha256"
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()
    folder.mkdir(exist_ok=True)
    # Two processes of the suite may want the same environment.
    with (ROOT / f".venv-{name}" / ".installing").open("w") as installing:
        fcntl.flock(installing, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != digest:
            stamp.unlink(missing_ok=True)
            _install(folder, lock)
            stamp.write_text(digest)
    return folder / "bin"


def bytecode(name: str) -> dict[str, str]:
    """Variables of processes of an environment, so that all share their bytecode, and none is beside other files."""
    return {"PYTHONPYCACHEPREFIX": str(ROOT / f".venv-{name}" / "bytecode")}


def _install(folder: Path, lock: Path) -> None:
    for part in ("bin", "include", "lib", "lib64"):
        path = folder / part
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)
    venv.create(folder, with_pip=True)
    command = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
    command += ["install", "--no-compile", "--no-deps", "--require-hashes", "-r", lock]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{lock.name} cannot be installed; want a package index that pip reaches:\n{done.stderr}")
