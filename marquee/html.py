"""What notebooks show: small tables, in which every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def key_values(title: str, rows: Iterable[tuple[str, str]], note: str = "") -> str:
    """A table of two columns.

    title: Caption of the table.
    rows: The name and the text of each row.
    note: A sentence below the table.
    """
    cells = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(key)}</th>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for key, text in rows
    )
    return f"<table><caption>{escape(title)}</caption>{cells}</table>{_note(note)}"


def grid(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], note: str = "", *, named: int = 1) -> str:
    """A table with a header.

    title: Caption of the table.
    header: The heading of each column.
    rows: The texts of each row.
    note: A sentence below the table.
    named: Number of columns at the start of a row that name it.
    """
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in header)
    body = "".join(f"<tr>{_cells(row, named)}</tr>" for row in rows)
    return (
        f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"{_note(note)}"
    )


def _cells(row: Sequence[str], named: int) -> str:
    names = "".join(f'<th scope="row" style="text-align:left">{escape(text)}</th>' for text in row[:named])
    return names + "".join(f'<td style="text-align:right">{escape(text)}</td>' for text in row[named:])


def _note(note: str) -> str:
    return f"<p>{escape(note)}</p>" if note else ""
