"""Every deliberate exception of the project.

An exception says which thing is wrong, what it is and what was wanted, and carries those as fields.
No message holds a value or a count taken from the data: these messages reach logs and terminals.
"""

from __future__ import annotations

from fractions import Fraction


class MarqueeError(Exception):
    """Base of everything raised on purpose."""


class ConfigError(MarqueeError):
    """A setting is wrong; nothing was read, charged or written."""


class InputError(MarqueeError):
    """The dataset cannot be read as the config and the schema describe it."""


class DomainTooLargeError(ConfigError):
    """A dense table over these attributes does not fit in the memory that is allowed."""

    def __init__(self, what: str, cells: int, limit: int, advice: str) -> None:
        super().__init__(f"{what} has {cells:,} cells; want at most {limit:,}: {advice}")
        self.cells = cells
        self.limit = limit


class BudgetExceededError(MarqueeError):
    """A charge was refused; nothing was drawn."""

    def __init__(self, label: str, requested: Fraction, remaining: Fraction, currency: str, wanted: str = "") -> None:
        said = (
            f"{label}: charge of {currency}={float(requested):.6g} refused: "
            f"only {currency}={float(remaining):.6g} remains; no noise was drawn"
        )
        super().__init__(f"{said}; want {wanted}" if wanted else said)
        self.requested = requested
        self.remaining = remaining
        self.currency = currency


class NoBudgetError(MarqueeError):
    """The ledger knows no budget for this dataset."""


class LedgerUnavailableError(MarqueeError):
    """The ledger cannot be reached; the run may be tried again."""


class EngineError(MarqueeError):
    """The engine failed; the run may be tried again."""


class UnprovedError(MarqueeError):
    """A guarantee that was asked for was not proved with these settings; trying again would end in the same place."""


class CutOffError(MarqueeError):
    """A noisy answer reached the end of 64 bits and is useless; trying again would end in the same place."""


class ScaleError(MarqueeError, ValueError):
    """Noise of this scale cannot be drawn: as a rule, the budget is too small for what is measured with it."""


class IntegrityError(MarqueeError):
    """What is stored does not match what is asked: never answered with a new draw."""
