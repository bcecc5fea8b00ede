"""What is installed and shipped: licences of the dependencies, the wheel, and the bill of materials."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.checks import ROOT

LOCKS = ROOT / "deploy" / "requirements"
PERMISSIVE = {
    "0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "PSF-2.0", "Zlib",
}  # fmt: skip
# The drivers of PostgreSQL are an extra, and so is the client of OpenLineage, which needs certifi; pathspec is needed
# only to build the wheel.
COPYLEFT = {
    "certifi": "MPL-2.0", "psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only", "pathspec": "MPL-2.0",
}  # fmt: skip
OF_CLASSIFIERS = {
    "MIT License": "MIT", "BSD License": "BSD", "Apache Software License": "Apache-2.0", "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}  # fmt: skip
SHIPPED = ("dpcore", "pipelines", "jobs", "marquee", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md")


def locked(name: str) -> dict[str, str]:
    """The version of every package in a lock file."""
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", (LOCKS / f"{name}.txt").read_text(), re.MULTILINE))


def licence(package: str) -> str | None:
    """The licence of a package as an SPDX expression; None for one of another system, which is not installed."""
    try:
        facts = metadata.metadata(package)
    except metadata.PackageNotFoundError:
        return None
    if facts.get("License-Expression"):
        return str(facts["License-Expression"])
    named = [line.split(" :: ")[-1] for line in facts.get_all("Classifier") or () if line.startswith("License :: ")]
    return " OR ".join(OF_CLASSIFIERS[name] for name in named) or str(facts["License"])


def is_permissive(expression: str) -> bool:
    """Whether an SPDX expression without brackets leaves a choice of permissive licences alone."""
    choices = [choice.split(" AND ") for choice in expression.split(" OR ")]
    return any({part.split(" WITH ")[0] for part in parts} <= PERMISSIVE for parts in choices)


def test_the_licences_of_all_dependencies_are_permissive() -> None:
    licences = {name: licence(name) for name in {**locked("core"), **locked("spark")}}
    assert len(licences) > 30
    others = {name: text for name, text in licences.items() if text is not None and not is_permissive(text)}
    assert others == COPYLEFT
    assert not COPYLEFT.keys() & locked("core").keys() - {"pathspec"}


@pytest.mark.parametrize(("expression", "permissive"), [
    ("MIT", True), ("GPL-3.0-only OR MIT", True), ("MIT AND GPL-3.0-only", False), ("UNKNOWN", False),
    ("BSD-2-Clause AND Apache-2.0 WITH LLVM-exception", True), ("None", False),
])  # fmt: skip
def test_an_expression_is_read(expression: str, permissive: bool) -> None:
    assert is_permissive(expression) == permissive


def wheel(folder: Path, umask: int) -> Path:
    """Builds the wheel from a copy of what it is made of."""
    source = folder / "source"
    before = os.umask(umask)
    try:
        for name in SHIPPED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.nbc"))
            else:
                shutil.copy(ROOT / name, source)
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
        subprocess.run(command, cwd=source, check=True, capture_output=True)
    finally:
        os.umask(before)
    (built,) = (folder / "dist").glob("*.whl")
    return built


def test_the_wheel_is_reproducible_and_holds_the_packages_alone(tmp_path: Path) -> None:
    first, second = wheel(tmp_path / "first", 0o022), wheel(tmp_path / "second folder", 0o077)
    assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()
    names = zipfile.ZipFile(first).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {
        "dpcore",
        "pipelines",
        "jobs",
        "marquee",
    }
    assert {
        "jobs/config/config.schema.json", "jobs/outputs/certificate.schema.json",
        "jobs/monitoring/privacy_facet.schema.json", "jobs/py.typed",
    } <= set(names)  # fmt: skip
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


@pytest.mark.full
def test_the_bill_of_materials_lists_every_locked_package(tmp_path: Path) -> None:
    command = ["make", "sbom", f"SBOM={tmp_path / 'venv'}", f"DIST={tmp_path / 'dist'}", f"PYTHON={sys.executable}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    for name in ("core", "spark"):
        bill = json.loads((tmp_path / "dist" / f"marquee-{name}.cdx.json").read_text())
        assert bill["bomFormat"] == "CycloneDX"
        assert bill["metadata"]["component"]["name"] == "marquee"
        listed = {component["name"]: component["version"] for component in bill["components"]}
        assert listed == locked(name)
