"""Reads the YAML files that people write: configs and schemas. What YAML would read in a surprising way is refused.

A file is read in bounded time and memory, whatever it holds: at most ``LARGEST_FILE`` bytes are read, and depth and
number of values are checked before any value is built.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Final

import yaml

from dpcore.errors import ConfigError
from pipelines.text_file import read_text

LARGEST_FILE: Final = 4 << 20
"""Maximum size of a file, in bytes."""

LARGEST_COUNT: Final = 250_000
"""Maximum number of keys and values of a file, where an alias counts as much as what it repeats."""

LARGEST_DEPTH: Final = 50
"""Maximum depth of lists and mappings within each other."""

# YAML 1.1 reads 00123 as an octal number, and 12:30 as a number in base 60.
_LEADING_ZERO: Final = re.compile(r"[-+]?0[0-9_]+")
_BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE, _TIMESTAMP = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:timestamp"


class _Loader(_Base):  # type: ignore[misc]
    """A SafeLoader that refuses repeated keys, merge keys and ambiguous numbers, and reads 1e-6 as a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                raise _problem(key_node, "merge keys (<<) are not supported; want the keys themselves")
            if not isinstance(key_node, yaml.ScalarNode):
                raise _problem(key_node, "a key is a list or a mapping; want a word")
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise _problem(key_node, f"key {key!r} is given twice; want it once")
            seen.add(key)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping

    def construct_unambiguous(self, node: yaml.ScalarNode) -> Any:
        text = node.value
        if not node.style and (_LEADING_ZERO.fullmatch(text) or _BASE_60.fullmatch(text)):
            raise _problem(node, f"{text} is unquoted, and YAML may read it as another number; want '{text}' in quotes")
        return _CONSTRUCTORS[node.tag](self, node)


class _DatesAsText(_Loader):
    """Reads dates as text, too."""


_CONSTRUCTORS: Final = {
    tag: yaml.SafeLoader.yaml_constructors[tag]
    for tag in (f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "str"))
}
for _tag in _CONSTRUCTORS:
    _Loader.add_constructor(_tag, _Loader.construct_unambiguous)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+0123456789.")
)
_DatesAsText.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def read_yaml(path: Path, kind: str, *, dates: bool) -> object:
    """Reads a YAML file.

    path: The file.
    kind: What the file should be, for error messages: 'config' or 'schema'.
    dates: Whether an unquoted date such as 2026-01-31 is read as a date. If not, it stays text.

    Raises: ConfigError that names the file and the line.
    """
    return parse_yaml(read_text(path, f"a YAML {kind}", LARGEST_FILE), str(path), dates=dates)


def parse_yaml(text: str, name: str, *, dates: bool) -> object:
    """Reads YAML from a text, as ``read_yaml`` reads it from a file.

    text: The text.
    name: Where it comes from, for error messages.
    dates: Whether an unquoted date is read as a date. If not, it stays text.

    Raises: ConfigError that names ``name`` and the line.
    """
    loader = _Loader if dates else _DatesAsText
    try:
        _check_size(text)
        return yaml.load(text, Loader=loader)
    except (AttributeError, LookupError) as error:  # A tag, such as !!int, on a value of another kind.
        raise ConfigError(f"{name}: a tag (!!) does not fit its value; want no tags") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f", line {mark.line + 1}"
        if isinstance(error, _Refused):
            raise ConfigError(f"{name}{line}: {error.problem}") from error
        problem = ", ".join(filter(None, (error.context, error.problem)))
        raise ConfigError(
            f"{name}{line} is not valid YAML ({problem}); want closed brackets and quotes, "
            "spaces as indentation, and no tags"
        ) from error
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise ConfigError(f"{name} is not valid YAML ({problem}); want text without control characters") from error
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"{name} is not valid YAML: a number or a date is out of range ({error}); want dates such as 2026-01-31"
        ) from error


class _Refused(yaml.constructor.ConstructorError):
    """What YAML allows and Marquee does not."""


def _problem(node: Any, problem: str) -> _Refused:
    """The error about a node or an event of the parser."""
    return _Refused(problem=problem, problem_mark=node.start_mark)


def _check_size(text: str) -> None:
    """Checks depth and number of values in one pass over the parser's events, before anything is built."""
    counts: dict[str, int] = {}  # Number of values under each anchor that was seen.
    open_anchors: list[tuple[str | None, int]] = []
    count = 0
    for event in yaml.parse(text, Loader=_Base):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in counts:
                raise _problem(event, f"alias *{event.anchor} repeats no anchor before it; want the value written out")
            count += counts[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            if event.anchor is not None:
                counts[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            count += 1
            open_anchors.append((event.anchor, count))
            if len(open_anchors) > LARGEST_DEPTH:
                raise _problem(event, f"lists and keys are nested more than {LARGEST_DEPTH} deep; want fewer levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_anchors.pop()
            if anchor is not None:
                counts[anchor] = count - before + 1
        if count > LARGEST_COUNT:
            raise _problem(
                event, f"the file holds more than {LARGEST_COUNT:,} keys and values, aliases included; want fewer"
            )
