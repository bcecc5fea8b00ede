"""Placeholders in ``output.path``, so that scheduled releases of one config get a folder each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dpcore.errors import ConfigError
from jobs.config.section import check_key

if TYPE_CHECKING:
    from jobs.config.release import Config

PLACEHOLDERS: Final = ("dataset.name", "dataset.snapshot", "mechanism.name", "release_id")
"""What may stand in braces. All of these are public."""

SHOWN_DIGITS: Final = 12
"""Number of digits of the release id in a path."""

_BRACES: Final = re.compile(r"\{\{|\}\}|\{(?P<name>[^{}]*)\}|(?P<single>[{}])")
# Such a value would name another folder, a hidden one (as the state folder is), or the home folder of a user.
_UNSAFE: Final = re.compile(r"[./~\\]|[^/\\]*[/\\]")
_NO_KEY: Final = re.compile(r"[?#%*&]")  # These end or change a URL.


def check_placeholders(path: str) -> None:
    """Checks the braces of an output path.

    path: The path as it is written in the config.

    Raises: ValueError when a placeholder is unknown, or a brace stands alone.
    """
    for found in _BRACES.finditer(path):
        if found["single"]:
            raise ValueError("is a path with a brace that has no partner; want {NAME}, or {{ for a brace")
        if found["name"] is not None:
            check_key(found["name"], list(PLACEHOLDERS), "placeholder")


def expanded_output(config: Config, release_id: str) -> str:
    """The output path with values in place of its placeholders.

    config: The config, whose output path ``check_placeholders`` has accepted.
    release_id: The id of the release, of which the first digits are used.

    Raises: ConfigError when a value cannot be part of a folder's name, because it would lead elsewhere.
    """
    values = {
        "dataset.name": config.dataset.name,
        "dataset.snapshot": config.dataset.snapshot,
        "mechanism.name": config.mechanism.name,
        "release_id": release_id[:SHOWN_DIGITS],
    }

    in_store = "://" in config.output.path

    def text(found: re.Match[str]) -> str:
        name = found["name"]
        return found[0][0] if name is None else _folder_name(name, values[name], in_store)

    return _BRACES.sub(text, config.output.path)


def _folder_name(name: str, value: str, in_store: bool) -> str:
    if _UNSAFE.match(value) or not value.isprintable() or (in_store and _NO_KEY.search(value)):
        raise ConfigError(
            f"output.path contains {{{name}}}, but {name} is {value!r}, which is no name of a folder; want a value "
            "without slashes and control characters (in a URL, without ? # % * & too) that does not begin with a dot "
            "or a tilde, or another placeholder"
        )
    return value
