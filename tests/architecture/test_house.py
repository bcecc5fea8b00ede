"""The house rules that a machine can check over the whole repository."""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
from pathlib import Path

import pytest

from tests.support.checks import PACKAGES, ROOT, command_of_make_check, run

UNTRACKED = {
    ".git",
    ".venv",
    ".venv-docs",
    ".venv-peers",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    "out",
    "dist",
}
LOCKS = sorted((ROOT / "deploy" / "requirements").glob("*.txt"))
FOREIGN = {
    "a package index": re.compile(
        r"https?://[^\s\"']*/(simple|packages)/|pypi\.org|pythonhosted\.org|registry\.[a-z]+\.(org|com)"
    ),
    "a path of one machine": re.compile(r"(?<![\w.$}])/(work|root)/|" + re.escape(f"{ROOT}/")),
}
PIN = re.compile(r"^(?P<name>[a-z0-9._-]+(\[[a-z,]+\])?)==(?P<version>\S+)(?P<marker> ; [^\\]+)? \\$", re.MULTILINE)


def files() -> list[Path]:
    """Every file that is or may become part of the repository."""
    if shutil.which("git") and (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout.split("\0")  # fmt: skip
        return [ROOT / name for name in listed if name and (ROOT / name).is_file()]
    found = (path for path in ROOT.rglob("*") if not UNTRACKED & set(path.relative_to(ROOT).parts))
    return [path for path in found if path.is_file() and ROOT / "tests" / "benchmarks" / "data" not in path.parents]


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="ignore")


def lines(path: Path) -> int:
    return len(text(path).splitlines())


def test_no_source_file_is_over_400_lines() -> None:
    assert [path for path in files() if path.suffix == ".py" and lines(path) > 400] == []


def test_the_median_source_file_is_under_200_lines() -> None:
    sizes = [
        lines(path) for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.name != "__init__.py"
    ]
    assert statistics.median(sizes) < 200


def test_no_file_is_over_a_megabyte() -> None:
    assert [path for path in files() if path.stat().st_size > 1_000_000] == []


@pytest.mark.parametrize("what", FOREIGN)
def test_no_file_names(what: str) -> None:
    assert [path for path in files() if FOREIGN[what].search(text(path))] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_requirements_are_pinned_and_hashed_without_urls(lock: Path) -> None:
    content = lock.read_text()
    assert "://" not in content
    assert "--index-url" not in content
    entries = re.split(r"\n(?! )", content.strip())
    assert all(PIN.match(entry) and "--hash=sha256:" in entry for entry in entries)


def test_the_core_environment_is_part_of_the_test_environment() -> None:
    def pins(name: str) -> set[tuple[str, str]]:
        content = (ROOT / "deploy" / "requirements" / name).read_text()
        return {(match["name"].split("[")[0], match["version"]) for match in PIN.finditer(content)}

    assert pins("core.txt") <= pins("test.txt")


def test_a_type_error_turns_the_check_red(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("def f(x: int) -> str:\n    return x\n")
    strict = command_of_make_check("mypy").replace(" ".join(PACKAGES), "wrong.py")
    result = run(f"{strict} --cache-dir {tmp_path / 'cache'}", tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Incompatible return value type" in result.stdout


def test_an_unformatted_file_turns_the_check_red(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("x = [1,\n 2]\n")
    assert run(f"{command_of_make_check('ruff format')} --no-cache", tmp_path).returncode == 1
