"""``python -m tests.roles``: plays all roles, prints what happened, and stores it in results.json."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.provenance import commit
from tests.roles.playing import played
from tests.roles.steps import Step, steps_of
from tests.support.checks import ROOT
from tests.support.snippets import follows

RESULTS: Final = Path(__file__).parent / "results.json"
ROLES: Final = {
    "statistician with a CSV file": "docs/guides/statistician.md",
    "data scientist with a frame": "docs/guides/data_scientist.md",
    "privacy reviewer": "docs/guides/reviewer.md",
    "anyone, from the README": "README.md",
}


def steps_for(page: str) -> list[Step]:
    """The steps of a page, after those of the page in whose folder it goes on."""
    text = (ROOT / page).read_text(encoding="utf-8")
    before = follows(text)
    return [*(steps_for(f"docs/{before}") if before else []), *steps_of(text)]


def installed(folder: Path) -> Path:
    """Installs the wheel of this checkout into a new environment; the folder of its programs."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True,
        capture_output=True,
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    programs = folder / "venv" / "bin"
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, f"{wheel}[report]", "--constraint", _constraints(folder)], check=True)
    return programs


def _constraints(folder: Path) -> str:
    """The locked versions without their hashes."""
    locked = (ROOT / "deploy/requirements/test.txt").read_text().splitlines()
    path = folder / "constraints.txt"
    path.write_text("\n".join(line.rstrip(" \\") for line in locked if "==" in line and not line.startswith(" ")))
    return str(path)


def main() -> int:
    """Plays every role in a folder of its own; 1 if a step fails."""
    results: dict[str, Any] = {"commit": commit(ROOT), "roles": {}}
    with tempfile.TemporaryDirectory() as scratch:
        programs = installed(Path(scratch))
        for number, (role, page) in enumerate(ROLES.items()):
            folder = Path(scratch) / f"role-{number}"
            folder.mkdir()
            record = played(steps_for(page), folder, programs)
            results["roles"][role] = _summary(page, json.loads(json.dumps(record).replace(str(folder), "FOLDER")))
            print(role, {key: value for key, value in results["roles"][role].items() if key != "steps"})
        shutil.rmtree(programs.parent)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return int(any(role["failed"] for role in results["roles"].values()))


def _summary(page: str, record: list[dict[str, Any]]) -> dict[str, Any]:
    run = [step for step in record if "runs" in step]
    return {
        "page": page,
        "commands": len(run),
        "files": len(record) - len(run),
        "wall_seconds": round(sum(step["wall_seconds"] for step in run), 1),
        "cpu_seconds": round(sum(step["cpu_seconds"] for step in run), 1),
        "failed": [step["runs"] for step in run if step["exit_code"]],
        "steps": record,
    }


if __name__ == "__main__":
    sys.exit(main())
