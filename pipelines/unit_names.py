"""Names of units that several columns identify together: one name for the same columns in any order.

A unit of one column has the name of the column. A unit of several has their sorted names as a JSON list, which is what
the ledger, the certificate and release ids hold.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from dpcore.errors import ConfigError


def combined_name(columns: Sequence[str]) -> str:
    """The name of the combined column: the sorted names as a JSON list; the name itself for a single column.

    columns: Names of one or more columns, in any order.

    Raises: ConfigError when there are none, or one is empty or repeated.
    """
    names = sorted(columns)
    if not names or not all(names) or len(set(names)) != len(names):
        raise ConfigError(f"unit is {list(columns)!r}; want a column, or a list of different columns")
    return names[0] if len(names) == 1 else json.dumps(names, ensure_ascii=False)


def parts_of(unit: str) -> tuple[str, ...]:
    """The columns that a unit's name stands for: those of ``combined_name``, or none for a single column.

    unit: A column, or a JSON list of at least two different columns.

    Raises: ConfigError for a list with empty or repeated names.
    """
    if not unit.startswith("["):
        return ()
    try:
        names = json.loads(unit)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(names, list) or len(names) < 2 or not all(isinstance(name, str) for name in names):
        return ()
    combined_name(names)
    return tuple(sorted(names))


def canonical(unit: str) -> str:
    """The same unit as ``combined_name`` writes it, so that equal units have equal names. Raises as ``parts_of``."""
    parts = parts_of(unit)
    return combined_name(parts) if parts else unit


def in_words(unit: str) -> str:
    """What a sentence calls the column or columns of a unit."""
    parts = parts_of(unit)
    if not parts:
        return f"column {unit!r}"
    return f"columns {', '.join(map(repr, parts[:-1]))} and {parts[-1]!r} together"
