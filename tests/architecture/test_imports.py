"""Every import contract can turn `make check` red: each is broken on purpose in a copy of the packages."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import checks


class Breach(NamedTuple):
    """One bad import, added at the end of a file (new where it does not exist), and the contract that must notice."""

    contract: str
    file: str
    code: str


BREACHES = [
    Breach("packages", "pipelines/schema.py", "import jobs.cli"),
    Breach("packages", "dpcore/domain.py", "import pipelines.schema"),
    Breach("rooms", "dpcore/errors.py", "import dpcore.domain"),
    Breach("rooms", "dpcore/domain.py", "import dpcore.queries"),
    Breach("rooms", "dpcore/queries/marginals.py", "import dpcore.workload"),
    Breach("rooms", "dpcore/workload.py", "import dpcore.measurement"),
    Breach("rooms", "dpcore/measurement.py", "import dpcore.kernel"),
    Breach("rooms", "dpcore/estimation/extra.py", "import dpcore.mechanisms"),
    Breach("rooms", "dpcore/oracles/extra.py", "import dpcore.kernel.noise"),
    Breach("rooms", "dpcore/compiled.py", "import dpcore.errors"),
    Breach("rooms", "dpcore/room_without_a_layer.py", "import dpcore.errors"),
    Breach("rooms", "dpcore/kernel/budget.py", "import dpcore.estimation"),
    Breach("rooms", "dpcore/kernel/budget.py", "import dpcore.oracles"),
    Breach("rooms", "dpcore/kernel/budget.py", "import dpcore.strategies"),
    Breach("packages", "jobs/release/run.py", "import marquee"),
    Breach("jobs", "jobs/config/section.py", "import jobs.workload.building"),
    Breach("jobs", "jobs/planning/job.py", "import jobs.release.run"),
    Breach("exact", "dpcore/mechanisms/extra.py", "from dpcore.exact_statistics import Statistics"),
    Breach("exact", "jobs/extra.py", "from dpcore.exact_statistics import Statistics"),
    Breach("doors", "dpcore/mechanisms/mwem/mwem.py", "import dpcore.kernel.noise"),
    Breach("doors", "dpcore/mechanisms/query_game/dqrs.py", "from dpcore.kernel.weighted_sampler import draw"),
    Breach("doors", "jobs/extra.py", "from dpcore.kernel.exact_answers import ExactAnswers"),
    Breach("opendp", "dpcore/kernel/budget.py", "import opendp.prelude"),
    Breach("opendp", "jobs/extra.py", "import opendp.prelude"),
    Breach("rooms", "dpcore/evaluation.py", "import dpcore.testing.memory"),
    Breach("testing", "jobs/extra.py", "import dpcore.testing.memory"),
    Breach("numba", "dpcore/estimation/extra.py", "from numba import njit"),
    Breach("numba", "pipelines/aggregators/extra.py", "from numba import njit"),
    Breach("arrays", "dpcore/domain.py", "import pyarrow.parquet"),
    Breach("arrays", "dpcore/kernel/ports.py", "import sqlalchemy"),
    Breach("engines", "pipelines/aggregators/extra.py", "import pipelines.engines.local"),
    Breach("engines", "pipelines/encode.py", "import pyspark.sql"),
]


@pytest.fixture(scope="module")
def command() -> str:
    return checks.command_of_make_check("lint-imports")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = checks.copy_of_the_packages(tmp_path)
    strategies = folder / "dpcore" / "strategies"  # A room with a layer of its own from its first file on.
    strategies.mkdir(exist_ok=True)
    (strategies / "__init__.py").touch()
    return folder


def _settings() -> dict[str, str]:
    """Names of the contracts by id."""
    content = tomllib.loads((checks.ROOT / "pyproject.toml").read_text())
    return {contract["id"]: contract["name"] for contract in content["tool"]["importlinter"]["contracts"]}


def test_the_packages_keep_every_contract(command: str, copy: Path) -> None:
    result = checks.run(command, copy)
    assert result.returncode == 0, result.stdout
    assert f"{len(_settings())} kept, 0 broken" in result.stdout


@pytest.mark.smoke(12)
@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: f"{breach.contract}-{breach.file}-{breach.code}")
def test_a_breach_turns_the_check_red(command: str, copy: Path, breach: Breach) -> None:
    file = copy / breach.file
    file.write_text((file.read_text() if file.exists() else "") + f"\n{breach.code}\n")
    result = checks.run(command, copy)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{_settings()[breach.contract]} BROKEN" in result.stdout


def test_every_contract_is_broken_by_some_row() -> None:
    assert {breach.contract for breach in BREACHES} == set(_settings())
