"""The slow, obvious reference of the pipelines: plain Python over rows, one value at a time."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

from dpcore.exact_statistics import Request
from dpcore.queries import ClippedSums, Conjunctions, Parities, SatisfactionHistogram, UnitCount
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Attribute, Kind

Row = Mapping[str, object]
_MASK = 2**64 - 1


def answers(files: Sequence[Sequence[Row]], layout: Layout, salt: bytes, request: Request) -> list[int]:
    """Exact answers about the rows of some files."""
    records = kept_records(files, layout, salt)
    if isinstance(request, UnitCount):
        return [len(records)]
    if isinstance(request, SatisfactionHistogram | ClippedSums):
        return _clipped(request, [_ones(record, layout) for record in _flat(records, layout)])
    queries = request.queries
    if isinstance(queries, Conjunctions):
        ones = [_ones(record, layout) for record in _flat(records, layout)]
        return [
            sum(_satisfies(one, columns, negated) for one in ones)
            for columns, negated in zip(queries.columns.tolist(), queries.negated.tolist(), strict=True)
        ]
    if isinstance(queries, Parities):
        ones = [_ones(record, layout) for record in _flat(records, layout)]
        sets = [{column for column in columns if column >= 0} for columns in queries.columns.tolist()]
        return [sum(len(one & columns) % 2 == 0 for one in ones) for columns in sets]
    names = [attribute.name for attribute in layout.schema.attributes]
    counted: list[int] = []
    for clique in queries.cliques:
        cells = Counter(tuple(record[names.index(name)] for name in clique) for record in _flat(records, layout))
        counted += [cells[cell] for cell in product(*(range(size) for size in queries.domain.shape(clique)))]
    return counted


def kept_records(files: Sequence[Sequence[Row]], layout: Layout, salt: bytes) -> dict[object, list[tuple[int, ...]]]:
    """Encoded rows of each unit, (item,) for baskets, within the bound."""
    seen_in: dict[object, set[int]] = defaultdict(set)
    rows_of: dict[object, list[tuple[int, ...]]] = defaultdict(list)
    for number, rows in enumerate(files):
        for row in rows:
            unit = row[layout.unit]
            if unit is None:
                continue
            seen_in[unit].add(number)
            encoded = encoded_row(row, layout)
            if encoded is not None:
                rows_of[unit].append(encoded)
    kept = {}
    for unit, encoded_rows in rows_of.items():
        if layout.clustered_by_unit and len(seen_in[unit]) > 1:
            continue
        if isinstance(layout, BasketLayout):
            encoded_rows = list(set(encoded_rows))
        encoded_rows.sort(key=lambda encoded, unit=unit: row_hash(salt, unit, encoded))
        if isinstance(layout, TableLayout) and layout.earliest is not None:
            first = layout.schema.domain.index(layout.earliest)
            encoded_rows.sort(key=lambda encoded, first=first: encoded[first])  # Rows of one code stay ordered by hash.
        kept[unit] = encoded_rows[: layout.contribution.bound]
    return kept


def code(value: object, attribute: Attribute) -> int:
    """The code of one value, from the rules of the published schema."""
    own_other = attribute.other is True
    own_null = attribute.null is True
    listed = len(attribute.values) if attribute.values else len(attribute.edges) - 1
    last = listed + own_other + own_null - 1
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        if own_null:
            return last
        return (listed if own_other else 0) if attribute.null is False else attribute.values.index(attribute.null)
    if attribute.values:
        if value in attribute.values:
            return attribute.values.index(value)
        if own_other:
            return listed
        return (last if own_null else 0) if attribute.other is False else attribute.values.index(attribute.other)
    number = _number(value, attribute)
    place = 0
    while place + 1 < listed and attribute.edges[place + 1] <= number:
        place += 1
    return place


def row_hash(salt: bytes, unit: object, encoded: Sequence[int]) -> int:
    """Keyed hash of (unit, encoded row)."""
    word = unit & _MASK if isinstance(unit, int) else siphash(salt, str(unit).encode())
    return siphash(salt, b"".join(part.to_bytes(8, "little") for part in (word, *encoded)))


def siphash(key: bytes, message: bytes) -> int:
    """SipHash-2-4 (Aumasson and Bernstein 2012, section 2)."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        _rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    _rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _rounds(v: list[int], count: int) -> None:
    def turn(word: int, bits: int) -> int:
        return ((word << bits) | (word >> (64 - bits))) & _MASK

    for _ in range(count):
        v[0], v[2] = (v[0] + v[1]) & _MASK, (v[2] + v[3]) & _MASK
        v[1], v[3] = turn(v[1], 13) ^ v[0], turn(v[3], 16) ^ v[2]
        v[0] = turn(v[0], 32)
        v[2], v[0] = (v[2] + v[1]) & _MASK, (v[0] + v[3]) & _MASK
        v[1], v[3] = turn(v[1], 17) ^ v[2], turn(v[3], 21) ^ v[0]
        v[2] = turn(v[2], 32)


def encoded_row(row: Row, layout: Layout) -> tuple[int, ...] | None:
    if isinstance(layout, BasketLayout):
        item = row[layout.item]
        if layout.names is not None:
            names = layout.names.array.to_pylist()
            return (names.index(item),) if item in names else None
        return (item,) if isinstance(item, int) and 0 <= item < layout.items else None
    return tuple(code(value_of(row, attribute), attribute) for attribute in layout.schema.attributes)


def value_of(row: Row, attribute: Attribute) -> object:
    """The value of an attribute: that of its column, or the weighted sum of several."""
    if not attribute.sum_of:
        return row[attribute.column]
    terms = [(_summand(row[column]), coefficient) for column, coefficient in attribute.sum_of]
    if any(value is None for value, _ in terms):
        return None
    if any(isinstance(number, float) for term in terms for number in term):
        total = sum(float(value) * coefficient for value, coefficient in terms)
    else:
        limit = 2**62 // sum(abs(coefficient) for _, coefficient in terms)
        total = sum(max(-limit, min(limit, value)) * coefficient for value, coefficient in terms)
    return abs(total) if attribute.absolute else total


def _summand(value: object) -> Any:
    """A number, or the day of a date; decimals as floats, and integers of more than 63 bits as the largest."""
    if isinstance(value, date):
        return _day(value)
    return float(value) if isinstance(value, Decimal) else min(value, 2**63 - 1) if isinstance(value, int) else value


def _flat(records: dict[object, list[tuple[int, ...]]], layout: Layout) -> list[tuple[int, ...]]:
    """One record a unit of baskets, one a kept row of a table."""
    if isinstance(layout, BasketLayout):
        return [tuple(item for (item,) in pairs) for pairs in records.values()]
    return [record for rows in records.values() for record in rows]


def _ones(record: tuple[int, ...], layout: Layout) -> set[int]:
    """Columns of the binary view where the record has a 1."""
    if isinstance(layout, BasketLayout):
        return set(record)
    starts = [start for start, _ in layout.view.groups]
    return {start + value for start, value in zip(starts, record, strict=True)}


def _clipped(request: SatisfactionHistogram | ClippedSums, units: list[set[int]]) -> list[int]:
    """Units by the number of queries of each group that they satisfy, or sums of the weights of that number."""
    queries = request.queries
    groups = [0] * queries.size if request.groups is None else request.groups.tolist()
    answers = [0] * request.size
    for ones in units:
        found = [query for query, columns in enumerate(queries.columns.tolist()) if ones.issuperset(columns)]
        k_of = Counter(groups[query] for query in found)
        if isinstance(request, SatisfactionHistogram):
            for group in set(groups):
                k = k_of[group]
                cell = k.bit_length() if request.starts is None else sum(k >= start for start in request.starts) - 1
                answers[group * request.cells + cell] += 1
        else:
            for query in found:
                answers[query] += int(request.weights[groups[query], k_of[groups[query]]])
    return answers


def _satisfies(ones: set[int], columns: list[int], negated: list[bool]) -> bool:
    return all((column in ones) != negation for column, negation in zip(columns, negated, strict=True))


def _number(value: object, attribute: Attribute) -> float | int:
    if attribute.kind is Kind.DATE:
        assert isinstance(value, date)
        return _day(value)
    assert isinstance(value, int | float | Decimal)
    return float(value) if isinstance(value, Decimal) else value


def _day(value: date) -> int:
    """Days since 1970-01-01, in UTC if there is a time zone."""
    if isinstance(value, datetime):
        value = (value.astimezone(UTC) if value.tzinfo else value).date()
    return (value - date(1970, 1, 1)).days
