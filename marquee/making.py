"""Makes releases and plans, from arguments or from YAML configs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Unpack

from jobs import log
from jobs.planning.job import load_job
from jobs.progress import bar
from jobs.release.run import release as run_release
from marquee.configuration import Options, Request, WorkloadLike, request_of
from marquee.planned import Plan
from marquee.published import Release
from marquee.sentences import figures_of, of_python

Report = Callable[[int, int], None]
Progress = Callable[[str], AbstractContextManager[Report]] | bool


def release(
    data: Any,
    *,
    unit: str | Sequence[str],
    workload: WorkloadLike,
    epsilon: float,
    delta: float,
    again: bool = False,
    progress: Progress = True,
    **options: Unpack[Options],
) -> Release:
    """Makes and publishes a release, or opens it if it is published already: then nothing is charged.

    The release is the one that ``marquee run`` makes of a YAML config with the same keys: its id, charge and bytes are
    the same. After a failure, the same call continues where the run stopped, and never charges twice.

    data: A path, glob or URL of files; a Spark DataFrame, which stays on its cluster; an object with Arrow's
        PyCapsule interface, such as a frame of pyarrow, pandas, Polars or DuckDB; or a mapping with ``table`` or
        ``catalog`` as in a config. A frame must give the same rows each time it is read.
    unit: Column that identifies the privacy unit: the person or thing whose presence the release hides. Several columns
        do so together, where a config may name several.
    workload: The queries, as in the section ``workload`` of a config, or a list of lists of attributes, whose marginals
        are answered.
    epsilon, delta: The guarantee. With a delta of 0 it is pure differential privacy.
    again: Whether to make a new release with a new charge although another version was charged for the same release.
    progress: Whether to draw progress bars on a terminal, or a function from a label to a context of (done, total).
    name: Name under which the ledger keeps the budget. The default is the last part of a path; a frame needs one.
    snapshot: Public label for the current state of the data, ``"1"`` by default. Data that change need a new label.
    schema: The schema of a table: a YAML file, its content as a dict, a list of attributes, or a ``Schema``.
    mechanism: Name of the mechanism, or a mapping with its ``name`` and settings. The default is the one that ``plan``
        recommends.
    ledger: A ``Ledger``, a database URL, or the path of a SQLite file; ``marquee.db`` in the working folder by default.
    shape: ``"table"``, or ``"baskets"`` with ``item``, ``items`` and ``max_items_per_unit``. ``items`` is a number,
        ``{"file": "items.txt"}`` or ``{"discover": {"share": 0.1}}``.
    max_rows_per_unit: Contribution bound of a table, 1 by default.
    clustered: Whether all rows of a unit are in one file (``dataset.clustered_by_unit``).
    engine: Name of the engine, or a mapping with its ``name`` and ``options``. The default is ``"spark"`` for a Spark
        DataFrame or a catalog, and otherwise ``"local"``.
    output: Folder or URL of the release, ``marquee-releases/NAME/SNAPSHOT-RELEASE_ID`` by default.
    format, csv, where, partition, neighbours, units, accounting, consumer, synthetic_rows, signing_key: As the keys of
        a config.

    Raises: The exceptions of ``marquee``, with the sentences of the command line.
    """
    return _release(request_of(data, unit, workload, epsilon, delta, options), again, progress)


def plan(
    data: Any,
    *,
    unit: str | Sequence[str],
    workload: WorkloadLike,
    epsilon: float,
    delta: float,
    **options: Unpack[Options],
) -> Plan:
    """What the release of the same arguments would cost and do. Nothing is charged, and no private data are read.

    The arguments are those of ``release``.
    """
    return Plan.of(request_of(data, unit, workload, epsilon, delta, options).job)


def from_config(
    config: str | os.PathLike[str],
    settings: Sequence[str] = (),
    *,
    frame: Any = None,
    again: bool = False,
    progress: Progress = True,
) -> Release:
    """Makes the release that a YAML config describes, as ``marquee run`` does.

    config: The file.
    settings: Keys that are set in place of the file's, as ``KEY=VALUE``.
    frame: The data, if the config names them by ``dataset.frame``.
    again, progress: As for ``release``.
    """
    return _release(Request(load_job(Path(config), settings), frame), again, progress)


def plan_from_config(config: str | os.PathLike[str], settings: Sequence[str] = ()) -> Plan:
    """What the release of a YAML config would cost and do. The arguments are those of ``from_config``."""
    return Plan.of(load_job(Path(config), settings))


def _release(request: Request, again: bool, progress: Progress) -> Release:
    job, privacy = request.job, request.job.config.privacy
    shown = (bar if progress else _no_bar) if isinstance(progress, bool) else progress
    with log.quiet(), of_python(privacy.ledger, job.config.dataset.name, figures_of(privacy)):
        outcome = run_release(job, frame=request.frame, progress=shown, again=again)
    return Release(outcome.output, ledger=privacy.ledger, already=outcome.already)


@contextmanager
def _no_bar(label: str) -> Iterator[Report]:
    yield lambda done, total: None
