"""The code of this project as one archive, with its bytecode, for workers on which it is not installed.

``python -m pipelines.engines.code_archive marquee.zip`` writes it for ``spark-submit --py-files``. Workers with
the same minor version of Python load the bytecode; for others the sources are there, which every worker compiles anew.
"""

from __future__ import annotations

import py_compile
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("dpcore", "pipelines", "jobs")

# A worker that reads the archive has no source to compare the time of the bytecode with.
_UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH


def write_archive(path: Path) -> None:
    """Writes the archive.

    path: The file, which is replaced if it exists.

    Raises: OSError when it cannot be written.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, tempfile.TemporaryDirectory() as folder:
        bytecode = Path(folder) / "bytecode"
        for package in PACKAGES:
            for file in sorted((ROOT / package).rglob("*")):
                name = file.relative_to(ROOT).as_posix()
                if file.is_dir() or "__pycache__" in name:
                    continue
                archive.write(file, name)
                if file.suffix == ".py":
                    where = f"{path.name}/{name}"
                    py_compile.compile(
                        str(file), cfile=str(bytecode), dfile=where, doraise=True, invalidation_mode=_UNCHECKED
                    )
                    archive.write(bytecode, f"{name}c")


if __name__ == "__main__":
    write_archive(Path(sys.argv[1]))
