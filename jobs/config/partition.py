"""The section ``dataset.partition`` of a config: the partitions that a release is about and is charged to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from jobs.config.section import Positive, Section, Text


class Span(Section):
    """The partitions from ``min`` to ``max``, both included."""

    min: int | str = Field(description="First partition: an integer or a date.")
    max: int | str = Field(description="Last partition.")


def _check_values(value: object) -> object:
    """Checks what the section says before pydantic does, whose message would list every type."""
    if isinstance(value, Span) or (isinstance(value, Mapping) and set(value) == {"min", "max"}):
        return value
    values = value if isinstance(value, list | tuple) else (value,)
    kinds = {type(entry) for entry in values}
    if kinds not in ({str}, {int}):
        raise ValueError(f"is {value!r}; want a partition, a list of texts, dates or integers, or {{min: A, max: B}}")
    return tuple(values)


Listed = Annotated[tuple[str | int, ...], Field(strict=False)]


class PartitionChoice(Section):
    """Partitions of the dataset."""

    column: Text = Field(description="Column that divides the dataset into partitions, as in the ledger.")
    values: Annotated[Listed | Span, BeforeValidator(_check_values)] = Field(
        description="The partitions that the release is about: one, a list, or {min: A, max: B} with dates or "
        "integers. At most 4,000. The release is charged to these partitions alone."
    )
    type: Literal["auto", "text", "integer", "date"] = Field(
        default="auto",
        description="What the values are. The default, auto, takes numbers for integers, dates such as 2026-01-31 for "
        "dates (of a column of dates or timestamps), and all others for texts.",
    )
    units_in: Literal["one_partition", "many_partitions"] = Field(
        default="one_partition",
        description="In how many partitions a unit is counted, as in the ledger. With one_partition, a unit with rows "
        "in several is counted in no release of partitions.",
    )
    max_partitions_per_unit: Positive | None = Field(
        default=None,
        description="With many_partitions: the number of partitions, the first ones in their order, in which a unit is "
        "counted, as in the ledger. Without it a unit is counted in all.",
    )

    @model_validator(mode="after")
    def _bound_goes_with_many(self) -> Self:
        if self.max_partitions_per_unit is not None and self.units_in == "one_partition":
            raise ValueError(
                "max_partitions_per_unit needs units_in: many_partitions; want that, or no max_partitions_per_unit"
            )
        return self
