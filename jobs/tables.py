"""Results as tables on a terminal, and as plain aligned text everywhere else, where scripts may read them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer


def is_for_people() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def echo_facts(facts: Sequence[tuple[str, str]], width: int, *, title: str = "") -> None:
    """Prints names with their values.

    facts: Pairs of a name and a value. On a terminal, a name that repeats the one above is left out.
    width: Number of columns of the names in plain text, with the space after them.
    title: Heading on a terminal.
    """
    if not is_for_people():
        for name, value in facts:
            typer.echo(f"{name:<{width - 1}} {value}")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(overflow="fold")
    before = ""
    for name, value in facts:
        table.add_row(name if name != before else "", Text(value))
        before = name
    Console().print(table)


def echo_rows(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Prints a table with headings: with lines and colours on a terminal, and aligned otherwise.

    columns: The headings.
    rows: The cells of each row.
    right: Headings of columns that are aligned to the right.
    """
    if not is_for_people():
        for line in plain_rows(columns, rows, right=right):
            typer.echo(line)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", min_width=len(name), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def plain_rows(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> list[str]:
    """The same table as lines of text. The arguments are those of ``echo_rows``.

    >>> plain_rows(["name", "n"], [["a", "10"], ["bcdef", "2"]], right=["n"])
    ['name    n', 'a      10', 'bcdef   2']
    """
    widths = [max(len(text) for text in column) for column in zip(columns, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        sized = zip(cells, columns, widths, strict=True)
        return "  ".join(f"{cell:>{size}}" if name in right else f"{cell:<{size}}" for cell, name, size in sized)

    return [line(cells).rstrip() for cells in (columns, *rows)]
