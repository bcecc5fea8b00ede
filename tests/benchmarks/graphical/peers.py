"""Other implementations, run by scripts of this package in an environment of their own (`make peers`)."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
MBI = "mbi 2.0.0"


def missing() -> str | None:
    """Why no peer can run here; None when they can."""
    return None if PYTHON.exists() else "peer not installed: run make peers"


def run_mbi(task: Mapping[str, Any], arrays: Mapping[str, NDArray[np.floating | np.integer]]) -> dict[str, float]:
    """The figures that ``mbi_script`` gives for a task; see there. Raises CalledProcessError when it fails."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "task.json").write_text(json.dumps(task))
        np.savez(folder / "arrays.npz", **arrays)
        command = [str(PYTHON), "-m", "tests.benchmarks.graphical.mbi_script", str(folder)]
        subprocess.run(command, cwd=ROOT, check=True)
        figures: dict[str, float] = json.loads((folder / "figures.json").read_text())
    return figures
