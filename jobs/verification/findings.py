"""The result of one check of a release."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "FAILED"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    check: Name of the check.
    outcome: How it ended.
    text: What was found, and for a failure what was wanted; printable characters only.
    """

    check: str
    outcome: Outcome
    text: str

    def __post_init__(self) -> None:
        # A forged file name or label must not reach the terminal as control characters.
        object.__setattr__(self, "text", "".join(map(_printable, self.text)))


def passed(check: str, text: str) -> Finding:
    """The finding of a check that found what it wanted."""
    return Finding(check, Outcome.PASSED, text)


def failed(check: str, text: str) -> Finding:
    """The finding of a check that found something else."""
    return Finding(check, Outcome.FAILED, text)


def not_checked(check: str, reason: str) -> Finding:
    """The finding of a check that could not be made; the reason continues "because"."""
    return Finding(check, Outcome.NOT_CHECKED, f"because {reason}")


def judged(check: str, problems: list[str], text: str) -> list[Finding]:
    """One failed finding per problem, or without problems one that passed."""
    return [failed(check, problem) for problem in problems] or [passed(check, text)]


def _printable(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]
