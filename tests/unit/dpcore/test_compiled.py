"""The cache of compiled kernels: found again by other processes, never stale, and never in the way of a run."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dpcore.compiled import cache_folders
from tests.support.checks import ROOT

LIBRARY = """\
from dpcore.compiled import compiled

OFFSET = 1

@compiled
def inner(value: int) -> int:
    return value + OFFSET
"""
CALLER = """\
from dpcore.compiled import compiled
from {package}.library import inner

@compiled
def outer(value: int) -> int:
    return 10 * inner(value)
"""
PROGRAM = """\
import json, logging, sys
logging.basicConfig(format="%(message)s")
from {package}.caller import outer
from dpcore.compiled import COUNTS
print(json.dumps([outer(4), COUNTS["loaded"], COUNTS["compiled"], COUNTS["stored"]]))
"""
PACKAGE = "kernels_of_a_test"


def _package(folder: Path, library: str = LIBRARY) -> Path:
    package = folder / PACKAGE
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    (package / "library.py").write_text(library)
    (package / "caller.py").write_text(CALLER.format(package=PACKAGE))
    return package


def _run(path: Path, **environment: str) -> tuple[list[int], str]:
    """The kernel's answer with how many kernels were loaded, compiled and stored, and what was logged."""
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")},
        "PYTHONPATH": os.pathsep.join([str(path), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "XDG_CACHE_HOME": str(path.parent / "home"),
        **environment,
    }
    command = [sys.executable, "-c", PROGRAM.format(package=PACKAGE)]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def _stored(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.nbc"))


def test_what_one_process_compiled_the_next_one_loads_beside_the_sources(tmp_path: Path) -> None:
    package = _package(tmp_path / "code")
    assert _run(tmp_path / "code") == ([50, 0, 2, 2], "")
    assert len(_stored(package / "__pycache__")) == 2
    assert _run(tmp_path / "code") == ([50, 1, 0, 0], "")


@pytest.mark.parametrize(("changed", "answer"), [("OFFSET = 2", 60), ("OFFSET = 1\nif True:\n    OFFSET = 3", 70)])
def test_a_changed_callee_in_another_file_is_never_stale(tmp_path: Path, changed: str, answer: int) -> None:
    package = _package(tmp_path / "code")
    _run(tmp_path / "code")
    before = _stored(package)
    _package(tmp_path / "code", LIBRARY.replace("OFFSET = 1", changed))
    assert _run(tmp_path / "code")[0] == [answer, 0, 2, 2]
    assert len(_stored(package)) == len(before), "files that no process reads any more are removed"
    assert not set(_stored(package)) & set(before)


def test_a_damaged_file_is_logged_and_replaced(tmp_path: Path) -> None:
    package = _package(tmp_path / "code")
    _run(tmp_path / "code")
    for path in (package / "__pycache__").glob("*.nbc"):
        path.write_bytes(path.read_bytes()[:100])
    counts, log = _run(tmp_path / "code")
    assert counts == [50, 0, 2, 2]
    assert log.count("\n") == 1
    assert "cannot be loaded and is compiled again" in log
    assert _run(tmp_path / "code") == ([50, 1, 0, 0], "")


class Bomb:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.mkdir, (self._path, 0o700)


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_may_write_is_not_loaded(tmp_path: Path, mode: int) -> None:
    package = _package(tmp_path / "code")
    _run(tmp_path / "code")
    for path in (package / "__pycache__").glob("*.nbc"):
        path.write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
        path.chmod(mode)
    counts, log = _run(tmp_path / "code")
    assert counts == [50, 0, 2, 2], "what others may have written is replaced"
    assert "a stored kernel is not used, because other users may have written it" in log
    assert not (tmp_path / "exploded").exists()
    assert _run(tmp_path / "code") == ([50, 1, 0, 0], "")


def test_a_file_of_another_user_is_not_loaded(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    package = _package(tmp_path / "code")
    _run(tmp_path / "code")
    for path in (package / "__pycache__").glob("*.nbc"):
        os.chown(path, 12345, 12345)
    assert _run(tmp_path / "code")[0] == [50, 0, 2, 2]
    for path in package.rglob("*"):  # An installation of its own user is that user's to fill.
        os.chown(path, 12345, 12345)
    assert _run(tmp_path / "code")[0] == [50, 1, 0, 0]


def test_sources_in_a_zip_use_the_folder_of_the_user(tmp_path: Path) -> None:
    """As an executor of a cluster has them."""
    _package(tmp_path / "code")
    shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path / "code")
    assert _run(tmp_path / "packed.zip") == ([50, 0, 2, 2], "")
    assert len(_stored(tmp_path / "home" / "marquee")) == 2
    assert _run(tmp_path / "packed.zip") == ([50, 1, 0, 0], "")


def test_without_a_folder_to_write_to_every_process_compiles_and_says_so_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    _package(tmp_path / "code")
    for _ in range(2):
        counts, log = _run(tmp_path / "code", NUMBA_CACHE_DIR=str(file))
        assert counts == [50, 0, 2, 0]
        assert log.count("\n") == 1
        assert "every process compiles them again; run `marquee warm`" in log
        assert str(file) in log


def test_a_chosen_folder_is_the_only_one(tmp_path: Path) -> None:
    _package(tmp_path / "code")
    assert _run(tmp_path / "code", NUMBA_CACHE_DIR=str(tmp_path / "chosen"))[0] == [50, 0, 2, 2]
    assert len(_stored(tmp_path)) == len(_stored(tmp_path / "chosen")) == 2


def test_where_there_is_no_home_there_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert list(cache_folders(str(tmp_path / "packed.zip" / "kernel.py"))) == []
