"""Errors of a missing budget, which name the call of Python that creates one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dpcore.errors import NoBudgetError
from jobs.config import Privacy
from jobs.figures import format_exact
from jobs.ledger.connection import shown_ledger
from jobs.ledger.missing import CREATE_WITH

FIGURES: Final = "epsilon=EPSILON, delta=DELTA"
"""Arguments that say how large a budget is, where nothing is known of it."""


@contextmanager
def of_python(url: str, name: str, figures: str = FIGURES) -> Iterator[None]:
    """Within this context, an error of a dataset without a budget ends with the call that creates one.

    url: Database URL of the ledger.
    name: Name of the dataset.
    figures: The arguments of the call that say how large the budget is.
    """
    try:
        yield
    except NoBudgetError as error:
        problem, advice, _ = str(error).partition(CREATE_WITH)
        if not advice:
            raise
        call = f"marquee.Ledger({shown_ledger(url)!r}).create({name!r}, {figures})"
        raise NoBudgetError(f"{problem}{advice}{call}") from error


def figures_of(privacy: Privacy) -> str:
    """The arguments of a budget that is just large enough for a release."""
    return f"epsilon={format_exact(privacy.epsilon)}, delta={format_exact(privacy.delta)}"
