"""Parameters of a config: environment variables in its values, and keys that the command line sets.

They are applied to the parsed file before its keys are checked. The result is the effective config, from which the
release id and the certificate are computed, so neither depends on how the config was written. A key that is set wins
over the file, and a variable in the value that it replaces need not exist.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, Final

from dpcore.errors import ConfigError
from jobs.config.section import Section
from pipelines.yaml_file import LARGEST_DEPTH, parse_yaml

_REFERENCE: Final = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\{))")
_SEGMENT: Final = re.compile(r'(?:"(?P<quoted>[^"]+)"|(?P<plain>[^".=\s]+))(?P<end>\.|$)')
# Variables whose name says that they hold a secret, and the only keys that may use them: no record repeats those.
_SECRET: Final = re.compile(r"PASSWORD|PASSWD|SECRET|TOKEN|CREDENTIAL|(^|_)KEY($|_)|APIKEY", re.IGNORECASE)
_KEYS_FOR_SECRETS: Final = (("privacy", "ledger"), ("engine", "options"))

Place = tuple[str | int, ...]


def with_environment(value: Any, environment: Mapping[str, str], place: Place = ()) -> Any:
    """The config with the values of environment variables in all its texts; ``$$`` stands for one dollar sign.

    A text stays a text, whatever the variables hold. Keys, numbers and dates are not changed.

    value: The parsed content of a config file, or of a part of it.
    environment: The variables by name.
    place: Keys that lead to ``value``, for error messages.

    Raises: ConfigError that names the key and the variable that is not set, or that may hold a secret which this key
        would reveal.
    """
    if isinstance(value, Mapping):
        return {key: with_environment(part, environment, (*place, key)) for key, part in value.items()}
    if isinstance(value, list):
        return [with_environment(part, environment, (*place, number)) for number, part in enumerate(value)]
    if isinstance(value, str) and "$" in value:
        return _REFERENCE.sub(lambda found: _expansion(found, environment, place), value)
    return value


def _expansion(found: re.Match[str], environment: Mapping[str, str], place: Place) -> str:
    key, name = _shown(place), found["name"]
    if found["broken"]:
        raise ConfigError(
            f"{key} has ${{ without a variable; want ${{NAME}} or ${{NAME:-default}}, or $${{ for the text"
        )
    if name is None:
        return "$"
    if _SECRET.search(name) and place[:2] not in _KEYS_FOR_SECRETS:
        raise ConfigError(
            f"{key} uses the environment variable {name}, whose name says that it holds a secret, and records of the "
            "release repeat this key; want secrets in privacy.ledger and engine.options alone, or another name"
        )
    # As in a shell, a default also stands for an empty variable.
    value = environment.get(name) or found["default"]
    if value is None and name not in environment:
        raise ConfigError(
            f"{key} uses the environment variable {name}, which is not set; want it set, or a default: ${{{name}:-...}}"
        )
    return value or ""


def with_settings(document: Any, settings: Sequence[str], sections: type[Section]) -> Any:
    """The config with the keys that the command line sets, each in place of the file's. A later one wins.

    Dollar signs in the values are doubled, so that ``with_environment`` gives back the values as they were set.

    document: The parsed content of a config file.
    settings: ``KEY=VALUE`` each. The key is a path such as ``workload.products.0.weight``; a part with dots is put in
        double quotes. The value is read as YAML, as in the file.
    sections: The type of the config, which knows the allowed keys.

    Raises: ConfigError that names the option, and suggests the nearest known key.
    """
    for setting in settings:
        written, equals, text = setting.partition("=")
        option = f"--set {written}"
        if not equals:
            raise ConfigError(f"{option} has no value; want --set KEY=VALUE, such as --set dataset.snapshot=2026-11-23")
        try:
            value = _escaped(parse_yaml(text, option, dates=False))
            document = _replaced(document, _path(written), value, sections, ())
        except ValueError as error:
            raise ConfigError(f"{option}: {error}") from error
    return document


def _escaped(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _escaped(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_escaped(part) for part in value]
    return value.replace("$", "$$") if isinstance(value, str) else value


def _path(written: str) -> list[str]:
    """The parts of a key. Raises ValueError when there is none or too many, or a quote is not closed."""
    parts: list[str] = []
    start = 0
    while (found := _SEGMENT.match(written, start)) and len(parts) < LARGEST_DEPTH:
        parts.append(found["quoted"] or found["plain"])
        start = found.end()
        if not found["end"]:
            return parts
    raise ValueError(
        f'is no key; want up to {LARGEST_DEPTH} keys with dots between them, and "..." around a key that contains dots'
    )


def _replaced(node: Any, path: Sequence[str], value: Any, kind: Any, place: Place) -> Any:
    """A copy of ``node`` with one value set. ``node`` itself may occur elsewhere in the file, as a YAML alias."""
    if not path:
        return value
    key, *rest = path
    section = _section(kind)
    if section is not None:
        section.check_own_key(key)
    if isinstance(node, list):
        number = _index(key, node, place)
        entry = _replaced(node[number], rest, value, _type_of_entry(kind), (*place, number))
        return [*node[:number], entry, *node[number + 1 :]]
    if node is not None and not isinstance(node, Mapping):
        raise ValueError(f"{_shown(place)} holds one value and no keys; want a key of the config, and a value after it")
    inner = section.type_of(key) if section is not None else _type_of_value(kind)
    return {**(node or {}), key: _replaced((node or {}).get(key), rest, value, inner, (*place, key))}


def _index(key: str, node: Sequence[Any], place: Place) -> int:
    if not key.isdecimal() or int(key) >= len(node):
        raise ValueError(f"{key!r} is no entry of {_shown(place)}; want a number from 0 to {len(node) - 1}")
    return int(key)


def _alternatives(kind: Any) -> list[Any]:
    """The types of a union, without Annotated."""
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _alternatives(typing.get_args(kind)[0])
    if origin in (typing.Union, UnionType):
        return [found for part in typing.get_args(kind) for found in _alternatives(part)]
    return [kind]


def _section(kind: Any) -> type[Section] | None:
    """The only section that a value may be; None if it is no section, or one of several."""
    found = [part for part in _alternatives(kind) if isinstance(part, type) and issubclass(part, Section)]
    return found[0] if len(found) == 1 else None


def _type_of_entry(kind: Any) -> Any:
    lists = (typing.get_args(part) for part in _alternatives(kind) if typing.get_origin(part) is tuple)
    return next((arguments[0] for arguments in lists if arguments), Any)


def _type_of_value(kind: Any) -> Any:
    mappings = (typing.get_args(part) for part in _alternatives(kind) if typing.get_origin(part) is dict)
    return next((arguments[1] for arguments in mappings if arguments), Any)


def _shown(place: Place) -> str:
    return ".".join(map(str, place)) or "the config"
