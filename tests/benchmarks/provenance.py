"""Where a result comes from: commit, machine and inputs, without the name of a host, user or path."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil

_RESULTS = (
    "tests/benchmarks/results",
    "tests/audit/results",
    "tests/audit/RESULTS.md",
    "tests/reliability/results",
    "tests/reliability/RESULTS.md",
    "tests/reliability/regressions",
)


def commit(root: Path) -> str:
    """The commit, with ``-dirty`` when files other than results differ from it; ``unknown`` outside a repository."""
    try:
        head = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", ".", *(f":!{place}" for place in _RESULTS))
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}-dirty" if changed else head


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def machine() -> dict[str, Any]:
    """Processor, usable cores, memory, system and Python."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def digest(path: Path) -> dict[str, Any]:
    """sha256 and size of a file, or of a folder: the names and contents of its files in order."""
    files = sorted(inner for inner in path.rglob("*") if inner.is_file()) if path.is_dir() else [path]
    content = hashlib.sha256()
    for file in files:
        if path.is_dir():
            content.update(file.relative_to(path).as_posix().encode() + b"\0")
        with file.open("rb") as stream:
            content.update(hashlib.file_digest(stream, "sha256").digest())
    return {"sha256": content.hexdigest(), "files": len(files), "bytes": sum(file.stat().st_size for file in files)}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
