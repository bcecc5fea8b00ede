"""Figures of a guarantee as text."""

from __future__ import annotations


def format_exact(figure: float) -> str:
    """A figure in 6 digits where they are exact, else in all its digits: a guarantee is never rounded.

    >>> format_exact(1.0), format_exact(1e-06), format_exact(1.0000001)
    ('1', '1e-06', '1.0000001')
    """
    short = f"{figure:g}"
    return short if float(short) == figure else repr(figure)
