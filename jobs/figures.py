"""Figures of a promise as text."""

from __future__ import annotations


def exactly(figure: float) -> str:
    """In few digits where they say all of it, else in all of them: a promise is never rounded.

    >>> exactly(1.0), exactly(1e-06), exactly(1.0000001)
    ('1', '1e-06', '1.0000001')
    """
    short = f"{figure:g}"
    return short if float(short) == figure else repr(figure)
