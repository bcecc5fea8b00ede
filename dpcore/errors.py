"""All exceptions that the project raises on purpose.

A message says what is wrong, what the value is, and what was expected. Messages reach logs and terminals, so no message
contains a value or a count taken from the data.
"""

from __future__ import annotations

from fractions import Fraction


class MarqueeError(Exception):
    """Base class of all exceptions of the project."""


class ConfigError(MarqueeError):
    """A setting is wrong; nothing was read, charged or written."""


class InputError(MarqueeError):
    """The dataset cannot be read as the config and the schema describe it."""


class DomainTooLargeError(ConfigError):
    """A dense table over these attributes would exceed the memory limit.

    cells: Number of cells of the table.
    limit: The largest number of cells that is allowed.
    """

    def __init__(self, what: str, cells: int, limit: int, advice: str) -> None:
        super().__init__(f"{what} has {cells:,} cells; want at most {limit:,}: {advice}")
        self.cells = cells
        self.limit = limit


class BudgetExceededError(MarqueeError):
    """A charge was refused because it exceeds the remaining budget; nothing was drawn.

    requested: Amount of the charge.
    remaining: Amount that remains.
    currency: Currency of both amounts.
    """

    def __init__(self, label: str, requested: Fraction, remaining: Fraction, currency: str, wanted: str = "") -> None:
        message = (
            f"{label}: charge of {currency}={float(requested):.6g} refused: "
            f"only {currency}={float(remaining):.6g} remains; no noise was drawn"
        )
        super().__init__(f"{message}; want {wanted}" if wanted else message)
        self.requested = requested
        self.remaining = remaining
        self.currency = currency


class NoBudgetError(MarqueeError):
    """The ledger has no budget for this dataset."""


class ChargedBeforeError(MarqueeError):
    """Another version of the program was charged for the same release; nothing was charged now."""


class LedgerUnavailableError(MarqueeError):
    """The ledger cannot be reached; the run may be repeated."""


class EngineError(MarqueeError):
    """The engine failed; the run may be repeated."""


class UnprovedError(MarqueeError):
    """A required guarantee could not be proved with these settings; repeating the run would give the same result."""


class CutOffError(MarqueeError):
    """A noisy answer may have been clipped at the end of 64 bits and is unusable; repeating the run would not help."""


class ScaleError(MarqueeError, ValueError):
    """Noise of this scale cannot be drawn, usually because the budget is too small for the queries."""


class IntegrityError(MarqueeError):
    """Stored or received data contradict what was declared or requested. The call is never answered with a new draw."""
