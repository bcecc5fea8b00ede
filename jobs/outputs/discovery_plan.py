"""What a plan says about the discovery of items, before any data are read."""

from __future__ import annotations

from typing import Any

from jobs.planning.job import Job
from pipelines.engines.statistics import PART_PAIRS


def discovery_facts(job: Job) -> dict[str, Any] | None:
    """Amount, threshold, noise and threshold_delta as a JSON object; None for a release whose items are known."""
    terms = job.discovery
    if terms is None:
        return None
    return {
        "amount": float(terms.budget.amount),
        "threshold_delta": float(terms.threshold_delta),
        "thresholds": [each.threshold_in_units for each in terms.rounds],
        "noise": [each.stddev for each in terms.rounds],
        "at_most": terms.max_items,
    }


def discovery_texts(job: Job) -> list[str]:
    """The same in words; empty for a release whose items are known."""
    facts, terms = discovery_facts(job), job.discovery
    if facts is None or terms is None:
        return []
    bound, lowest = terms.unit.contribution.bound, min(facts["thresholds"])
    thresholds = " and then ".join(f"{value:.4g}" for value in facts["thresholds"])
    noise = " and ".join(f"{value:.4g}" for value in facts["noise"])
    return [
        f"items are discovered for {job.budget.currency.value} = {facts['amount']:.6g}, with delta "
        f"{facts['threshold_delta']:.3g} for names that only one unit has;",
        f"an item is released if its noisy weight reaches {thresholds} (noise {noise}) in {len(terms.rounds)} rounds:",
        "a unit of k items that are not released yet adds 1/sqrt(k) to each,",
        f"so about {lowest * bound**0.5:,.0f} units of {bound:,} items are enough; at most {terms.max_items:,} items "
        "are kept,",
        f"and the driver holds the names of at most {PART_PAIRS:,} pairs at a time;",
        "the steps below assume that many items and share the remaining budget",
    ]
