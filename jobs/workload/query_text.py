"""Writes queries as text and reads them back: 'sex=male & race!=White', '12 & !845', 'even(sex=male ^ race=White)'.

A row of a query matrix is written as a literal too: a prefix as 'age<40', a range as 'age=[18, 65)' or 'A<=grade<=B',
and a group as '(race=White | race=Black)'. An attribute whose row counts all values is left out. 'all' is the number of
rows. An item with a name is written as 'milk' or '"fish & chips"'.
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
from pipelines.arrow import numbers_of
from pipelines.attributes import Attribute
from pipelines.item_names import UNKNOWN, ItemNames
from pipelines.layout import BasketLayout, Layout, TableLayout

_NEEDS_QUOTES = frozenset('&!="^<>|')
# A token is quoted text or one character.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|.', re.DOTALL)
_ITEM = re.compile(r"(!?)\s*([0-9]+)")


class LiteralError(ValueError):
    """Raised for a text that is not a query.

    index: Position of the text in the sequence that was read, from 0.
    problem: What is wrong with the text, and what was wanted.
    """

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index = index


@dataclass(frozen=True, eq=False)
class Literals:
    """m conjunctions of at most k literals, in the order of their texts; shorter ones repeat the last literal.

    columns: Column of each literal in the binary view, int32 [m, k].
    negated: Whether the literal is negated, bool [m, k].
    """

    columns: NDArray[np.int32]
    negated: NDArray[np.bool_]


def quoted(text: str) -> str:
    """The text, in JSON quotes if it would otherwise be misread next to a sign of a query: & | ! = < > or ^."""
    plain = text == text.strip() and text and not _NEEDS_QUOTES & set(text)
    return text if plain else json.dumps(text, ensure_ascii=False)


def item_text(name: str) -> str:
    """The name of an item as queries write it: in JSON quotes if it would be misread, or is not one printable line."""
    return quoted(name) if name.isprintable() else json.dumps(name, ensure_ascii=False)


def items_as_text(codes: NDArray[np.int32], layout: BasketLayout) -> pa.Array:
    """The literal of each item, as text: its name as queries write it, or its number. A negative code is null.

    codes: Codes of items, int32 [n].
    layout: The public layout of the baskets.
    """
    present = pa.array(codes, mask=codes < 0)
    if layout.names is None:
        return present.cast(pa.string())
    distinct = present.dictionary_encode()
    names = layout.names.take(numbers_of(distinct.dictionary)).to_pylist()
    return pa.array(map(item_text, names), pa.string()).take(distinct.indices)


def labels_of(layout: TableLayout) -> dict[str, pa.Array]:
    """Labels of the codes of each attribute, in the order of the codes and quoted if necessary."""
    return {
        attribute.name: pa.array([quoted(label) for label in attribute.labels])
        for attribute in layout.schema.attributes
    }


def literal_texts(name: str, labels: pa.Array, sign: str) -> pa.Array:
    """One literal such as 'name=label' per label.

    name: Name of the attribute.
    labels: Labels, quoted if necessary.
    sign: '=' or '!='.
    """
    return pc.binary_join_element_wise(pa.repeat(pa.scalar(quoted(name)), len(labels)), labels, sign)


def columns_as_text(layout: TableLayout, sign: str) -> pa.Array:
    """One literal per column of the one-hot view.

    layout: The public layout of the table.
    sign: '=' or '!='.
    """
    return pa.concat_arrays([literal_texts(name, texts, sign) for name, texts in labels_of(layout).items()])


def rows_as_text(attribute: Attribute, matrix: NDArray[np.int64], alone: bool = True) -> pa.Array:
    """One literal per row of an attribute's query matrix.

    A prefix is written as 'age<40' (bins) or 'grade<=B' (values), a range as 'age=[18, 65)' or 'A<=grade<=B', a single
    code as 'sex=male', and any other set as 'sex=male | sex=other'. Values that are not numbers are listed one by one,
    unless the matrix consists of prefixes or ranges. The text of a row that counts all codes is null, unless the matrix
    consists of prefixes or ranges.

    attribute: The attribute, whose codes are the columns of the matrix.
    matrix: Which codes each row counts, int64 [rows, codes] of 0 and 1.
    alone: Whether the literal is the whole query. Otherwise a literal with several parts is put in brackets.
    """
    ordered = _is_ordered_matrix(attribute, matrix)
    texts = []
    for row in matrix:
        text = None if row.all() and not ordered else _row_as_text(attribute, np.flatnonzero(row), ordered)
        texts.append(f"({text})" if text and " | " in text and not alone else text)
    if attribute.size == 1 and not ordered:
        texts = [f"{quoted(attribute.name)}={quoted(attribute.labels[0])}"] * len(matrix)
    return pa.array(texts, type=pa.string())


def row_labels(attribute: Attribute, matrix: NDArray[np.int64]) -> pa.Array:
    """What each row of a query matrix asks of the attribute, without the attribute's name where it comes first.

    A row of a single code has the code's label, unquoted. The text of a row that counts all codes is null, as in
    ``rows_as_text``.

    attribute: The attribute, whose codes are the columns of the matrix.
    matrix: Which codes each row counts, int64 [rows, codes] of 0 and 1.
    """
    texts = rows_as_text(attribute, matrix).to_pylist()
    return pa.array([_row_label(attribute, *pair) for pair in zip(texts, matrix, strict=True)], type=pa.string())


def _row_label(attribute: Attribute, text: str | None, row: NDArray[np.int64]) -> str | None:
    name = quoted(attribute.name)
    codes = np.flatnonzero(row)
    if text is not None and len(codes) == 1 and text.startswith(f"{name}="):
        return attribute.labels[int(codes[0])]
    return None if text is None else " | ".join(_without_name(part, name) for part in text.split(" | "))


def _without_name(text: str, name: str) -> str:
    return text.removeprefix(name).removeprefix("=") if text.startswith((f"{name}=", f"{name}<")) else text


def _is_ordered_matrix(attribute: Attribute, matrix: NDArray[np.int64]) -> bool:
    """Whether the rows are all prefixes, all ranges, or all ranges of one width above 1."""
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
    """One row as text. Neighbouring codes are joined to runs if their order has a meaning.

    It has one for bins, for increasing integers, and for matrices of prefixes or ranges.
    """
    known = int(np.count_nonzero(codes < attribute.known))
    runs = np.split(codes[:known], np.flatnonzero(np.diff(codes[:known]) > 1) + 1) if known else []
    if not (ordered or attribute.edges or _has_increasing_integers(attribute)):
        runs = [codes[index : index + 1] for index in range(known)]
    runs += [codes[index : index + 1] for index in range(known, len(codes))]
    return " | ".join(_run_as_text(attribute, int(run[0]), int(run[-1]), ordered) for run in runs)


def _has_increasing_integers(attribute: Attribute) -> bool:
    return all(type(low) is int and type(high) is int and low < high for low, high in pairwise(attribute.values))


def _run_as_text(attribute: Attribute, first: int, last: int, ordered: bool) -> str:
    name, labels, listed = quoted(attribute.name), attribute.labels, attribute.known
    if first == last and (first > 0 or not ordered):
        label = labels[first]
        return f"{name}={quoted(label)}"
    if attribute.values:
        low = f"{quoted(labels[first])}<=" if first else ""
        return f"{low}{name}<={quoted(labels[last])}"
    closed, end = last == listed - 1, attribute.edge_label(last + 1)
    if first:
        return f"{name}=[{attribute.edge_label(first)}, {end}{']' if closed else ')'}"
    return f"{name}{'<=' if closed else '<'}{end}"


def read_conjunctions(texts: Sequence[str], layout: Layout) -> Literals:
    """Reads conjunctions. If their numbers of literals differ, the shorter ones repeat their last literal.

    texts: One conjunction each. Spaces around literals and signs are ignored. A name or label that contains &, !, =, ^
        or a quote must be in quotes; with <, > or | it may be, and is where this module writes it.
    layout: The public layout of the data, which defines the columns.

    Raises: LiteralError for the first text that is not a conjunction, names an item or a value twice, or requires two
        values of one attribute.
    """
    if any('"' in text for text in texts):
        parts = pa.array([_split(text, "&") for text in texts], type=pa.list_(pa.string()))
    else:
        parts = pc.split_pattern(pa.array(texts, type=pa.string()), "&")
    lengths = np.asarray(pc.list_value_length(parts).to_numpy())
    position = np.arange(lengths.max())
    counted = position < lengths[:, None]
    flat = pc.utf8_trim_whitespace(pc.list_flatten(parts)).dictionary_encode()
    starts = np.cumsum(lengths) - lengths
    indices = np.asarray(flat.indices.to_numpy())[starts[:, None] + np.minimum(position, lengths[:, None] - 1)]
    codes = np.empty(len(flat.dictionary), dtype=np.int64)
    known = _literal_codes(layout, flat.dictionary.to_pylist())
    for index, text in enumerate(flat.dictionary.to_pylist()):
        try:
            codes[index] = _literal_code(text, layout, known)
        except ValueError as error:
            raise LiteralError(int(np.flatnonzero((indices == index).any(axis=1))[0]), str(error)) from error
    literals = codes[indices]
    columns, negated = (literals >> 1).astype(np.int32), (literals & 1).astype(np.bool_)
    _check(columns, negated, counted, layout)
    return Literals(columns, negated)


def read_columns(texts: Sequence[str], layout: Layout) -> NDArray[np.int32]:
    """Reads the names of columns, such as 'sex=male' or '12'.

    texts: One column each. The name of an item may be written as it is, without quotes.
    layout: The public layout of the data, which defines the columns.

    Returns: The columns in the order of the texts, int32 [n], distinct.
    Raises: LiteralError for the first text that is not the name of a column, or names a column again.
    """
    columns: dict[int, None] = {}  # A dict serves as an ordered set.
    known = _literal_codes(layout, [text.strip() for text in texts])
    if not isinstance(layout, TableLayout) and layout.names is not None:
        codes = layout.names.codes_of(pa.array([text.strip() for text in texts], pa.large_string())).tolist()
        known |= {text.strip(): 2 * code for text, code in zip(texts, codes, strict=True) if code != UNKNOWN}
    for index, text in enumerate(texts):
        try:
            column, negated = divmod(_literal_code(text.strip(), layout, known), 2)
        except ValueError as error:
            raise LiteralError(index, str(error)) from error
        if negated:
            raise LiteralError(index, f"{text!r} is a negation; want a column without negation")
        if column in columns:
            raise LiteralError(index, f"names {text.strip()!r} a second time; want each column once")
        columns[column] = None
    return np.array(list(columns), dtype=np.int32)


def _check(columns: NDArray[np.int32], negated: NDArray[np.bool_], counted: NDArray[np.bool_], layout: Layout) -> None:
    distinct = -1 - np.arange(columns.shape[1])  # A number of its own for each literal that cannot clash with others.
    ordered = np.sort(np.where(counted, columns, distinct), axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if repeated.any():
        raise LiteralError(int(repeated.argmax()), "names an item or a value twice; want each once")
    if isinstance(layout, TableLayout):
        # Negated literals do not contradict each other.
        groups = np.sort(np.where(negated | ~counted, distinct, layout.view.group_of_column()[columns]), axis=1)
        contradicts = (groups[:, 1:] == groups[:, :-1]).any(axis=1)
        if contradicts.any():
            raise LiteralError(
                int(contradicts.argmax()), "requires two values of one attribute, which no row has; want one of them"
            )


def _literal_codes(layout: Layout, literals: Sequence[str]) -> dict[str, int]:
    """The code 2 * column + negated of literals: of all of a table as this module writes them; of those of
    ``literals`` that name an item.
    """
    if not isinstance(layout, TableLayout):
        return {} if layout.names is None else _named_item_codes(literals, layout.names)
    texts = {sign: columns_as_text(layout, sign).to_pylist() for sign in ("=", "!=")}
    return {text: 2 * column + (sign == "!=") for sign in texts for column, text in enumerate(texts[sign])}


def _named_item_codes(literals: Sequence[str], names: ItemNames) -> dict[str, int]:
    read = {text: _item_literal(text) for text in literals}
    codes = names.codes_of(pa.array([name for name, _ in read.values()], pa.large_string())).tolist()
    pairs = zip(read.items(), codes, strict=True)
    return {text: 2 * code + negated for (text, (_, negated)), code in pairs if code != UNKNOWN}


def _item_literal(text: str) -> tuple[str | None, bool]:
    """The name in a literal, and whether it is negated. The name of what is not quoted correctly is None."""
    negated = text.startswith("!")
    try:
        return _unquoted(text[negated:]), negated
    except ValueError:
        return None, negated


def _literal_code(text: str, layout: Layout, known: dict[str, int]) -> int:
    """The code 2 * column + negated of one literal. Raises ValueError for an invalid literal."""
    if text in known:
        return known[text]
    if not text:
        raise ValueError("has an empty literal; want a literal on both sides of each &")
    if isinstance(layout, TableLayout):
        return _table_literal_code(text, layout, known)
    if layout.names is not None:
        name = _unquoted(text.removeprefix("!"))
        raise ValueError(f"unknown item {name!r}; want one of the {layout.items:,} listed ones, or ! and one of them")
    item = _ITEM.fullmatch(text)
    if item is None:
        raise ValueError(f"{text!r} is not a literal; want the number of an item, or ! and a number")
    if int(item[2]) >= layout.items:
        raise ValueError(f"item {item[2]} is out of range; want 0 .. {layout.items - 1}")
    return 2 * int(item[2]) + len(item[1])


def _table_literal_code(text: str, layout: TableLayout, known: dict[str, int]) -> int:
    parts = _split(text, "=")
    if len(parts) != 2:
        raise ValueError(f"{text!r} is not a literal; want attribute=value or attribute!=value")
    sign = "!=" if parts[0].endswith("!") else "="
    name, label = _unquoted(parts[0].removesuffix("!")), _unquoted(parts[1])
    attributes = {attribute.name: attribute for attribute in layout.schema.attributes}
    if name not in attributes:
        raise ValueError(f"unknown attribute {name!r}{_suggestion(name, attributes)}")
    labels = attributes[name].labels
    if label not in labels:
        raise ValueError(f"unknown value {label!r} of attribute {name!r}{_suggestion(label, labels)}")
    return known[f"{quoted(name)}{sign}{quoted(label)}"]


def _suggestion(text: str, known: Iterable[str]) -> str:
    listed = list(known)
    near = difflib.get_close_matches(text, listed, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; want one of {listed[:20]}"


def _split(text: str, sign: str) -> list[str]:
    """Splits a text at the signs outside quotes."""
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
        raise ValueError(f"{text} is not quoted correctly; want quotes as in JSON") from error
