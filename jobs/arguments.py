"""Checks of what is given on the command line: names and texts that the ledger keeps, and versions of tables."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from dpcore.errors import ConfigError

if TYPE_CHECKING:
    from pipelines.source import TableFormat

_LONGEST_NAME = 200  # Length of the ledger's columns, in characters.
_CONTROL = frozenset({"Cc", "Cs", "Zl", "Zp"})


def check_name(option: str, name: str) -> None:
    """Checks the name of a dataset or consumer.

    Raises: ConfigError that names the option.
    """
    if not name:
        raise ConfigError(f"{option} is empty; want the name of the {option.removeprefix('--')}")
    if len(name) > _LONGEST_NAME:
        raise ConfigError(f"{option} has {len(name)} characters; want at most {_LONGEST_NAME}")
    check_line(option, name)


def check_line(option: str, text: str) -> None:
    """Refuses line breaks and control characters, because the ledger's texts are printed to terminals later.

    Raises: ConfigError that names the option.
    """
    for character in text:
        if unicodedata.category(character) in _CONTROL:
            raise ConfigError(f"{option} contains the control character U+{ord(character):04X}; want one line of text")


def table_version(text: str) -> tuple[TableFormat, int]:
    """Format and version in the option ``--table``.

    Raises: ConfigError when the text is neither ``delta:VERSION`` nor ``iceberg:SNAPSHOT``.
    """
    from pipelines.source import TableFormat

    name, _, number = text.partition(":")
    if name not in tuple(TableFormat) or not (number.isascii() and number.isdigit()):
        raise ConfigError(f"--table is {text!r}; want delta:VERSION or iceberg:SNAPSHOT")
    return TableFormat(name), int(number)
