"""From the mechanism section of a config to a mechanism."""

from __future__ import annotations

import dataclasses
import json
import typing
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dpcore.errors import ConfigError
from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.registry import MECHANISMS
from jobs.config import MechanismChoice, error_text
from jobs.config.section import check_key


def mechanism_of(choice: MechanismChoice) -> Mechanism:
    """The mechanism with its settings. Raises ConfigError that names the nearest mechanism or setting."""
    try:
        check_key(choice.name, list(MECHANISMS), "mechanism")
        kind = MECHANISMS[choice.name]
        types = _settings_of(kind)
        for key in choice.settings:
            check_key(key, list(types), f"setting of mechanism {choice.name}")
        settings = {key: _checked(key, types[key], value) for key, value in choice.settings.items()}
        return kind(**settings)
    except ValueError as error:
        raise ConfigError(f"mechanism: {error}") from error


def settings_of(mechanism: Mechanism) -> dict[str, object]:
    """Every setting with its value."""
    return {name: getattr(mechanism, name) for name in _settings_of(type(mechanism))}


def _settings_of(kind: type) -> dict[str, Any]:
    types = typing.get_type_hints(kind)
    return {field.name: types[field.name] for field in dataclasses.fields(kind) if field.init}


def _checked(key: str, kind: Any, value: object) -> object:
    """The value in the type of its setting, as strict as the rest of a config."""
    try:
        return TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise ConfigError(f"mechanism.{key} {error_text(error)}") from error
