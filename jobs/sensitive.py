"""The mark of exact figures: inside everything that contains them, and once on stderr."""

from __future__ import annotations

from jobs import log

_RULE = "for the operator only; never publish it, and keep it out of shared logs"


def mark(content: str) -> str:
    """The sentence that an output with exact figures begins with.

    content: What the output contains, such as ``exact counts of dataset 'people'``.
    """
    return f"SENSITIVE: {content}, {_RULE}"


def announce(content: str) -> None:
    """Says once on stderr that stdout contains exact figures, because stdout may be redirected to a file."""
    log.warning(f"SENSITIVE: stdout contains {content}, {_RULE}")
