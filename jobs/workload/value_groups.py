"""Reads the groups of values in a config: labels, intervals of bins such as [18, 65), and ranges such as 18..64."""

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

    attribute: The attribute whose values they are.
    group: Each entry has one of these forms.
        A label, as ``Attribute.labels`` spells it.
        ``[a, b)`` for the bins between the edges a and b. Where b is the last edge, it is ``[a, b]``, because the last
        bin also holds its upper edge and what lies above it.
        ``a..b`` for the listed values from a to b in the order of the schema, or for the bins of integers or days that
        together hold exactly the numbers or days from a to b. Where b is the last edge, the last bin is included.

    Returns: The codes in increasing order, each once.
    Raises: ValueError that names the attribute, the entry that does not fit and the nearest known value.
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
            return _between(_edge(attribute, interval[1]), _end(attribute, interval[2], interval[3], text), text)
        if between := _RANGE.fullmatch(text):
            return _in_range(attribute, between[1], between[2], text)
    except ValueError as error:
        raise ValueError(f"attribute {attribute.name!r}: {error}") from error
    known = list(attribute.labels)
    raise ValueError(f"unknown value {text!r} of attribute {attribute.name!r}{_nearest(text, known)}")


def _in_range(attribute: Attribute, low: str, high: str, text: str) -> list[int]:
    if attribute.values:
        listed = list(attribute.labels[: attribute.known])
        for end in (low, high):
            if end not in listed:
                raise ValueError(f"unknown value {end!r}{_nearest(end, listed)}")
        return _between(listed.index(low), listed.index(high) + 1, text)
    if attribute.kind is Kind.FLOAT:
        raise ValueError(f"{text!r} of decimal numbers; want '[{low}, {high})', which leaves its end out")
    # Only the last bin holds its upper edge; every other bin ends before it, which is the number or day after ``high``.
    last = _number(attribute, high)
    stop = attribute.known if last == attribute.edges[-1] else _edge_index(attribute, last + 1, f"after {high}")
    if stop == attribute.known and last != attribute.edges[-1]:
        raise ValueError(
            f"{text!r} leaves {_last(attribute)} out, which the last bin holds; want {low}..{_last(attribute)}"
        )
    return _between(_edge(attribute, low), stop, text)


def _end(attribute: Attribute, edge: str, bracket: str, text: str) -> int:
    """Index of the interval's upper edge. Only the last edge closes an interval, as the last bin holds it."""
    index = _edge(attribute, edge)
    if (bracket == "]") != (index == attribute.known):
        wanted = f"'..., {edge}]', as the last bin holds it" if bracket == ")" else f"'..., {edge})'"
        raise ValueError(f"{text!r}; want {wanted}")
    return index


def _last(attribute: Attribute) -> str:
    return attribute.edge_label(attribute.known)


def _between(start: int, stop: int, text: str) -> list[int]:
    if start >= stop:
        raise ValueError(f"{text!r} holds nothing; want a range that goes up")
    return list(range(start, stop))


def _edge(attribute: Attribute, text: str) -> int:
    return _edge_index(attribute, _number(attribute, text), f"at {text}")


def _edge_index(attribute: Attribute, edge: float, where: str) -> int:
    if edge not in attribute.edges:
        after = bisect_left(attribute.edges, edge)
        near = " or ".join(
            attribute.edge_label(index) for index in range(len(attribute.edges))[max(0, after - 1) : after + 1]
        )
        raise ValueError(f"no bin ends or begins {where}; the nearest edges are {near}")
    return attribute.edges.index(edge)


def _number(attribute: Attribute, text: str) -> float:
    """An edge as the schema holds it: days since 1970-01-01 for dates."""
    try:
        if attribute.kind is Kind.DATE:
            return days_since_epoch(date.fromisoformat(text))
        return int(text) if attribute.kind is Kind.INTEGER else float(text)
    except ValueError as error:
        wanted = {Kind.DATE: "a day such as 2026-01-31", Kind.INTEGER: "an integer"}.get(attribute.kind, "a number")
        raise ValueError(f"{text!r} is no edge; want {wanted}") from error


def _nearest(text: str, known: list[str]) -> str:
    near = difflib.get_close_matches(text, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; want one of {known[:_SHOWN]}"
