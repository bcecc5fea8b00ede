"""Reads groups of values in a config: labels, intervals of bins such as [18, 65), and ranges such as 18..64."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Sequence
from datetime import date
from typing import Final

from pipelines.attributes import Attribute, Kind, days_since_epoch

_INTERVAL: Final = re.compile(r"\[\s*([^,]+?)\s*,\s*([^,]+?)\s*([)\]])")
_RANGE: Final = re.compile(r"(.+?)\s*\.\.\s*(.+)")
_SHOWN: Final = 20


def codes_of(attribute: Attribute, group: Sequence[str | int]) -> list[int]:
    """The codes of a group of values.

    attribute: The attribute of the values.
    group: The entries of the group. Each entry has one of these forms:
        A label, as in ``Attribute.labels``.
        ``[a, b)``, the bins between the edges a and b. If b is the last edge, it is written ``[a, b]``, because the
        last bin also contains its upper edge and everything above it.
        ``a..b``, the listed values from a to b in the order of the schema, or the bins of integers or dates that
        together contain exactly the numbers or days from a to b. If b is the last edge, the last bin is included.

    Returns: The codes in increasing order, each once.
    Raises: ValueError that names the attribute and the invalid entry, and suggests the nearest known value.
    """
    group_codes: list[int] = []
    for value in group:
        codes = _codes(attribute, str(value).strip())
        repeated = sorted({*codes} & {*group_codes})
        if repeated:
            label = attribute.labels[repeated[0]]
            raise ValueError(f"attribute {attribute.name!r}: a group names {label!r} twice; want each value once")
        group_codes += codes
    return sorted(group_codes)


def _codes(attribute: Attribute, text: str) -> list[int]:
    if text in attribute.labels:
        return [attribute.labels.index(text)]
    try:
        if attribute.edges and (interval := _INTERVAL.fullmatch(text)):
            stop = _upper_edge(attribute, interval[2], interval[3], text)
            return _codes_between(_edge(attribute, interval[1]), stop, text)
        if ends := _RANGE.fullmatch(text):
            return _codes_in_range(attribute, ends[1], ends[2], text)
    except ValueError as error:
        raise ValueError(f"attribute {attribute.name!r}: {error}") from error
    known = list(attribute.labels)
    raise ValueError(f"unknown value {text!r} of attribute {attribute.name!r}{_suggestion(text, known)}")


def _codes_in_range(attribute: Attribute, low: str, high: str, text: str) -> list[int]:
    """The codes of the range low..high."""
    if attribute.values:
        listed = list(attribute.labels[: attribute.known])
        for end in (low, high):
            if end not in listed:
                raise ValueError(f"unknown value {end!r}{_suggestion(end, listed)}")
        return _codes_between(listed.index(low), listed.index(high) + 1, text)
    if attribute.kind is Kind.FLOAT:
        raise ValueError(f"{text!r} is a range of decimal numbers; want an interval such as '[{low}, {high})'")
    # A bin ends before its upper edge, which is the number or day after ``high``. Only the last bin contains its edge.
    last = _number(attribute, high)
    stop = attribute.known if last == attribute.edges[-1] else _edge_index(attribute, last + 1, f"after {high}")
    if stop == attribute.known and last != attribute.edges[-1]:
        raise ValueError(
            f"{text!r} excludes {_last_edge(attribute)}, which is in the last bin; want {low}..{_last_edge(attribute)}"
        )
    return _codes_between(_edge(attribute, low), stop, text)


def _upper_edge(attribute: Attribute, edge: str, bracket: str, text: str) -> int:
    """Index of an interval's upper edge. An interval is closed only at the last edge, which the last bin contains."""
    index = _edge(attribute, edge)
    if bracket == ")" and index == attribute.known:
        raise ValueError(f"{text!r} excludes {edge}, which is in the last bin; want '..., {edge}]'")
    if bracket == "]" and index != attribute.known:
        raise ValueError(f"{text!r} includes {edge}, which is in the next bin; want '..., {edge})'")
    return index


def _last_edge(attribute: Attribute) -> str:
    return attribute.edge_label(attribute.known)


def _codes_between(start: int, stop: int, text: str) -> list[int]:
    if start >= stop:
        raise ValueError(f"{text!r} is empty; want an end above the start")
    return list(range(start, stop))


def _edge(attribute: Attribute, text: str) -> int:
    return _edge_index(attribute, _number(attribute, text), f"at {text}")


def _edge_index(attribute: Attribute, edge: float, where: str) -> int:
    if edge not in attribute.edges:
        after = bisect_left(attribute.edges, edge)
        nearest = " or ".join(
            attribute.edge_label(index) for index in range(len(attribute.edges))[max(0, after - 1) : after + 1]
        )
        raise ValueError(f"no bin starts or ends {where}; want one of the nearest edges, {nearest}")
    return attribute.edges.index(edge)


def _number(attribute: Attribute, text: str) -> float:
    """The number of an edge; for dates, days since 1970-01-01."""
    try:
        if attribute.kind is Kind.DATE:
            return days_since_epoch(date.fromisoformat(text))
        return int(text) if attribute.kind is Kind.INTEGER else float(text)
    except ValueError as error:
        wanted = {Kind.DATE: "a date such as 2026-01-31", Kind.INTEGER: "an integer"}.get(attribute.kind, "a number")
        raise ValueError(f"{text!r} is not an edge; want {wanted}") from error


def _suggestion(text: str, known: list[str]) -> str:
    near = difflib.get_close_matches(text, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; want one of {known[:_SHOWN]}"
