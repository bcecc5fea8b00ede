"""From text to the type that the schema gives a column. Text that is no value of its type becomes null: nothing fails.

A run therefore never fails because of one value, as it would not in a typed file. ``marquee validate`` counts nulls.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.arrow import texts as texts_of

_INTEGER: Final = r"^[+-]?[0-9]+(\.0*)?$"
_SHORT: Final = r"^[+-]?0*[0-9]{1,18}$"  # It fits 64 bits.
_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_DAY: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?$"


def typed(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values of a column of text. SENSITIVE.

    texts: Text, as string [rows].
    kind: The type: large_string, int64, uint64, float64, bool or date32, as ``type_of_constant`` gives it.

    Returns: An array [rows] of this type; null where the text is null or no value of the type. Integers beyond 64 bits
        become the nearest integer of 64 bits.
    """
    if pa.types.is_large_string(kind):
        return texts.cast(kind)
    trimmed = pc.utf8_trim_whitespace(texts)
    if pa.types.is_boolean(kind):
        lower = pc.utf8_lower(trimmed)
        true, false = (pc.is_in(lower, texts_of(words).cast(lower.type)) for words in (["true", "1"], ["false", "0"]))
        return pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))
    if pa.types.is_date(kind):
        return _days(pc.utf8_slice_codeunits(_matching(trimmed, _DAY), 0, 10))
    if pa.types.is_floating(kind):
        return _without_plus(_matching(trimmed, _NUMBER)).cast(kind)
    return _integers(trimmed, kind)


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, pattern), texts, pa.scalar(None, texts.type))


def _days(texts: pa.Array) -> pa.Array:
    days = pc.strptime(texts, format="%Y-%m-%d", unit="s", error_is_null=True).cast(pa.date32())
    # The 31st of February would be the 3rd of March.
    exists = pc.equal(days.cast(pa.string()), texts)
    return pc.if_else(exists, days, pa.scalar(None, pa.date32()))


def _without_plus(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, r"^\+", "")


def _integers(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    whole = pc.replace_substring_regex(_matching(texts, _INTEGER), r"(\.0*)$", "")
    short = _without_plus(_matching(whole, _SHORT))
    if pc.all(pc.equal(pc.is_valid(short), pc.is_valid(whole)), min_count=0).as_py():
        values = short.cast(pa.int64())
        if pa.types.is_signed_integer(kind):
            return values
        return pc.max_element_wise(values, pa.scalar(0, pa.int64()), skip_nulls=False).cast(kind)
    return pa.array([None if text is None else _clamped(int(text), kind) for text in whole.to_pylist()], kind)


def _clamped(value: int, kind: pa.DataType) -> int:
    low, high = (-(2**63), 2**63 - 1) if pa.types.is_signed_integer(kind) else (0, 2**64 - 1)
    return min(max(value, low), high)
