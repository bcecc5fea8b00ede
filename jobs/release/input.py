"""The data of a release: files, a table of Spark's catalog, or a frame, checked while they are read.

Files are identified by their footers, which are read again after each aggregation. A table of a catalog or a frame has
none, so it is read once to sum hashes of its rows, and each aggregation sums them again over the rows that it counts:
rows that change, or are never the same twice, are noticed before any noise is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import ConfigError, IntegrityError
from dpcore.queries import UnitCount
from jobs.ledger.records import DatasetSecrets
from jobs.planning.dataset import catalog_table_of, location_of
from jobs.planning.engines import open_engine
from jobs.planning.identity import bound_path, linked_files
from jobs.planning.job import Job
from pipelines.aggregators import aggregator_for
from pipelines.aggregators.item_sums import AnyAggregator, ItemSums
from pipelines.aggregators.row_hashes import RowHashes, RowSums
from pipelines.engines.statistics import Engine
from pipelines.layout import BasketLayout, Layout
from pipelines.source import (
    AnySource,
    FrameSource,
    Source,
    fingerprint_now,
    input_fingerprint,
    open_frame,
    open_with_contents,
)
from pipelines.source.content import FileContent, fingerprint
from pipelines.source.frame_content import LEDGER_KEY, frame_content, secret_key
from pipelines.statistics_store.store import StatisticsStore

Open = Callable[[], Engine]


@dataclass(frozen=True, eq=False)
class Input:
    """The opened data of a release. SENSITIVE.

    source: What engines aggregate.
    contents: What identifies the content of each file; empty if files are not known.
    rows: What identifies the rows of a table or frame; None for files.
    fingerprint: Keyed hash of all data, for the ledger.
    places: Canonical paths of data outside the path of the dataset.
    checked: An engine that raises IntegrityError if the data are no longer those that were opened.
    """

    source: AnySource
    contents: tuple[FileContent, ...] = field(repr=False)
    rows: FileContent | None = field(repr=False)
    fingerprint: str = field(repr=False)
    places: tuple[str, ...]
    checked: Callable[[Engine], Engine] = field(repr=False)


def engine_of(
    job: Job, engine: Engine | None, frame: Any, store: Callable[[], StatisticsStore | None] = lambda: None
) -> Open:
    """Opens the engine of a release when it is first wanted, in the session of a Spark DataFrame if there is one.

    job: The release.
    engine: Engine to use instead of the config's.
    frame: The frame of the release, if it has one.
    store: Opens the store of exact statistics, unless the engine does.
    """
    return cache(lambda: engine or open_engine(job.config.engine, frame, store()))


def check_frame(job: Job, frame: Any) -> None:
    """Checks that there is a frame if and only if the config names one.

    Raises: ConfigError otherwise.
    """
    name = job.config.dataset.frame
    if name is None and frame is not None:
        raise ConfigError(
            "a frame is given, and the config names other data; want dataset.frame: NAME in place of its path, table "
            "or catalog"
        )
    if name is not None and frame is None:
        raise ConfigError(
            f"dataset.frame is {name!r}, which a program has to give; want release(job, frame=...) in Python, or "
            "dataset.path"
        )


def open_input(job: Job, secrets: DatasetSecrets, engine: Open, frame: Any = None) -> Input:
    """Opens the data of a release and identifies them. SENSITIVE.

    A table of a catalog is read once, and a frame twice, so that one that never gives the same rows is never charged.

    job: The release.
    secrets: The secrets of its dataset.
    engine: Opens its engine.
    frame: The frame that the config names; None otherwise.

    Raises: InputError when the data cannot be read; IntegrityError for a frame that does not give the same rows twice.
    """
    config, key = job.config.dataset, secrets.fingerprint_key
    if config.catalog is None and config.frame is None:
        source, contents = open_with_contents(location_of(config), job.layout, secrets.salt, key)
        known = input_fingerprint(source, contents, key)
        links = linked_files(source.paths, bound_path(config.root))
        checked = partial(_FileChecks, source=source, known=known, key=key, dataset=config.name)
        return Input(source, contents, None, known, links, checked)
    opened, places, contents = _opened_frame(job, job.layout, secrets.salt, engine, frame)
    name = _described(job)
    sums = _row_sums(engine(), opened, (secret_key(key), LEDGER_KEY))
    source_with_rows = replace(opened, rows=sums.rows)
    known_sums = RowSums(sums.rows, sums.hashes[:1])

    checked_rows = partial(
        _RowChecks, max_records=_max_records(opened.layout), key=secret_key(key), known=known_sums, described=name
    )

    if config.frame is not None:  # It is code of the program that runs here again, so it is tried before a charge.
        checked_rows(engine()).reduce(source_with_rows, aggregator_for(UnitCount(), opened.layout))
    rows = frame_content(name, opened.layout, sums, key)
    return Input(source_with_rows, contents, rows, fingerprint((rows,), key), places, checked_rows)


def open_rows(job: Job, layout: Layout, salt: bytes, engine: Open, frame: Any = None) -> AnySource:
    """Opens the data of a release with another layout or salt, without identifying them.

    The arguments and exceptions are those of ``open_input``.
    """
    config = job.config.dataset
    if config.catalog is None and config.frame is None:
        return open_with_contents(location_of(config), layout, salt)[0]
    return _opened_frame(job, layout, salt, engine, frame)[0]


def _opened_frame(
    job: Job, layout: Layout, salt: bytes, engine: Open, frame: Any
) -> tuple[FrameSource, tuple[str, ...], tuple[FileContent, ...]]:
    """The frame of a release, other places of its data, and the contents of its files as far as they are known."""
    table = catalog_table_of(job.config.dataset)
    if table is None:
        return open_frame(frame, layout, salt, _described(job)), (), ()
    from pipelines.engines.spark import SparkEngine
    from pipelines.engines.spark_catalog import open_table
    from pipelines.source.footers import readable_contents

    spark = engine()
    if not isinstance(spark, SparkEngine):
        raise ConfigError(f"the engine {spark.name} cannot read a table of Spark's catalog; want the engine spark")
    opened = open_table(spark.session, table)
    places = () if opened.location is None else (bound_path(opened.location),)
    return open_frame(opened.frame, layout, salt, _described(job)), places, readable_contents(opened.files)


def _described(job: Job) -> str:
    table = catalog_table_of(job.config.dataset)
    return f"frame {job.config.dataset.frame!r}" if table is None else str(table)


def _max_records(layout: Layout) -> int:
    return 1 if isinstance(layout, BasketLayout) else layout.max_rows_per_unit


def _row_sums(engine: Engine, source: FrameSource, keys: tuple[bytes, ...]) -> RowSums:
    """The number of rows and the sums of their hashes with each key, from one reading. SENSITIVE."""
    hashes = RowHashes(aggregator_for(UnitCount(), source.layout), _max_records(source.layout), keys)
    return hashes.sums(engine.reduce(source, hashes))


@final
@dataclass(frozen=True)
class _FileChecks:
    """An engine that reads the footers of all files again after each aggregation."""

    engine: Engine
    source: Source
    known: str = field(repr=False)
    key: bytes = field(repr=False)
    dataset: str

    @property
    def name(self) -> str:
        """Name of the engine."""
        return self.engine.name

    def reduce(self, source: AnySource, aggregator: AnyAggregator) -> NDArray[np.int64]:
        """The engine's merged accumulator. SENSITIVE. Raises IntegrityError if files were replaced meanwhile."""
        counts = self.engine.reduce(source, aggregator)  # SENSITIVE
        if fingerprint_now(self.source, self.key) != self.known:
            raise IntegrityError(
                f"files of dataset {self.dataset!r} were changed while they were read, and nothing was drawn from "
                "them; restore the files and run again, or give new files a new label in dataset.snapshot"
            )
        return counts


@final
@dataclass(frozen=True)
class _RowChecks:
    """An engine that compares the rows that it counts with those that were there when the data were opened."""

    engine: Engine
    max_records: int
    key: bytes = field(repr=False)
    known: RowSums = field(repr=False)
    described: str

    @property
    def name(self) -> str:
        """Name of the engine."""
        return self.engine.name

    def reduce(self, source: AnySource, aggregator: AnyAggregator) -> NDArray[np.int64]:
        """The engine's merged accumulator. SENSITIVE. Raises IntegrityError if it counts other rows."""
        if isinstance(aggregator, ItemSums):
            raise ConfigError(f"items cannot be discovered in {self.described}; want files in dataset.path")
        hashes = RowHashes(aggregator, self.max_records, (self.key,))
        counts = self.engine.reduce(source, hashes)  # SENSITIVE
        if hashes.sums(counts) != self.known:
            raise IntegrityError(
                f"{self.described} gave other rows when it was read again, and nothing was drawn from them; want data "
                "that stay the same during a run: name a version, or write a frame with limit, sample or rand to files"
            )
        return hashes.without_sums(counts)
