"""Errors of a missing budget, which name the command of Python that creates one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dpcore.errors import NoBudgetError
from jobs.figures import format_exact
from jobs.ledger.missing import CREATE_WITH
from jobs.planning.job import Job
from marquee.budgets import Ledger


@contextmanager
def of_python(job: Job) -> Iterator[None]:
    """Within this context, an error of a dataset without a budget ends with the call that creates one.

    job: The release that needs the budget.
    """
    try:
        yield
    except NoBudgetError as error:
        problem, advice, _ = str(error).partition(CREATE_WITH)
        if not advice:
            raise
        raise NoBudgetError(f"{problem}{advice}{creation(job)}") from error


def creation(job: Job) -> str:
    """The call of Python that creates a budget which is just large enough for a release."""
    privacy = job.config.privacy
    figures = f"epsilon={format_exact(privacy.epsilon)}, delta={format_exact(privacy.delta)}"
    return f"{Ledger(privacy.ledger)!r}.create({job.config.dataset.name!r}, {figures})"
