"""From text to the type that the schema gives a column. Text that is no value of its type becomes null: nothing fails.

A run therefore never fails because of one value, as it would not in a typed file. ``marquee validate`` counts nulls.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.arrow import texts as texts_of

_INTEGER: Final = r"^[+-]?[0-9]+(\.0*)?$"
_SHORT: Final = r"^[+-]?[0-9]{1,18}$"  # It fits 64 bits.
_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_PARTS: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<before>[0-9]*)(?:\.(?P<after>[0-9]*))?(?:[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_DIGITS: Final = 21  # A sign and the digits of 64 bits, and one more.
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
    whole = pc.replace_substring_regex(whole, r"^([+-]?)0+([0-9])", r"\1\2")
    short = _without_plus(_matching(whole, _SHORT))
    if pc.all(pc.equal(pc.is_valid(short), pc.is_valid(whole)), min_count=0).as_py():
        values = short.cast(pa.int64())
        if pa.types.is_signed_integer(kind):
            return values
        return pc.max_element_wise(values, pa.scalar(0, pa.int64()), skip_nulls=False).cast(kind)
    return pa.array([None if text is None else _clamped(text, kind) for text in whole.to_pylist()], kind)


def _clamped(text: str, kind: pa.DataType) -> int:
    """An integer of any length, as the nearest one of the type. Python refuses to read thousands of digits."""
    low, high = (-(2**63), 2**63 - 1) if pa.types.is_signed_integer(kind) else (0, 2**64 - 1)
    if len(text) > _DIGITS:
        return low if text.startswith("-") else high
    return min(max(int(text), low), high)


def unit_text(texts: pa.Array) -> pa.Array:
    """The names of units, of which those that are one number are one name: 7, 07, 7.0 and 7e0. SENSITIVE.

    Programs write one number in several ways, some of them because of another row. Several names would be several
    units, each with a contribution bound of its own; one name for several people only protects them together.

    texts: Text, as string [rows].

    Returns: An array [rows] of the same type, without spaces around the names.
    """
    trimmed = pc.utf8_trim_whitespace(texts)
    whole = pc.match_substring_regex(trimmed, r"^\+?[0-9]+(\.0*)?$")
    plain = pc.replace_substring_regex(pc.replace_substring_regex(trimmed, r"\.0*$", ""), r"^\+?0*([0-9])", r"\1")
    named = pc.if_else(whole, plain, trimmed)
    others = pc.and_(pc.invert(whole), pc.match_substring_regex(trimmed, _NUMBER))
    if not pc.any(others, min_count=0).as_py():
        return named
    return pa.array([None if text is None else _canonical(text) for text in named.to_pylist()], named.type)


def _canonical(text: str) -> str:
    """One text for each number; other text as it is."""
    number = _PARTS.fullmatch(text)
    if number is None:
        return text
    sign, before, after, exponent = (
        number["sign"],
        number["before"],
        number["after"] or "",
        int(number["exponent"] or 0),
    )
    digits = (before + after).lstrip("0")
    stripped = digits.rstrip("0")
    power = exponent - len(after) + len(digits) - len(stripped)
    if not stripped:
        return "0"
    shown = stripped + "0" * power if power >= 0 else f"{stripped}e{power}"
    return f"-{shown}" if sign == "-" else shown
