"""The base class of every section of a config: it is frozen, strict about types, and refuses unknown keys."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from jobs import log

Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(ge=1, le=1 << 53)]  # Integers up to here are exact in JSON and fit every database.
Seed = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    """A group of keys. An unknown key is refused, and the error suggests the nearest known one.

    renamed_keys: Keys of earlier versions with their current names. An old key is read with a warning.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    renamed_keys: ClassVar[dict[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, values: object) -> object:
        if not isinstance(values, Mapping) or cls.model_config.get("extra") != "forbid":
            return values
        for key in values:
            cls.check_own_key(str(key))
        return {cls._current_name(key, values): value for key, value in values.items()}

    @classmethod
    def check_own_key(cls, key: str) -> None:
        """Raises ValueError that suggests the nearest known key, if this section allows no such key."""
        if cls.model_config.get("extra") == "forbid" and key not in cls.renamed_keys:
            check_key(key, cls._keys())

    @classmethod
    def type_of(cls, key: str) -> Any:
        """The type of the value of a key; Any for a key whose type is not declared."""
        types = {field.alias or name: field.annotation for name, field in cls.model_fields.items()}
        return types.get(cls.renamed_keys.get(key, key), Any)

    @classmethod
    def _current_name(cls, key: str, values: Mapping[str, object]) -> str:
        """The name of a key in this version. Warns if the key was renamed."""
        if key not in cls.renamed_keys:
            return key
        name = cls.renamed_keys[key]
        if name in values:
            raise ValueError(f"{key} is the old name of {name}, and both are given; want {name} alone")
        log.warning(f"config key {key!r} is deprecated; want {name!r}")
        return name

    @classmethod
    def _keys(cls) -> list[str]:
        return [field.alias or name for name, field in cls.model_fields.items()]


def check_key(key: str, known: list[str], what: str = "key") -> None:
    """Checks that a key is known.

    key: The key as it is written in the config.
    known: All allowed keys.
    what: Word for the key in the error message.

    Raises: ValueError that suggests the nearest known key.
    """
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        raise ValueError(f"unknown {what} {key!r}; " + (f"did you mean {near[0]!r}?" if near else f"want {known}"))
