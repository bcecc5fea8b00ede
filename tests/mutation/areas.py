"""Every area of planted faults, by name."""

from __future__ import annotations

from typing import Final

from tests.mutation import (
    aggregators,
    aim,
    bounds,
    contribution,
    fit,
    journal,
    kernel,
    ledger,
    publish,
    series,
    source,
    verification,
)
from tests.mutation.mutant import Mutant

AREAS: Final[dict[str, tuple[Mutant, ...]]] = {
    "aggregators": aggregators.MUTANTS,
    "aim": aim.MUTANTS,
    "bounds": bounds.MUTANTS,
    "contribution": contribution.MUTANTS,
    "fit": fit.MUTANTS,
    "journal": journal.MUTANTS,
    "kernel": kernel.MUTANTS,
    "ledger": ledger.MUTANTS,
    "publish": publish.MUTANTS,
    "series": series.MUTANTS,
    "source": source.MUTANTS,
    "verification": verification.MUTANTS,
}
