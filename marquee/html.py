"""What notebooks show: small tables, in which every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable
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


def _note(note: str) -> str:
    return f"<p>{escape(note)}</p>" if note else ""
