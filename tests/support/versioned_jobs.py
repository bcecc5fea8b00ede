"""A program that releases a version of a table: ``python -m tests.support.versioned_jobs FOLDER CLASSES``.

CLASSES is the folder with the compiled ``VersionedCatalog``, a catalog whose tables have versions as those of Delta and
Iceberg have. It prints one JSON object: for each check whether it held.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dpcore.errors import InputError
from jobs.planning.job import load_job
from pipelines.engines.spark_session import open_session
from tests.support.catalog_jobs import Paint
from tests.support.engines import SPARK_SETTINGS
from tests.support.small_release import EXACT, answers, published


def main(place: str, classes: str) -> None:
    folder = Path(place)
    catalog = {"spark.sql.catalog.lake": "VersionedCatalog", "spark.sql.catalog.lake.root": str(folder / "lake")}
    session = open_session({**SPARK_SETTINGS, **catalog, "spark.driver.extraClassPath": classes})
    session.sparkContext.setLogLevel("OFF")
    paint = Paint(session, folder / "paint")
    versions = folder / "lake" / "sales" / "paint"
    shutil.copytree(paint.folder / "data", versions / "1")
    for later in ("2", "now"):
        (versions / later).mkdir()
        pq.write_table(pq.read_table(paint.folder / "data").slice(100), versions / later / "rows.parquet")
    first: dict[str, Any] = {"catalog": {"table": "lake.sales.paint", "version": 1}, "snapshot": "table version 1"}
    held = {"published": not paint.run(**first), "exact": answers(paint.folder) == EXACT}
    certificate = json.loads(published(paint.folder)["certificate.json"])["dataset"]
    held["certificate"] = certificate["table"] == "lake.sales.paint in Spark's catalog, version 1"
    shutil.rmtree(versions / "now")  # The table goes on changing, and the release stays what it is.
    held["again"] = paint.run(**first)
    second = {"table": "lake.sales.paint", "version": 2}
    other = paint.write(catalog=second, snapshot="table version 2")
    held["another release"] = load_job(other).release_id != load_job(paint.write(**first)).release_id
    absent = {"table": "lake.sales.paint", "snapshot_id": 9}
    held["no version"] = paint.refused(InputError, "or not its version 9", catalog=absent, out="out2", snapshot="9")
    sys.stdout.write(json.dumps({"held": held}))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
