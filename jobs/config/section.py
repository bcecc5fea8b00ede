"""What every section of a config has in common: closed, frozen, strict, and quick to name the nearest known key."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    """A group of keys; frozen, strict about types, closed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, values: object) -> object:
        if isinstance(values, Mapping) and cls.model_config.get("extra") == "forbid":
            for key in values:
                check_key(str(key), list(cls._keys()))
        return values

    @classmethod
    def _keys(cls) -> list[str]:
        return [field.alias or name for name, field in cls.model_fields.items()]


def check_key(key: str, known: list[str], what: str = "key") -> None:
    """Raises ValueError that names the nearest known key."""
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        raise ValueError(f"unknown {what} {key!r}; " + (f"did you mean {near[0]!r}?" if near else f"want {known}"))
