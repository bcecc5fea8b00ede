"""Builds a mechanism from the section ``mechanism`` of a config."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dpcore.errors import ConfigError
from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.registry import MECHANISMS
from jobs import log
from jobs.config import MechanismChoice, error_text
from jobs.config.section import check_key

LARGEST_SETTING = 1_000_000
"""Largest number of rounds, samples or records of a mechanism. Each costs the driver a millisecond or more."""


def mechanism_of(choice: MechanismChoice) -> Mechanism:
    """Builds the mechanism with its settings.

    choice: The section ``mechanism`` of a config.

    Raises: ConfigError that names the setting; for a misspelled name it suggests the nearest known one.
    """
    try:
        check_key(choice.name, list(MECHANISMS), "mechanism")
        kind = MECHANISMS[choice.name]
        types = _setting_types(kind)
        values = _current_settings(choice, kind)
        for key in values:
            if key not in types and key == "max_work":
                limited = ", ".join(name for name, one in MECHANISMS.items() if key in _setting_types(one))
                raise ValueError(f"{choice.name} has no max_work, which --time-budget sets; want it with {limited}")
            if not types:
                raise ValueError(f"{choice.name} has no settings; want no {key}")
            check_key(key, list(types), f"setting of mechanism {choice.name}")
        settings = {key: _validated(key, types[key], value) for key, value in values.items()}
        return kind(**settings)
    except ValueError as error:
        raise ConfigError(f"mechanism: {error}") from error


def settings_of(mechanism: Mechanism) -> dict[str, object]:
    """Every setting of a mechanism with its value, by name."""
    return {name: getattr(mechanism, name) for name in _setting_types(type(mechanism))}


def _current_settings(choice: MechanismChoice, kind: type[Mechanism]) -> dict[str, Any]:
    """The settings by their current names. A renamed setting is read with a warning; a retired one is refused."""
    renamed: Mapping[str, str] = getattr(kind, "renamed", {})
    retired: Mapping[str, str] = getattr(kind, "retired", {})
    settings: dict[str, Any] = {}
    for key, value in choice.settings.items():
        name = renamed.get(key, key)
        if key in retired:
            raise ValueError(f"{key} is no longer a setting of mechanism {choice.name}: {retired[key]}")
        if name in settings or (name != key and name in choice.settings):
            raise ValueError(f"{name} is set twice, once by its old name {key}; want {name} alone")
        if name != key:
            log.warning(f"config key 'mechanism.{key}' is deprecated; want 'mechanism.{name}'")
        settings[name] = value
    return settings


def _setting_types(kind: type) -> dict[str, Any]:
    types = typing.get_type_hints(kind)
    return {field.name: types[field.name] for field in dataclasses.fields(kind) if field.init}


def _validated(key: str, kind: Any, value: object) -> object:
    """Converts a value to the type of its setting, as strictly as the rest of a config."""
    try:
        validated: object = TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise ConfigError(f"mechanism.{key} {error_text(error)}") from error
    if type(validated) is int and validated > LARGEST_SETTING:
        raise ConfigError(f"mechanism.{key} is {validated:,}; want at most {LARGEST_SETTING:,}")
    return validated
