"""`make` and `.ci/run`: what they check first, what they refuse to do twice, what they tell the tests."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import required_data
from tests.support.checks import ROOT


def _script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{body}\n")
    path.chmod(0o755)
    return path


def _make(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)


def test_an_old_python_is_refused_in_one_sentence(tmp_path: Path) -> None:
    python = _script(tmp_path / "python3.9", '[[ "$*" == --version ]] && echo "Python 3.9.2" && exit 0; exit 1')
    result = _make("demo", f"PYTHON={python}", f"VENV={tmp_path / 'venv'}")
    assert result.returncode == 2
    assert "marquee needs Python 3.11 or newer; Python 3.9.2" in result.stderr
    assert not (tmp_path / "venv").exists()


def test_a_python_without_venv_is_refused_in_one_sentence(tmp_path: Path) -> None:
    python = _script(tmp_path / "python3.11", '[[ "$*" == *version_info* ]]')
    result = _make("demo", f"PYTHON={python}", f"VENV={tmp_path / 'venv'}")
    assert result.returncode == 2
    assert "cannot make virtual environments" in result.stderr
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize(("stamps", "target", "installs"), [
    ((), "demo", ["core.txt", "-e ."]),
    ((), "test", ["core.txt", "-e .", "test.txt"]),
    ((".core",), "demo", []),
    ((".core",), "test", ["test.txt"]),
    ((".core", ".test"), "test", []),
])  # fmt: skip
def test_nothing_is_installed_twice(tmp_path: Path, stamps: tuple[str, ...], target: str, installs: list[str]) -> None:
    _script(tmp_path / "bin" / "python", "exit 1")
    for stamp in stamps:
        (tmp_path / stamp).touch()
    printed = _make("--dry-run", target, f"VENV={tmp_path}").stdout.splitlines()
    calls = [line for line in printed if " install " in line]
    assert len(calls) == len(installs)
    assert all(line.endswith(wanted) for line, wanted in zip(calls, installs, strict=True))


def _ci(tmp_path: Path, data: Path, make: str) -> subprocess.CompletedProcess[str]:
    fake = _script(tmp_path / "bin" / "make", make)
    environment = {name: value for name, value in os.environ.items() if name != "MARQUEE_REQUIRE_DATASETS"}
    environment |= {"PATH": f"{fake.parent}{os.pathsep}{os.environ['PATH']}", "MARQUEE_DATASETS": str(data)}
    return subprocess.run([ROOT / ".ci" / "run"], env=environment, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(("exists", "required"), [(True, "1"), (False, "")])
def test_ci_checks_then_tests_and_requires_data_that_exist(tmp_path: Path, exists: bool, required: str) -> None:
    data = tmp_path / "data"
    if exists:
        data.mkdir()
    result = _ci(tmp_path, data, 'echo "$1 ${MARQUEE_REQUIRE_DATASETS-} $(cat)"')
    assert result.returncode == 0, result.stderr
    assert [line.strip() for line in result.stdout.splitlines()] == [
        f"{target} {required}".strip() for target in ("check", "test", "test-rest")
    ]


def test_ci_limits_the_time_of_the_full_tier(tmp_path: Path) -> None:
    started = time.time()
    result = _ci(tmp_path, tmp_path / "data", 'echo "$MARQUEE_FULL_TIER_UNTIL"')
    assert result.returncode == 0, result.stderr
    (until,) = set(map(int, result.stdout.split()))
    assert started + 4600 < until < 5000 + time.time()


def test_ci_stops_at_the_first_failure(tmp_path: Path) -> None:
    result = _ci(tmp_path, tmp_path, 'echo "$1"; exit 3')
    assert result.returncode == 3
    assert result.stdout.split() == ["check"]


@pytest.mark.parametrize(("required", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_an_absent_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("MARQUEE_DATASETS", str(tmp_path))
    monkeypatch.setenv("MARQUEE_REQUIRE_DATASETS", required)
    with pytest.raises(outcome, match=str(tmp_path / "raw" / "adult")):
        required_data.dataset("raw/adult")
    (tmp_path / "raw" / "adult").mkdir(parents=True)
    assert required_data.dataset("raw/adult") == tmp_path / "raw" / "adult"
