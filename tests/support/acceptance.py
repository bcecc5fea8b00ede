"""The releases of tests/support/configs on real data, with another engine and other files of the same rows."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray

from dpcore.evaluation import exact_answers
from jobs.ledger import SqlLedger
from jobs.planning.job import load_job
from jobs.release.run import build_workload, open_statistics
from tests.support.engines import SPARK_SETTINGS
from tests.support.required_data import dataset

CONFIGS = Path(__file__).resolve().parent / "configs"
DATA = {"adult": "raw/adult", "kdd99": "raw/kdd99", "retail": "baskets/retail"}
UNIT = {"adult": "person_id", "kdd99": "connection_id", "retail": "unit_id"}
ENGINE = {
    "local": {"name": "local"},
    "spark": {"name": "spark", "options": {"settings": SPARK_SETTINGS}},
    "spark-submit": {"name": "spark"},  # The master and the rest come with the command.
    "beam": {"name": "beam"},
}


@dataclass(frozen=True)
class Arrangement:
    """How the same rows lie in files; 0 files stands for the files as they are."""

    files: int
    clustered: bool

    def __str__(self) -> str:
        return f"{self.files} files, {'clustered' if self.clustered else 'shuffled'}" if self.files else "as they are"


AS_THEY_ARE = Arrangement(0, clustered=False)


def answers(config: Path) -> NDArray[np.int64]:
    """Exact answers of the config's workload, by the wiring of a release. SENSITIVE."""
    job = load_job(config)
    popularity = None
    if job.popularity is not None:
        popularity = 1.0 / (1.0 + np.arange(job.layout.view.columns))  # In place of the noisy one.
    return exact_answers(open_statistics(job), build_workload(job, popularity).queries)


def write_config(name: str, place: Path, engine: str, arrangement: Arrangement) -> Path:
    """The release config on another engine and arrangement; one ledger, so one truncation salt, for all."""
    ledger = f"sqlite:///{place / 'ledger.db'}"
    document: dict[str, Any] = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    document["dataset"]["path"] = str(arranged(name, place, arrangement))
    document["dataset"]["clustered_by_unit"] = arrangement.clustered
    document["privacy"]["ledger"] = ledger
    document["engine"] = ENGINE[engine]
    config = place / f"{name} {engine} {arrangement}.yaml"
    config.write_text(yaml.safe_dump(document))
    if "schema" in document["dataset"]:
        shutil.copy(CONFIGS / document["dataset"]["schema"], place)
    known = SqlLedger(ledger)
    if name not in [budget.name for budget in known.datasets()]:
        known.create_dataset(name, 10.0, 1e-6)
    return config


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
