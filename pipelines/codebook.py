"""What the attributes of a schema and their codes mean in words: labels and descriptions, for readers alone.

A codebook changes no code, no answer and no charge, and is no part of a release's identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dpcore.errors import ConfigError
from pipelines.attributes import Attribute

KEYS: Final = ("label", "description", "labels")
"""The keys of an attribute in a schema file that a codebook reads."""


@dataclass(frozen=True)
class Entry:
    """The words for one attribute. Public.

    label: What the attribute is called for readers; empty if its name says it.
    description: What it means, in one text; empty if nothing is said.
    labels: The label of a code, such as '1', and what it is called for readers, in the order of the codes.
    """

    label: str = ""
    description: str = ""
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Codebook:
    """The words for the attributes of a schema, each with its attribute's name; those without words are left out."""

    entries: tuple[tuple[str, Entry], ...] = ()

    def entry(self, name: str) -> Entry:
        """The words for an attribute; empty ones if there are none."""
        return dict(self.entries).get(name, Entry())


def entry_from(attribute: Attribute, fields: Mapping[str, object]) -> Entry:
    """The words that an attribute of a schema file has.

    attribute: The attribute.
    fields: Its keys, of which only ``KEYS`` are read.

    Raises: ConfigError that names the attribute when a word is no text, or belongs to no code.
    """
    label, description = (_text(attribute, key, fields.get(key, "")) for key in ("label", "description"))
    labels = fields.get("labels", {})
    if not isinstance(labels, Mapping):
        raise ConfigError(f"attribute {attribute.name!r}: labels is not a mapping; want 'value: label' for each value")
    return Entry(label, description, _labels(attribute, labels))


def _labels(attribute: Attribute, labels: Mapping[object, object]) -> tuple[tuple[str, str], ...]:
    words = {_code(key): text for key, text in labels.items()}
    for code in words:
        if code not in attribute.labels:
            raise ConfigError(
                f"attribute {attribute.name!r}: labels names {code!r}, which is none of its codes; want one of "
                f"{list(attribute.labels)[:20]}"
            )
    return tuple(
        (code, _text(attribute, f"the label of {code!r}", words[code])) for code in attribute.labels if code in words
    )


def _code(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _text(attribute: Attribute, what: str, text: object) -> str:
    if not isinstance(text, str):
        raise ConfigError(f"attribute {attribute.name!r}: {what} is {text!r}; want a text, in quotes if it is a number")
    return text
