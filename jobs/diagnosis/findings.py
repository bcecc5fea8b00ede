"""The findings of ``marquee doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """OK: nothing to do. WARN: a release works, or may work. FAIL: a release cannot work like this."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """What one check says.

    check: Name of the check.
    health: Its outcome.
    text: What is the case. It is public.
    advice: What to do next; empty where there is nothing to do.
    """

    check: str
    health: Health
    text: str
    advice: str = ""


def ok(check: str, text: str) -> Finding:
    """A finding that asks for nothing."""
    return Finding(check, Health.OK, text)


def warn(check: str, text: str, advice: str) -> Finding:
    """A finding that someone should look at."""
    return Finding(check, Health.WARN, text, advice)


def fail(check: str, text: str, advice: str) -> Finding:
    """A finding with which no release can be made."""
    return Finding(check, Health.FAIL, text, advice)
