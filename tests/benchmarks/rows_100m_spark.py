"""The rows of ``rows_100m``, written by two executor threads of a local Spark session."""

from __future__ import annotations

import os

from pipelines.generate.parallel_rows import RowWorkers
from tests.benchmarks.graphical.rows_at_scale import rows_case


def spark_workers() -> RowWorkers:
    # Imported here, because other cases need no Spark.
    from pipelines.engines.spark import open_session
    from pipelines.generate.spark_rows import SparkRowWorkers

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "512m"}
    return SparkRowWorkers(open_session({**settings, "spark.ui.showConsoleProgress": "false"}))


CASE = rows_case("spark, local[2]", spark_workers, largest_mb=3_072.0)  # The JVM alone needs about 700 MB.
