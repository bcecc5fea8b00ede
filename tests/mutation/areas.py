"""Every area of planted faults, by name."""

from __future__ import annotations

from typing import Final

from tests.mutation import contribution, journal, kernel, ledger, publish
from tests.mutation.mutant import Mutant

AREAS: Final[dict[str, tuple[Mutant, ...]]] = {
    "kernel": kernel.MUTANTS,
    "contribution": contribution.MUTANTS,
    "ledger": ledger.MUTANTS,
    "journal": journal.MUTANTS,
    "publish": publish.MUTANTS,
}
