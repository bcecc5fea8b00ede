"""What a release assumes where its config says nothing, or asks for more than there is. Public."""

from __future__ import annotations

from jobs.planning.job import Job
from pipelines.layout import BasketLayout


def remarks(job: Job) -> tuple[str, ...]:
    """Sentences for the plan, the log of the run and the certificate; empty where nothing had to be assumed.

    job: The release.
    """
    noted = (_on_large_baskets(job), _on_count(job))
    return tuple(note for note in noted if note is not None)


def _on_large_baskets(job: Job) -> str | None:
    if not isinstance(job.layout, BasketLayout) or job.layout.max_items_per_unit is not None:
        return None
    return (
        f"dataset.max_items_per_unit is not set, so a unit may have all {job.layout.items:,} items: no basket is "
        "truncated, and a mechanism that does not clip large baskets adds noise for the largest that could exist"
    )


def _on_count(job: Job) -> str | None:
    conjunctions = job.config.workload.conjunctions
    if conjunctions is None:
        return None
    asked, answered = conjunctions.count or 0, job.stand_in.queries.size
    if asked <= answered:
        return None
    among = "" if job.items is None else f" among the {len(job.items.names):,} discovered items"
    return (
        f"workload.conjunctions.count is {asked:,}; only {answered:,} different conjunctions exist{among}, and all are "
        "asked"
    )
