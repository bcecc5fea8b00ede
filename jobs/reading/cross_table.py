"""A marginal with its margins, as text, HTML, CSV or a spreadsheet. Public."""

from __future__ import annotations

import csv
import html
import io
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from dpcore.errors import ConfigError
from jobs.reading.marginals import BARS, PUBLISHED, SUM, Marginal, marginal, published, summed
from jobs.reading.release_folder import ReleaseFolder

LARGEST_TABLE: Final = 100_000
"""Largest number of cells of a cross table."""

ALL: Final = "(all)"
"""The label of a margin, which sums over an attribute."""

Row = tuple[str | float | None, ...]


@final
@dataclass(frozen=True, eq=False)
class CrossTable:
    """A marginal and the margins of its table. Public.

    whole: The marginal. The last attribute runs across the columns of the table, all others down its rows.
    margins: The marginal over each smaller set of its attributes, down to none, which is the number of rows.
    """

    whole: Marginal
    margins: Mapping[tuple[str, ...], Marginal]

    @classmethod
    def of(cls, folder: ReleaseFolder, names: Sequence[str]) -> CrossTable:
        """Builds the table. A margin that is neither published nor the model's is the sum of its cells.

        folder: The release, of a table.
        names: The attributes, each once, at least one.

        Raises: ConfigError when the release does not answer this marginal, or it has too many cells.
        """
        if not names:
            raise ConfigError("no attribute is named; want at least one attribute of the release")
        known = {attribute.name: attribute for attribute in folder.schema.attributes}
        cells = math.prod(known[name].size for name in names if name in known)
        if cells > LARGEST_TABLE:
            raise ConfigError(
                f"the marginal of {list(names)} has {cells:,} cells; want at most {LARGEST_TABLE:,}, or read "
                "answers.parquet"
            )
        whole = marginal(folder, names)
        subsets = [kept for size in range(len(names)) for kept in itertools.combinations(names, size)]
        margins = {kept: published(folder, [known[name] for name in kept]) or summed(whole, kept) for kept in subsets}
        return cls(whole, margins)

    @property
    def remarks(self) -> list[str]:
        """Where the figures come from, and what the error bars mean."""
        lines = [f"Counts: {self.whole.source}."]
        if self.whole.source == PUBLISHED:
            lines[0] += " Intervals hold for each count by itself with probability 95 %."
        if any(margin.source == SUM for margin in self.margins.values()):
            lines.append(f"Margins that the release does not answer are {SUM}.")
        return lines

    def records(self) -> Iterator[Row]:
        """Yields one record per count, margins included: a label of each attribute, answer, stddev, lower, upper.

        A margin has the label ``(all)``; what is not known is None.
        """
        for kept in (*self.margins, self.whole.attributes):
            table = self.whole if kept == self.whole.attributes else self.margins[kept]
            numbers = zip(*(getattr(table, name).reshape(-1).tolist() for name in BARS), strict=True)
            for labels, bars in zip(itertools.product(*table.labels), numbers, strict=True):
                by_name = dict(zip(kept, labels, strict=True))
                yield (*(by_name.get(name, ALL) for name in self.whole.attributes), *map(_known, bars))

    def grid(self) -> list[list[str]]:
        """The table as text: a row of headings, then one row per combination of the attributes down the side."""
        *down, across = self.whole.attributes
        shown = {record[: len(down) + 1]: _shown(record[len(down) + 1 :]) for record in self.records()}
        *sides, top = self.whole.labels
        heads = [[*down, *(f"{across}={label}" for label in top), ALL]]
        if not down:
            return [[across, "count"], *([label, shown[(label,)]] for label in (*top, ALL))]
        body = [
            [*side, *(shown[(*side, label)] for label in (*top, ALL))]
            for side in (*itertools.product(*sides), (ALL,) * len(down))
        ]
        return heads + body

    def to_text(self) -> str:
        """The table in columns, for a terminal."""
        grid = self.grid()
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        sides = max(1, len(self.whole.attributes) - 1)
        lines = ["  ".join(_aligned(row, widths, sides)).rstrip() for row in grid]
        return "\n".join([*lines, *self.remarks])

    def to_html(self) -> str:
        """The table as an HTML table with headings for screen readers."""
        heading, *body = self.grid()
        sides = max(1, len(self.whole.attributes) - 1)
        cells = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in heading)
        rows = "".join(
            "<tr>"
            + "".join(f'<th scope="row">{html.escape(text)}</th>' for text in row[:sides])
            + "".join(f"<td>{html.escape(text)}</td>" for text in row[sides:])
            + "</tr>"
            for row in body
        )
        caption = html.escape(" ".join(self.remarks))
        return f"<table><caption>{caption}</caption><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>"

    def to_csv(self) -> str:
        """The records as CSV with a row of headings; what is not known is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.records())
        return text.getvalue()

    def write_xlsx(self, path: Path) -> None:
        """Writes the records as a spreadsheet. Needs the extra ``xlsx``."""
        try:
            import xlsxwriter
        except ModuleNotFoundError as error:
            raise ConfigError("--xlsx needs 'xlsxwriter'; install marquee[xlsx]") from error
        with xlsxwriter.Workbook(path, {"strings_to_formulas": False, "strings_to_urls": False}) as book:
            sheet, bold = book.add_worksheet("counts"), book.add_format({"bold": True})
            sheet.write_row(0, 0, self.columns, bold)
            for number, record in enumerate(self.records(), start=1):
                for column, value in enumerate(record):
                    if isinstance(value, str):
                        sheet.write_string(number, column, value)
                    elif value is not None:
                        sheet.write_number(number, column, value)
            sheet.freeze_panes(1, 0)
            sheet.autofilter(0, 0, number, len(self.columns) - 1)
            for line, remark in enumerate(self.remarks, start=number + 2):
                sheet.write_string(line, 0, remark)

    @property
    def columns(self) -> list[str]:
        """Names of the columns of ``records``."""
        return [*self.whole.attributes, *BARS]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _shown(bars: Sequence[str | float | None]) -> str:
    """A count with its interval, in whole counts."""
    answer, _, lower, upper = bars
    if lower is None or upper is None:
        return f"{float(answer or 0):,.0f}"
    return f"{float(answer or 0):,.0f} [{float(lower):,.0f}, {float(upper):,.0f}]"


def _aligned(row: Sequence[str], widths: Sequence[int], sides: int) -> Iterator[str]:
    for column, (text, width) in enumerate(zip(row, widths, strict=True)):
        yield text.ljust(width) if column < sides else text.rjust(width)
