"""Queries as text: 'sex=male & race=White', 'a=x & b!=y', '12 & !845', 'even(sex=male ^ race=White)'; and back.

Rows of prefixes, ranges and groups are literals too: 'age<40 & sex=male', 'age=[18, 65)', 'A<=grade<=B',
'(race=White | race=Black) & sex=male'. What is asked for all values is left out; 'all' is the number of rows.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcore.queries.ranges import all_ranges, of_width, prefix, range_rows
from pipelines.attributes import Attribute
from pipelines.layout import Layout, TableLayout

_NEEDS_QUOTES = frozenset('&!="^')
# Quoted text, or one character.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|.', re.DOTALL)
_ITEM = re.compile(r"(!?)\s*([0-9]+)")


class LiteralError(ValueError):
    """A text that is no query; ``place`` is its position among the texts."""

    def __init__(self, place: int, said: str) -> None:
        super().__init__(said)
        self.place = place


@dataclass(frozen=True, eq=False)
class Literals:
    """Conjunctions as they are written: int32 [m, k] columns, bool [m, k] negated."""

    columns: NDArray[np.int32]
    negated: NDArray[np.bool_]


def quoted(text: str) -> str:
    """Text that would be misread beside & and = stands in quotes."""
    plain = text == text.strip() and text and not _NEEDS_QUOTES & set(text)
    return text if plain else json.dumps(text, ensure_ascii=False)


def labels_of(layout: TableLayout) -> dict[str, pa.Array]:
    """The meaning of each code of each attribute, quoted where that is needed, in the order of the domain."""
    return {
        attribute.name: pa.array([quoted(label) for label in attribute.labels])
        for attribute in layout.schema.attributes
    }


def named(name: str, labels: pa.Array, sign: str) -> pa.Array:
    """'name=label' for each label."""
    return pc.binary_join_element_wise(pa.repeat(pa.scalar(quoted(name)), len(labels)), labels, sign)


def columns_as_text(layout: TableLayout, sign: str) -> pa.Array:
    """A literal for each column of the one-hot view, '=' or '!='."""
    return pa.concat_arrays([named(name, texts, sign) for name, texts in labels_of(layout).items()])


def rows_as_text(attribute: Attribute, matrix: NDArray[np.int64], alone: bool = True) -> pa.Array:
    """A literal for each row of 0 and 1: which codes of the attribute it counts, int64 [rows, codes].

    Codes from the first on are 'age<40' (bins) or 'grade<=B' (values), other runs of bins or values 'age=[18, 65)' and
    'A<=grade<=B', one code 'sex=male', any others 'sex=male | sex=other'. The identity asks for single codes alone, and
    values that are no numbers are listed one by one where the rows are not prefixes or ranges. Null where a row that is
    not one of these counts all codes.

    alone: False puts what has several parts in brackets, to stand beside other literals.
    """
    ordered = _in_order(attribute, matrix)
    texts = []
    for row in matrix:
        text = None if row.all() and not ordered else _row_as_text(attribute, np.flatnonzero(row), ordered)
        texts.append(f"({text})" if text and " | " in text and not alone else text)
    if attribute.size == 1 and not ordered:
        texts = [f"{_beside_signs(attribute.name)}={quoted(attribute.labels[0])}"] * len(matrix)
    return pa.array(texts, type=pa.string())


def _in_order(attribute: Attribute, matrix: NDArray[np.int64]) -> bool:
    """Whether these are prefixes, all ranges or those of one width, and not single codes alone."""
    size, ordered, rows = attribute.size, attribute.known, len(matrix)
    width = int(np.count_nonzero(matrix[0]))
    if rows == 1 or (np.count_nonzero(matrix, axis=1) <= 1).all():
        return False
    if rows == size and np.array_equal(matrix, prefix(size, ordered)):
        return True
    if rows == range_rows(size, ordered) and np.array_equal(matrix, all_ranges(size, ordered)):
        return True
    if rows != size - width + 1 or not 1 <= width <= ordered:
        return False
    return np.array_equal(matrix, of_width(size, ordered, width))


def _row_as_text(attribute: Attribute, codes: NDArray[np.intp], ordered: bool) -> str:
    """Run by run where neighbours have a meaning: between bins, between numbers, and where the rows are in an order."""
    known = int(np.count_nonzero(codes < attribute.known))
    runs = np.split(codes[:known], np.flatnonzero(np.diff(codes[:known]) > 1) + 1) if known else []
    if not (ordered or attribute.edges or _increasing(attribute)):
        runs = [codes[place : place + 1] for place in range(known)]
    runs += [codes[place : place + 1] for place in range(known, len(codes))]
    return " | ".join(_run_as_text(attribute, int(run[0]), int(run[-1]), ordered) for run in runs)


def _increasing(attribute: Attribute) -> bool:
    return all(type(low) is int and type(high) is int and low < high for low, high in pairwise(attribute.values))


def _run_as_text(attribute: Attribute, first: int, last: int, ordered: bool) -> str:
    name, labels, listed = _beside_signs(attribute.name), attribute.labels, attribute.known
    if first == last and (first > 0 or not ordered):
        label = labels[first]
        return f"{name}={json.dumps(label, ensure_ascii=False) if '|' in label else quoted(label)}"
    if attribute.values:
        low = f"{_beside_signs(labels[first])}<=" if first else ""
        return f"{low}{name}<={_beside_signs(labels[last])}"
    closed, end = last == listed - 1, attribute.edge_label(last + 1)
    if first:
        return f"{name}=[{attribute.edge_label(first)}, {end}{']' if closed else ')'}"
    return f"{name}{'<=' if closed else '<'}{end}"


def _beside_signs(text: str) -> str:
    """Quoted where it would be misread beside < and <= too."""
    return json.dumps(text, ensure_ascii=False) if set("<>") & set(text) else quoted(text)


def read_conjunctions(texts: Sequence[str], layout: Layout) -> Literals:
    """The conjunctions that some texts describe, all of one number of literals.

    Spaces around literals and signs are free; quotes are needed where a name or label holds &, !, =, ^ or a quote.

    Raises LiteralError for the first text that is no conjunction, has another number of literals, names an item or a
    value twice, or asks two values of one attribute.
    """
    if any('"' in text for text in texts):
        parts = pa.array([_split(text, "&") for text in texts], type=pa.list_(pa.string()))
    else:
        parts = pc.split_pattern(pa.array(texts, type=pa.string()), "&")
    lengths = np.asarray(pc.list_value_length(parts).to_numpy())
    other = np.flatnonzero(lengths != lengths[0])
    if other.size:
        place = int(other[0])
        said = f"has {lengths[place]} literals and those before have {lengths[0]}; want one number in all"
        raise LiteralError(place, said)
    flat = pc.utf8_trim_whitespace(pc.list_flatten(parts)).dictionary_encode()
    which = np.asarray(flat.indices.to_numpy()).reshape(len(texts), -1)
    codes = np.empty(len(flat.dictionary), dtype=np.int64)
    known = _known(layout)
    for index, text in enumerate(flat.dictionary.to_pylist()):
        try:
            codes[index] = _code(text, layout, known)
        except ValueError as error:
            raise LiteralError(int(np.flatnonzero((which == index).any(axis=1))[0]), str(error)) from error
    literals = codes[which]
    columns, negated = (literals >> 1).astype(np.int32), (literals & 1).astype(np.bool_)
    _check(columns, negated, layout)
    return Literals(columns, negated)


def read_columns(texts: Sequence[str], layout: Layout) -> NDArray[np.int32]:
    """The columns that some texts name, 'sex=male' or '12'; int32 [n], distinct. Raises LiteralError."""
    found: dict[int, int] = {}
    known = _known(layout)
    for place, text in enumerate(texts):
        try:
            column, negated = divmod(_code(text.strip(), layout, known), 2)
        except ValueError as error:
            raise LiteralError(place, str(error)) from error
        if negated:
            raise LiteralError(place, f"{text!r} is a negation; want the column itself")
        if column in found:
            raise LiteralError(place, f"names {text.strip()!r} a second time; want each column once")
        found[column] = place
    return np.array(list(found), dtype=np.int32)


def _check(columns: NDArray[np.int32], negated: NDArray[np.bool_], layout: Layout) -> None:
    ordered = np.sort(columns, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if twice.any():
        raise LiteralError(int(twice.argmax()), "names an item or a value twice; want it once")
    if isinstance(layout, TableLayout):
        # Negated literals get numbers of their own, which no two share.
        apart = -1 - np.arange(columns.shape[1])
        groups = np.sort(np.where(negated, apart, layout.view.group_of_column()[columns]), axis=1)
        contradicts = (groups[:, 1:] == groups[:, :-1]).any(axis=1)
        if contradicts.any():
            raise LiteralError(int(contradicts.argmax()), "wants two values of one attribute, which no row has")


def _known(layout: Layout) -> dict[str, int]:
    """The literals of a table as this project writes them; a code is 2 * column + negated."""
    if not isinstance(layout, TableLayout):
        return {}
    texts = {sign: columns_as_text(layout, sign).to_pylist() for sign in ("=", "!=")}
    return {text: 2 * column + (sign == "!=") for sign in texts for column, text in enumerate(texts[sign])}


def _code(text: str, layout: Layout, known: dict[str, int]) -> int:
    """2 * column + negated of one literal. Raises ValueError that says what was wanted."""
    if text in known:
        return known[text]
    if not text:
        raise ValueError("has an empty literal; want one between any two &")
    if isinstance(layout, TableLayout):
        return _code_in_table(text, layout, known)
    item = _ITEM.fullmatch(text)
    if item is None:
        raise ValueError(f"{text!r} is no literal; want an item's number, or ! and a number")
    if int(item[2]) >= layout.items:
        raise ValueError(f"item {item[2]} is out of range; want 0 .. {layout.items - 1}")
    return 2 * int(item[2]) + len(item[1])


def _code_in_table(text: str, layout: TableLayout, known: dict[str, int]) -> int:
    parts = _split(text, "=")
    if len(parts) != 2:
        raise ValueError(f"{text!r} is no literal; want attribute=value or attribute!=value")
    sign = "!=" if parts[0].endswith("!") else "="
    name, label = _unquoted(parts[0].removesuffix("!")), _unquoted(parts[1])
    attributes = {attribute.name: attribute for attribute in layout.schema.attributes}
    if name not in attributes:
        raise ValueError(f"unknown attribute {name!r}{_nearest(name, attributes)}")
    labels = attributes[name].labels
    if label not in labels:
        raise ValueError(f"unknown value {label!r} of attribute {name!r}{_nearest(label, labels)}")
    return known[f"{quoted(name)}{sign}{quoted(label)}"]


def _nearest(text: str, known: Iterable[str]) -> str:
    listed = list(known)
    near = difflib.get_close_matches(text, listed, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; want one of {listed[:20]}"


def _split(text: str, sign: str) -> list[str]:
    """The parts between signs that stand outside quotes."""
    parts = [""]
    for token in _TOKEN.findall(text):
        if token == sign:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _unquoted(text: str) -> str:
    text = text.strip()
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise ValueError(f"{text} is not well quoted; want the quotes of JSON") from error
