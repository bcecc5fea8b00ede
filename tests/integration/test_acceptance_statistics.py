"""Real datasets give the same exact aggregates, bit for bit, on every engine and for every layout of their rows.

The statistics come by the very wiring of ``marquee run``, with only the engine, the path and the layout claim changed.
Spark and Beam take the layouts that differ most; MARQUEE_ALL_LAYOUTS=1 gives them all.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from numpy.typing import NDArray

from dpcore.exact_statistics import QueryAnswers
from jobs.job import Job, load_job
from jobs.ledger import SqlLedger
from jobs.run import build_workload, open_statistics
from tests.support.datasets import dataset
from tests.support.engines import SPARK_SETTINGS, spark_engine

CONFIGS = Path(__file__).resolve().parents[1] / "support" / "configs"
DATA = {"adult": "raw/adult", "kdd99": "raw/kdd99", "retail": "baskets/retail"}
UNIT = {"adult": "person_id", "kdd99": "connection_id", "retail": "unit_id"}
ENGINE = {
    "local": {"name": "local"},
    "spark": {"name": "spark", "options": {"settings": SPARK_SETTINGS}},
    "beam": {"name": "beam"},
}


@dataclass(frozen=True)
class Arrangement:
    """How the same rows lie in files; 0 files stands for the files as they are."""

    files: int
    clustered: bool


AS_THEY_ARE = Arrangement(0, clustered=False)
ALL = [AS_THEY_ARE, *(Arrangement(files, clustered) for files in (1, 3, 16) for clustered in (True, False))]
FEW = [Arrangement(16, clustered=True), Arrangement(3, clustered=False)]
DISTRIBUTED = ALL if os.environ.get("MARQUEE_ALL_LAYOUTS") == "1" else FEW


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("acceptance")


@pytest.fixture(scope="module", params=sorted(DATA))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def exact(name: str, place: Path) -> NDArray[np.int64]:
    """The answers of the local engine on the files as they are."""
    return answers(name, place, "local", AS_THEY_ARE)


@pytest.mark.parametrize("arrangement", ALL[1:], ids=str)
def test_local_gives_the_same_bits(name: str, exact: NDArray[np.int64], place: Path, arrangement: Arrangement) -> None:
    assert exact.sum() > 0
    np.testing.assert_array_equal(answers(name, place, "local", arrangement), exact)


@pytest.mark.spark
@pytest.mark.parametrize("arrangement", DISTRIBUTED, ids=str)
def test_spark_gives_the_same_bits(name: str, exact: NDArray[np.int64], place: Path, arrangement: Arrangement) -> None:
    spark_engine()  # The session that the config's engine then finds.
    np.testing.assert_array_equal(answers(name, place, "spark", arrangement), exact)


@pytest.mark.beam
@pytest.mark.parametrize("arrangement", DISTRIBUTED, ids=str)
def test_beam_gives_the_same_bits(name: str, exact: NDArray[np.int64], place: Path, arrangement: Arrangement) -> None:
    np.testing.assert_array_equal(answers(name, place, "beam", arrangement), exact)


def answers(name: str, place: Path, engine: str, arrangement: Arrangement) -> NDArray[np.int64]:
    job = job_of(name, place, engine, arrangement)
    popularity = None
    if job.popularity is not None:
        popularity = 1.0 / (1.0 + np.arange(job.layout.view.columns))  # In place of the noisy one.
    return open_statistics(job).aggregate(QueryAnswers(build_workload(job, popularity).queries))


def job_of(name: str, place: Path, engine: str, arrangement: Arrangement) -> Job:
    """The release config on another engine and arrangement; one ledger, so one truncation salt, for all."""
    ledger = f"sqlite:///{place / 'ledger.db'}"
    document: dict[str, Any] = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    document["dataset"]["path"] = str(arranged(name, place, arrangement))
    document["dataset"]["clustered_by_unit"] = arrangement.clustered
    document["privacy"]["ledger"] = ledger
    document["engine"] = ENGINE[engine]
    config = place / f"{name}.yaml"
    config.write_text(yaml.safe_dump(document))
    if "schema" in document["dataset"]:
        shutil.copy(CONFIGS / document["dataset"]["schema"], place)
    known = SqlLedger(ledger)
    if name not in [budget.name for budget in known.datasets()]:
        known.create_dataset(name, 10.0, 1e-6)
    return load_job(config)


def arranged(name: str, place: Path, arrangement: Arrangement) -> Path:
    """The dataset's rows in that many files: each unit in one of them, or shuffled over all."""
    original = dataset(DATA[name])
    if arrangement == AS_THEY_ARE:
        return original
    folder = place / f"{name}-{arrangement.files}-{'clustered' if arrangement.clustered else 'shuffled'}"
    if not folder.exists():
        table = pa.concat_tables([pq.read_table(file) for file in sorted(original.glob("*.parquet"))])
        rng = np.random.default_rng(arrangement.files)
        if arrangement.clustered:
            file_of_unit = rng.integers(arrangement.files, size=pc.max(table[UNIT[name]]).as_py() + 1)
            file_of_row = file_of_unit[table[UNIT[name]].to_numpy()]
        else:
            table = table.take(rng.permutation(table.num_rows))
            file_of_row = rng.integers(arrangement.files, size=table.num_rows)
        folder.mkdir()
        for number in range(arrangement.files):
            pq.write_table(table.filter(pa.array(file_of_row == number)), folder / f"part-{number}.parquet")
    return folder
