"""Numbers in sentences for people: thousands separators, and the singular or plural that fits."""

from __future__ import annotations


def number_of(count: int, singular: str, plural: str = "") -> str:
    """A number and the noun that it counts.

    count: The number.
    singular: The noun for one.
    plural: The noun for any other number; by default the singular with an s.

    >>> number_of(1, "file"), number_of(1200, "file"), number_of(2, "query", "queries")
    ('1 file', '1,200 files', '2 queries')
    """
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"
