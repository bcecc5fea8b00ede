# Beam annotates only part of its interface.
# mypy: allow-untyped-calls
"""Files that the driver and the workers of Beam share: a folder for each run, and the task in it."""

from __future__ import annotations

import hashlib
import os
import pickle
from functools import lru_cache
from tempfile import mkdtemp
from typing import Any, NamedTuple
from uuid import uuid4

from apache_beam.io.filesystems import FileSystems

from dpcore.errors import EngineError
from pipelines.engines.failures import without_values


class StoredTask(NamedTuple):
    """The arguments of the tasks in a file, because they may be too large for the pipeline.

    path: The file, in a folder that all workers can reach.
    sha256: SHA-256 of its content.
    """

    path: str
    sha256: bytes

    @property
    def folder(self) -> str:
        """The folder of the file."""
        return str(FileSystems.split(self.path)[0])


def new_folder(parent: str, prefix: str = "marquee-") -> str:
    """A new folder in ``parent``. A local one can be opened only by its owner.

    parent: A folder that all workers can reach.
    prefix: First letters of the new folder's name, if it is local.
    """
    if "://" not in parent:
        os.makedirs(parent, exist_ok=True)
        return mkdtemp(prefix=prefix, dir=parent)
    folder: str = FileSystems.join(parent, f"marquee-{uuid4().hex}")
    FileSystems.mkdirs(folder)
    return folder


def store_task(folder: str, task: object) -> StoredTask:
    """Writes the arguments of the tasks into a folder. SENSITIVE if they are."""
    content = pickle.dumps(task)
    stored = StoredTask(FileSystems.join(folder, "task"), hashlib.sha256(content).digest())
    with FileSystems.create(stored.path) as file:
        file.write(content)
    return stored


@lru_cache(maxsize=1)
@without_values("a task")
def load_task(stored: StoredTask) -> Any:
    """The arguments of the tasks, read once per process. SENSITIVE if they are.

    Unpickling runs whatever the bytes ask for. The hash therefore comes first, and comes with the pipeline, not with
    the file.
    """
    with FileSystems.open(stored.path) as file:
        content = file.read()
    if hashlib.sha256(content).digest() != stored.sha256:
        raise EngineError(
            f"{stored.path} is not the task of this run; want a --temp_location that nobody else writes to"
        )
    return pickle.loads(content)
