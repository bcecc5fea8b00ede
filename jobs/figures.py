"""Formats the parameters of a guarantee as text."""

from __future__ import annotations


def format_exact(figure: float) -> str:
    """Formats a number with 6 digits if they are exact, and otherwise with all its digits: no guarantee is rounded.

    >>> format_exact(1.0), format_exact(1e-06), format_exact(1.0000001)
    ('1', '1e-06', '1.0000001')
    """
    short = f"{figure:g}"
    return short if float(short) == figure else repr(figure)
