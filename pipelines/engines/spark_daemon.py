"""The daemon from which Spark forks its Python workers, with this project's code loaded once for all of them.

Spark's setting ``spark.python.daemon.module`` names this module, which must be installed on the workers. Spark's own
daemon loads nothing, so that every worker loads the code and prepares the compiler for itself, which costs as much as
counting ten million pairs. Workers that are forked from this daemon run the same tasks.
"""

from __future__ import annotations

import importlib
import os

from pyspark.daemon import manager

# A process that forks must have no other thread. These libraries would start some when they are imported.
_WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


def load() -> None:
    """Imports the code of all tasks, and loads the compiler's machine. It starts no thread."""
    for name, value in _WITHOUT_THREADS.items():
        os.environ.setdefault(name, value)
    importlib.import_module("pipelines.engines.spark")
    importlib.import_module("dpcore.compiled").prepare()


if __name__ == "__main__":
    load()
    manager()
