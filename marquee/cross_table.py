"""A marginal as a table, with its margins and the interval of each answer."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from marquee.html import grid
from marquee.released_answers import Cells

MARGIN: Final = "all"
"""How a margin is named."""

_LARGEST_TABLE: Final = 5  # Attributes.
_SHOWN_ROWS: Final = 200
_NUMBERS: Final = ("answer", "stddev", "lower", "upper")


@dataclass(frozen=True, eq=False)
class Table:
    """A marginal with its margins.

    names: The attributes.
    labels: The labels of each attribute, in the order of its codes. One position more stands for the margin.
    answer, stddev, lower, upper: float64 [labels of each attribute, and one for the margin], in counts. The last three
        are NaN where nothing is known of the error.
    source: Text of the same shape: ``"published"``, ``"model"``, or ``"sum"`` for a margin that sums its cells.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...] = field(repr=False)
    answer: NDArray[np.float64] = field(repr=False)
    stddev: NDArray[np.float64] = field(repr=False)
    lower: NDArray[np.float64] = field(repr=False)
    upper: NDArray[np.float64] = field(repr=False)
    source: NDArray[np.str_] = field(repr=False)

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        labels: Sequence[tuple[str, ...]],
        marginal: Callable[[tuple[str, ...]], Cells | None],
    ) -> Table:
        """The table of some attributes.

        names: The attributes, at least 1.
        labels: The labels of each attribute.
        marginal: Gives the marginal of some of the attributes; None if the release does not answer it.

        Raises: ConfigError when there are too many attributes, an attribute occurs twice, or their marginal is unknown.
        """
        if not 1 <= len(names) <= _LARGEST_TABLE or len(set(names)) < len(names):
            raise ConfigError(f"a table has the attributes {list(names)}; want 1 to {_LARGEST_TABLE} distinct ones")
        inner = marginal(tuple(names))
        if inner is None:
            raise ConfigError(
                f"the release answers no marginal of {list(names)}, and has no model of them; want a marginal of its "
                "workload, or a release whose workload names them, of a mechanism with a model"
            )
        shape = tuple(len(listed) + 1 for listed in labels)
        arrays = {name: np.full(shape, np.nan) for name in _NUMBERS}
        source = np.full(shape, "sum", dtype="<U9")
        for size in range(len(names) + 1):
            for part in combinations(range(len(names)), size):
                cells = inner if size == len(names) else marginal(tuple(names[axis] for axis in part))
                place = tuple(slice(0, -1) if axis in part else -1 for axis in range(len(names)))
                source[place] = _fill(arrays, place, cells or _summed(inner, part))
        return cls(tuple(names), tuple(labels), **arrays, source=source)

    def to_arrow(self) -> pa.Table:
        """One row for each cell and margin, with the label of each attribute; null stands for a margin."""
        listed = [(*labels, None) for labels in self.labels]
        rows = list(product(*listed))
        columns: dict[str, pa.Array] = {
            name: pa.array([row[axis] for row in rows], type=pa.string()) for axis, name in enumerate(self.names)
        }
        for name in _NUMBERS:
            values = getattr(self, name).ravel()
            columns[name] = pa.array(values, mask=np.isnan(values))
        return pa.table({**columns, "source": pa.array(self.source.ravel().tolist())})

    def to_pandas(self, values: str = "answer") -> Any:
        """The table as a frame of pandas. Margins are named ``all``.

        values: What the cells hold if there are two attributes or more: answer, stddev, lower or upper. The labels of
            the last attribute are then the columns. With one attribute, all four are columns.
        """
        pandas = _pandas()
        if values not in _NUMBERS:
            raise ConfigError(f"values is {values!r}; want one of {', '.join(_NUMBERS)}")
        *outer, last = [[*labels, MARGIN] for labels in self.labels]
        if not outer:
            return pandas.DataFrame(
                {name: getattr(self, name) for name in _NUMBERS}, index=pandas.Index(last, name=self.names[0])
            )
        index = (
            pandas.Index(outer[0], name=self.names[0])
            if len(outer) == 1
            else pandas.MultiIndex.from_product(outer, names=self.names[:-1])
        )
        cells = getattr(self, values).reshape(-1, len(last))
        return pandas.DataFrame(cells, index=index, columns=pandas.Index(last, name=self.names[-1]))

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """One line for each cell and margin, as in ``to_arrow``. An empty label stands for a margin.

        path: The file to write; None to write none.

        Returns: The text.
        """
        sink = pa.BufferOutputStream()
        pyarrow.csv.write_csv(self.to_arrow(), sink)
        text = str(sink.getvalue().to_pybytes(), "utf-8")
        if path is not None:
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text)
        return text

    def __str__(self) -> str:
        header, rows = self._texts()
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
                         for row in (header, *rows))  # fmt: skip

    def _repr_html_(self) -> str:
        header, rows = self._texts()
        note = "In brackets: the 95 % interval of a single answer, where the release has one."
        if len(rows) > _SHOWN_ROWS:
            note = f"{note} {len(rows) - _SHOWN_ROWS:,} further rows are in to_arrow() and to_csv()."
        return grid(" x ".join(self.names), header, rows[:_SHOWN_ROWS], note, named=max(1, len(self.names) - 1))

    def _texts(self) -> tuple[list[str], list[list[str]]]:
        """The header and the rows: the last of several attributes in columns, with the interval of each answer."""
        *outer, last = [[*labels, MARGIN] for labels in self.labels]
        if not outer:
            rows = [[label, _cell(self, (code,))] for code, label in enumerate(last)]
            return [self.names[0], "answer"], rows
        named = product(*(enumerate(labels) for labels in outer))
        rows = [
            [
                *(label for _, label in chosen),
                *(_cell(self, (*(code for code, _ in chosen), k)) for k in range(len(last))),
            ]
            for chosen in named
        ]
        return [*self.names[:-1], *(f"{self.names[-1]}={label}" if label != MARGIN else label for label in last)], rows


def _fill(arrays: dict[str, NDArray[np.float64]], place: tuple[Any, ...], cells: Cells) -> str:
    """Puts a marginal into its place, and returns its source."""
    for name, array in arrays.items():
        array[place] = getattr(cells, name)
    return cells.source


def _summed(inner: Cells, part: tuple[int, ...]) -> Cells:
    axes = tuple(axis for axis in range(inner.answer.ndim) if axis not in part)
    return Cells.without_bars(np.asarray(inner.answer.sum(axis=axes)), "sum")


def _cell(table: Table, place: tuple[int, ...]) -> str:
    answer, lower, upper = (float(values[place]) for values in (table.answer, table.lower, table.upper))
    if math.isnan(lower) or math.isnan(upper):
        return count(answer)
    return f"{count(answer)} ({count(lower)} to {count(upper)})"


def count(value: float) -> str:
    """A number of rows as text, with a decimal if it is small."""
    return f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"


def _pandas() -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ConfigError(
            "pandas is not installed; want pip install pandas, or to_arrow() in place of to_pandas()"
        ) from error
    return pd
