"""Every area of planted faults, by name."""

from __future__ import annotations

from typing import Final

from tests.mutation import (
    aggregators,
    aim,
    bounds,
    contribution,
    fit,
    frames,
    items,
    journal,
    kernel,
    ledger,
    partitions,
    publish,
    series,
    source,
    statistics_store,
    stored,
    verification,
)
from tests.mutation.mutant import Mutant

AREAS: Final[dict[str, tuple[Mutant, ...]]] = {
    "aggregators": aggregators.MUTANTS,
    "aim": aim.MUTANTS,
    "bounds": bounds.MUTANTS,
    "contribution": contribution.MUTANTS,
    "fit": fit.MUTANTS,
    "frames": frames.MUTANTS,
    "items": items.MUTANTS,
    "journal": journal.MUTANTS,
    "kernel": kernel.MUTANTS,
    "ledger": ledger.MUTANTS,
    "partitions": partitions.MUTANTS,
    "publish": publish.MUTANTS,
    "series": series.MUTANTS,
    "source": source.MUTANTS,
    "statistics_store": statistics_store.MUTANTS,
    "stored": stored.MUTANTS,
    "verification": verification.MUTANTS,
}
