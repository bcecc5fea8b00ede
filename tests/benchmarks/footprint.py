"""pip install of the wheel into an empty environment: size on disk, packages, and processor time."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.case import Case, Inputs, Judgement, Target, mean_cpu_seconds
from tests.support.wheels import build_wheel, installed


@dataclass(frozen=True)
class State:
    """The wheel, and the empty folder of an environment. scratch: What deletes both."""

    wheel: Path
    folder: Path
    scratch: tempfile.TemporaryDirectory[str]


def inputs(_cache: Path) -> Inputs:
    return {}


def prepare(_paths: Inputs, _seed: int) -> State:
    scratch = tempfile.TemporaryDirectory()
    return State(build_wheel(Path(scratch.name)), Path(scratch.name) / "venv", scratch)


def work(state: State) -> Path:
    return installed(Path(sys.executable), state.wheel, state.folder)


def judge(_state: State, programs: Path) -> Judgement:
    """Whether the program starts; what pip brought itself does not count."""
    packages = next((programs.parent / "lib").glob("python*")) / "site-packages"
    size = {path.name: _megabytes(path) for path in packages.iterdir() if path.name.split("-")[0] not in PIP}
    count = sum(name.endswith(".dist-info") for name in size)
    started = subprocess.run([programs / "marquee", "--help"], check=False, capture_output=True).returncode
    return Judgement({"failed_starts": float(started != 0)}, facts={"mb": sum(size.values()), "packages": float(count)})


PIP = {"pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils"}


def _megabytes(path: Path) -> float:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files if "__pycache__" not in file.parts) / 1e6


CASE = Case(
    params={"python": "3.11", "compiled": False, "source packages": "none: --only-binary :all:"},
    seeds=(1, 2, 3),
    inputs=inputs,
    prepare=prepare,
    work=work,
    judge=judge,
    targets=(
        Target("MB on disk, bytecode apart", "<=", 600.0, lambda runs: max(run.facts["mb"] for run in runs)),
        Target("packages", "<=", 40.0, lambda runs: max(run.facts["packages"] for run in runs)),
        Target("CPU seconds", "<=", 60.0, mean_cpu_seconds),
        Target("failed starts", "==", 0.0, lambda runs: max(run.error["failed_starts"] for run in runs)),
    ),
    cold=False,
)
