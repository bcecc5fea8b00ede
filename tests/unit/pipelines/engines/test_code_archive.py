"""The archive of this project's code: workers load its bytecode, or its sources if they run another Python."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from pipelines.engines.code_archive import write_archive

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import dpcore.domain
print(dpcore.domain.__file__, dpcore.domain.Domain(("a",), (2,)).size())
"""


def loaded(archive: Path) -> list[str]:
    command = [sys.executable, "-I", "-c", PROGRAM, str(archive)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_workers_load_the_bytecode(tmp_path: Path) -> None:
    write_archive(tmp_path / "marquee.zip")
    assert loaded(tmp_path / "marquee.zip") == [f"{tmp_path}/marquee.zip/dpcore/domain.pyc", "2"]


def test_workers_with_another_python_load_the_sources(tmp_path: Path) -> None:
    write_archive(tmp_path / "marquee.zip")
    with zipfile.ZipFile(tmp_path / "marquee.zip") as made, zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        for name in made.namelist():
            content = made.read(name)
            other.writestr(name, b"\0\0\0\0" + content[4:] if name.endswith(".pyc") else content)
    assert loaded(tmp_path / "other.zip") == [f"{tmp_path}/other.zip/dpcore/domain.py", "2"]


def test_the_archive_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    write_archive(tmp_path / "marquee.zip")
    with zipfile.ZipFile(tmp_path / "marquee.zip") as archive:
        names = archive.namelist()
        assert not any(str(Path(__file__).parents[4]).encode() in archive.read(name) for name in names)
    assert "pipelines/engines/spark.py" in names
    assert "pipelines/engines/spark.pyc" in names
    assert not any("__pycache__" in name for name in names)
