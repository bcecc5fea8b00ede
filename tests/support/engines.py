"""Every engine, one row each: all of them pass the laws of tests/contract/test_engine_laws.py.

A row makes an engine when a test first wants it, so that a suite without Spark or Beam starts neither.
"""

from __future__ import annotations

import functools
import os

import pytest

from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import Engine

SPARK_SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    # Compiling with C2 costs more than jobs of a second give back.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def local_engine() -> Engine:
    return LocalEngine(threads=2)


@functools.cache
def spark_engine() -> Engine:
    """An engine on the one Spark session of this process, which ends with it."""
    from pipelines.engines.spark import SparkEngine, open_session

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = open_session(SPARK_SETTINGS)
    session.sparkContext.setLogLevel("OFF")
    return SparkEngine(session)


@functools.cache
def beam_engine() -> Engine:
    """An engine on Beam's direct runner."""
    from pipelines.engines.beam import BeamEngine

    return BeamEngine()


# The marks put all tests that use Spark in one process, one after another.
ENGINES = [
    pytest.param(local_engine, id="local"),
    pytest.param(spark_engine, id="spark", marks=pytest.mark.spark),
    pytest.param(beam_engine, id="beam", marks=pytest.mark.beam),
]
DISTRIBUTED = ENGINES[1:]
