"""Reads YAML files strictly: a key must not occur twice, dates stay text, and 1e-6 is a number."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from dpcore.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """A SafeLoader that refuses repeated keys, reads 1e-6 as a number, and keeps dates as text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"key {key!r} is given twice", problem_mark=node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+0123456789.")
)


def read_yaml(path: Path) -> object:
    """Reads a YAML file.

    Raises: ConfigError that names the file.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist; want a YAML config") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({type(error).__name__}); want a YAML config") from error
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
