"""The workload section of a config: what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dpcore.queries.parities import LARGEST_ORDER
from jobs.config.section import Positive, Section, Seed, Text, check_key

POPULARITY_SHARE = 0.05
WAYS: Final = ("each", "total", "each_and_total", "prefix", "ranges")

Names = Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _all_or_names(value: object) -> object:
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        return tuple(value)
    if value == "all":
        return value
    raise ValueError("want all, or a list of attribute names")


def _all_or_order(value: object) -> object:
    if value == "all" or (type(value) is int and value >= 1):
        return value
    raise ValueError("want all, or the largest number of attributes")


def _way(value: object) -> object:
    """Said in one sentence, where a union would list what each of its kinds misses."""
    if isinstance(value, str):
        check_key(value, list(WAYS), "way to ask an attribute")
    elif isinstance(value, Mapping) and set(value) == {"width"}:
        if type(value["width"]) is not int or value["width"] < 1:
            raise ValueError(f"width is {value['width']!r}; want an integer >= 1")
    elif isinstance(value, Mapping) and set(value) == {"groups"}:
        return {"groups": _groups(value["groups"])}
    elif not isinstance(value, Width | Groups):
        raise ValueError(f"want {', '.join(WAYS)}, {{width: N}} or {{groups: [[VALUE, ...], ...]}}")
    return value


def _groups(groups: object) -> tuple[tuple[str | int, ...], ...]:
    if not isinstance(groups, list | tuple) or not groups:
        raise ValueError("groups is no list of groups; want one or more lists of values")
    return tuple(_group(group) for group in groups)


def _group(group: object) -> tuple[str | int, ...]:
    if not isinstance(group, list | tuple) or not group:
        raise ValueError(f"group {group!r} is no list of values; want one or more, such as [a, b] or [18..64]")
    for value in group:
        if not isinstance(value, str | int):
            raise ValueError(f"value {value!r} of a group is neither text nor an integer; want it in quotes")
    return tuple(str(value).lower() if isinstance(value, bool) else value for value in group)


UpToOrder = Annotated[Literal["all"] | int, BeforeValidator(_all_or_order)]
Attributes = Annotated[Literal["all"] | tuple[str, ...], BeforeValidator(_all_or_names)]


class Skewed(Section):
    """Random marginals that favour some attributes."""

    count: Positive
    seed: Seed = 0


class WeightedClique(Section):
    """One marginal and how much it matters."""

    attributes: Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
    weight: Weight = 1.0


class MarginalQueries(Section):
    """All marginals of an order or up to one, those with a target attribute, skewed random ones, or named cliques.

    up_to_order: All marginals of at most so many attributes, the number of rows among them.
    max_cells: Leaves out marginals of more cells.
    prefix, ranges: Attributes that are asked for the prefixes of their ordered codes, or for all their ranges, where a
        marginal holds them; all others for their codes. Codes of nulls and of other values are asked one by one.
    """

    order: Positive | None = None
    up_to_order: UpToOrder | None = None
    max_cells: Positive | None = None
    attributes: Attributes = "all"
    target: Text | None = None
    skewed: Skewed | None = None
    cliques: Annotated[tuple[WeightedClique, ...], Field(min_length=1, strict=False)] | None = None
    prefix: Names | None = None
    ranges: Names | None = None

    @model_validator(mode="after")
    def _one_matrix_an_attribute(self) -> Self:
        both = sorted({*(self.prefix or ())} & {*(self.ranges or ())})
        if both:
            raise ValueError(f"prefix and ranges both name {both}; want an attribute in one of them")
        return self

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.cliques is not None:
            if self.model_fields_set - {"cliques", "prefix", "ranges"}:
                raise ValueError("cliques stand alone; want no order, attributes, target or skewed beside them")
            return self
        if self.order is None and self.up_to_order is None:
            raise ValueError("order is missing; want order: N, up_to_order: N, or cliques")
        if self.order is not None and self.up_to_order is not None:
            raise ValueError("order and up_to_order exclude each other; want one of them")
        if (self.up_to_order or self.max_cells) and (self.target or self.skewed):
            raise ValueError("target and skewed have one order and any size; want no up_to_order or max_cells")
        if self.target and self.skewed:
            raise ValueError("target and skewed exclude each other; want one of them")
        if self.attributes != "all" and (self.target or self.skewed):
            raise ValueError("target and skewed range over all attributes; want attributes: all")
        return self


class ConjunctionQueries(Section):
    """Random conjunctions of literals, over items of baskets or over the one-hot columns of a table, or listed ones.

    weights: How often a column is proposed: all alike, bought popularity, or the public numbers of ``weights_file``.
    share: Part of the budget that buys noisy popularity.
    file: A public file that lists the queries; it stands alone. Paths are relative to the config file.
    """

    count: Positive | None = None
    order: Positive | None = None
    weights: Literal["uniform", "noisy_popularity", "file"] = "uniform"
    weights_file: Text | None = None
    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    negations: Literal["none", "random"] = "none"
    seed: Seed = 0
    attributes: Attributes = "all"
    file: Text | None = None

    @model_validator(mode="after")
    def _listed_or_drawn(self) -> Self:
        if self.file is not None:
            others = sorted(self.model_fields_set - {"file"})
            if others:
                raise ValueError(f"file stands alone; want no {', '.join(others)} beside it")
            return self
        for key, value in (("count", self.count), ("order", self.order)):
            if value is None:
                raise ValueError(f"{key} is missing; want count and order, or file")
        return self

    @model_validator(mode="after")
    def _what_goes_with_its_weights(self) -> Self:
        if self.share is not None and self.weights != "noisy_popularity":
            raise ValueError("share buys popularity; want weights: noisy_popularity, or no share")
        if (self.weights_file is not None) != (self.weights == "file"):
            raise ValueError("weights: file and weights_file: PATH go together; want both or none")
        return self

    @property
    def popularity_share(self) -> float:
        """Part of the budget spent before the mechanism starts."""
        if self.weights != "noisy_popularity":
            return 0.0
        return POPULARITY_SHARE if self.share is None else self.share


class ParityQueries(Section):
    """Parities of at most ``order`` columns: all of them, or ``count`` random ones."""

    order: Annotated[int, Field(ge=1, le=LARGEST_ORDER)]
    count: Positive | None = None
    seed: Seed = 0
    attributes: Attributes = "all"

    @model_validator(mode="after")
    def _seed_draws(self) -> Self:
        if self.count is None and "seed" in self.model_fields_set:
            raise ValueError("seed draws some parities; want count beside it, or no seed")
        return self


class Width(Section):
    """All ranges of so many neighbouring values."""

    width: Positive


class Groups(Section):
    """Sets of values, each asked for as one. A value is a label of the schema, or a range of them such as 18..64."""

    groups: Annotated[tuple[tuple[str | int, ...], ...], Field(min_length=1, strict=False)]


Way = Annotated[Literal["each", "total", "each_and_total", "prefix", "ranges"] | Width | Groups, BeforeValidator(_way)]


class ProductQueries(Section):
    """A query for each choice of one row of every attribute: the Kronecker product of what attributes are asked for.

    attributes: How each is asked; any other is summed out, as by ``total``. ``each`` asks for its values one by one.
        The rest is as of marginals: codes of nulls and of other values stand alone beside ranges.
    """

    attributes: Annotated[dict[str, Way], Field(min_length=1)]
    weight: Weight = 1.0


class Queries(Section):
    """What is asked: marginals, products, conjunctions or parities."""

    marginals: MarginalQueries | None = None
    products: Annotated[tuple[ProductQueries, ...], Field(min_length=1, strict=False)] | None = None
    conjunctions: ConjunctionQueries | None = None
    parities: ParityQueries | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if [self.marginals, self.products, self.conjunctions, self.parities].count(None) != 3:
            raise ValueError("want exactly one of marginals, products, conjunctions and parities")
        return self
