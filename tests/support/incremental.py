"""Stores of exact statistics for tests, and an engine that remembers which files it has read."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.aggregators.protocol import Aggregator
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import TaskEngine
from pipelines.source import Source
from pipelines.statistics_store.counting import CountTask
from pipelines.statistics_store.file_groups import GroupBy
from pipelines.statistics_store.incremental import IncrementalEngine
from pipelines.statistics_store.store import StatisticsStore, StoreLimits

KEY = bytes(range(32))
KEY_TEXT = base64.b64encode(KEY).decode()


@dataclass
class WatchedEngine:
    """Another engine, and the names of the files that its tasks have counted or whose units they have listed."""

    engine: TaskEngine = field(default_factory=lambda: LocalEngine(threads=2))
    counted: list[str] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.engine.name

    def reduce(self, source: Source, aggregator: Aggregator) -> NDArray[np.int64]:
        self.counted += [Path(path).name for path in source.paths]
        return self.engine.reduce(source, aggregator)

    def each(self, task: Callable[[Any], bytes], items: Sequence[Any]) -> list[bytes]:
        names = self.counted if isinstance(task, CountTask) else self.listed
        names += [Path(file.path).name for piece in items for file in piece.files]
        return self.engine.each(task, items)

    def taken(self) -> tuple[list[str], list[str]]:
        """What was counted and listed since the last call, sorted."""
        taken = sorted(self.counted), sorted(self.listed)
        self.counted.clear()
        self.listed.clear()
        return taken


def store_in(
    folder: Path, key: bytes = KEY, warn: Callable[[str], None] | None = None, **limits: int
) -> StatisticsStore:
    def fail(text: str) -> None:
        raise AssertionError(text)

    return StatisticsStore(folder / "store", key, StoreLimits(**limits), warn or fail)


def incremental(
    folder: Path, engine: TaskEngine | None = None, by: GroupBy = GroupBy.FILE, key: bytes = KEY
) -> IncrementalEngine:
    """A new engine, as every run has one, on the store in a folder. Files may be kept as soon as they are written."""
    return IncrementalEngine(engine or LocalEngine(threads=2), store_in(folder, key), by, quiet_seconds=0)
