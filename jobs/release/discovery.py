"""The stage of a release that discovers its items, before its queries are built; and the items of a published one."""

from __future__ import annotations

from dpcore.errors import IntegrityError
from dpcore.kernel.budget import Charge
from dpcore.kernel.ports import Journal, Ledger
from dpcore.kernel.private_items import PrivateItems
from jobs import log
from jobs.monitoring.stages import AGGREGATE, stage
from jobs.objects.output import Output, local_copy
from jobs.outputs.items_file import ITEMS_FILE, read_discovered
from jobs.planning.job import Job
from jobs.release.series import PrivateSource
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import BasketLayout


def discover_items(
    job: Job, statistics: PrivateSource, ledger: Ledger, journal: Journal
) -> tuple[Job, PrivateSource, tuple[Charge, ...]]:
    """Discovers the items of a release, or takes them from its journal.

    job: The release.
    statistics: The statistics of its data. SENSITIVE.
    ledger, journal: Those of the release.

    Returns: The release and its statistics with the discovered items, and what that has cost; for a release whose
        items are known, what was given and no cost.
    """
    if job.discovery is None or not isinstance(statistics, EngineStatistics):
        return job, statistics, ()
    private = PrivateItems(statistics, job.discovery, ledger=ledger, journal=journal)
    with stage(AGGREGATE):  # One stage for all parts of the items, whose number is not public.
        items = private.discover().readable()
    log.info("discovered", release=job.release_id[:12], items=len(items.names))
    job = job.with_items(items)
    assert isinstance(job.layout, BasketLayout)
    return job, statistics.named(job.layout), private.charges


def with_published_items(job: Job, folder: Output) -> Job:
    """A release whose items were discovered, with the items of its published folder; any other release as it is.

    job: The release.
    folder: Its published folder.

    Raises: IntegrityError when the folder has no such list.
    """
    if job.discovery is None:
        return job
    with local_copy(folder, [ITEMS_FILE]) as local:
        items = read_discovered(local)
    if items is None:
        raise IntegrityError(f"{folder} has no {ITEMS_FILE} with weights; want the folder as it was published")
    return job.with_items(items)
