"""What people install: the wheel, on every Python that is supported; the conda recipe; the citation; the changelog."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from jobs.version import VERSION
from tests.support.datasets import ROOT
from tests.support.environments import environment
from tests.support.small_release import EXACT, write_release
from tests.support.wheels import REQUIRED, VERSIONS, build_wheel, installed, interpreters

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
RECIPE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "conda" / "recipe.yaml").read_text())
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
HEADING = re.compile(r"^## \[?(Unreleased|\d+\.\d+\.\d+)\]?", re.MULTILINE)
PRESENT = interpreters()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_is_pure_python_and_typed(wheel: Path) -> None:
    assert wheel.name == f"marquee-{VERSION}-py3-none-any.whl"
    archive = zipfile.ZipFile(wheel)
    names = set(archive.namelist())
    assert [name for name in names if name.endswith((".so", ".pyd", ".c", ".nbc"))] == []
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    (entries,) = (name for name in names if name.endswith("entry_points.txt"))
    assert "marquee = jobs.cli:main" in archive.read(entries).decode()


def test_every_top_package_of_the_source_is_in_the_wheel() -> None:
    sources = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert sources == set(PACKAGES)


def test_the_classifiers_name_the_versions_that_are_tested() -> None:
    prefix = "Programming Language :: Python :: "
    assert [line.removeprefix(prefix) for line in PROJECT["project"]["classifiers"] if prefix in line] == [*VERSIONS]
    assert PROJECT["project"]["requires-python"] == f">={REQUIRED}"


def test_the_required_python_is_present() -> None:
    assert REQUIRED in PRESENT


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("version", sorted(PRESENT))
def test_the_wheel_makes_a_release_on(version: str, wheel: Path, tmp_path: Path) -> None:
    programs = installed(PRESENT[version], wheel, tmp_path / "venv")
    config = write_release(tmp_path, clustered=True)
    done = subprocess.run(
        [programs / "marquee", "run", config], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert pq.read_table(tmp_path / "out" / "answers.parquet")["answer"].to_pylist() == EXACT
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert f'"python": "{version}.' in json.dumps(certificate)


def test_the_recipe_of_conda_follows_the_project() -> None:
    assert RECIPE["context"]["version"] == VERSION
    assert [entry.split(" = ") for entry in RECIPE["build"]["python"]["entry_points"]] == [
        list(item) for item in PROJECT["project"]["scripts"].items()
    ]
    wanted = {f"python {PROJECT['project']['requires-python']}", *map(spaced, PROJECT["project"]["dependencies"])}
    assert set(RECIPE["requirements"]["run"]) == wanted
    assert set(map(spaced, PROJECT["build-system"]["requires"])) < set(RECIPE["requirements"]["host"])
    (imports,) = (test["python"]["imports"] for test in RECIPE["tests"] if "python" in test)
    assert imports == PACKAGES
    assert RECIPE["about"]["license"] == PROJECT["project"]["license"]


def spaced(requirement: str) -> str:
    """A requirement of pip as conda writes it."""
    return re.sub(r"^([\w-]+)", r"\1 ", requirement, count=1)


@pytest.mark.full
def test_rattler_build_renders_the_recipe() -> None:
    code = (
        "import rattler_build, sys; (variant,) = rattler_build.Stage0Recipe.from_file(sys.argv[1]).render();"
        "print(variant.recipe.package.name, variant.recipe.package.version, variant.recipe.build.noarch)"
    )
    command = [environment("packaging") / "python", "-c", code, ROOT / "deploy" / "conda" / "recipe.yaml"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:2] == ["marquee", VERSION]
    assert "python" in done.stdout.split()[2].lower()


def test_the_citation_names_the_version_and_the_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == VERSION
    assert citation["license"] == PROJECT["project"]["license"]


@pytest.mark.full
def test_cffconvert_accepts_the_citation() -> None:
    command = [environment("packaging") / "cffconvert", "--validate", "-i", ROOT / "CITATION.cff"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def sections() -> dict[str, str]:
    """The text of each version of the changelog, in its order."""
    starts = [*HEADING.finditer(CHANGELOG)]
    ends = [match.start() for match in starts[1:]] + [len(CHANGELOG)]
    return {match[1]: CHANGELOG[match.end() : end] for match, end in zip(starts, ends, strict=True)}


def test_every_version_of_the_changelog_says_what_changed_for_privacy() -> None:
    without = [name for name, text in sections().items() if not re.search(r"^### Privacy\n+\S", text, re.MULTILINE)]
    assert without == []


def test_the_changelog_lists_versions_newest_first_and_has_this_one() -> None:
    versions = [name for name in sections() if name != "Unreleased"]
    assert versions == sorted(versions, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    assert VERSION in versions
    assert "Unreleased" not in [*sections()][1:]
