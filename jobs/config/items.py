"""The key ``dataset.items`` of a config: how many items there are, a public list of them, or how to discover them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from jobs.config.section import Positive, Section, Text


class DiscoverChoice(Section):
    """How items that nobody has listed are discovered under differential privacy."""

    share: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.1, description="Share of the budget that discovers items, above 0 and below 1."
    )
    at_most: Positive = Field(
        default=100_000,
        description="Maximum number of discovered items. If more are discovered, those with the largest noisy sums are "
        "kept. The plan of a release assumes this number.",
    )


class ItemsChoice(Section):
    """Items with names: a public list, or names that are discovered in the data."""

    file: Text | None = Field(
        default=None,
        description="Public list of the items, whose order gives the codes: .parquet or .csv with a column item, or a "
        "text file with one item per line. Its content is part of the release's id. A relative path starts at the "
        "folder of the config file.",
    )
    discover: DiscoverChoice | None = Field(
        default=None,
        description="Discover the items that enough units have. A part of delta pays for names that only one unit has. "
        "It needs max_items_per_unit.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) is (self.discover is None):
            raise ValueError("want file, or discover, and not both")
        return self


def _checked(value: object) -> object:
    """Checks the form before pydantic does, whose message would list every type."""
    if isinstance(value, ItemsChoice | Mapping) or (type(value) is int and value >= 1):
        return value
    raise ValueError(
        f"is {value!r}; want the number of possible items, at least 1, {{file: items.csv}} or {{discover: {{share: "
        "0.1}}"
    )


Items = Annotated[Positive | ItemsChoice, BeforeValidator(_checked)]


def discovery_of(items: int | ItemsChoice | None) -> DiscoverChoice | None:
    """How items are discovered; None if they are known."""
    return items.discover if isinstance(items, ItemsChoice) else None
