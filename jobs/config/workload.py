"""The section ``workload`` of a config: which queries a release answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dpcore.queries.parities import LARGEST_ORDER
from jobs.config.section import Positive, Section, Seed, Text, check_key

POPULARITY_SHARE = 0.05
"""Default share of the budget for noisy popularity, in (0, 1)."""

WAYS: Final = ("each", "total", "each_and_total", "prefix", "ranges")
"""The query matrices of one attribute that have a name."""

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
    """Checks a query matrix here, because the message of a union would list what each of its members lacks."""
    if isinstance(value, str):
        check_key(value, list(WAYS), "way to query an attribute")
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
    """Random marginals in which some attributes occur more often than others."""

    count: Positive = Field(description="Number of marginals, at least 1.")
    seed: Seed = Field(default=0, description="Public seed of the choice; equal seeds give equal marginals.")


class WeightedClique(Section):
    """One marginal and its weight."""

    attributes: Annotated[tuple[str, ...], Field(min_length=1, strict=False)] = Field(
        description="Names of the marginal's attributes, in any order."
    )
    weight: Weight = Field(
        default=1.0, description="Positive factor of the marginal's errors in the workload error; 1 weighs all alike."
    )


class MarginalQueries(Section):
    """Marginals: all of one order, all up to an order, those with a target, skewed random ones, or listed cliques."""

    order: Positive | None = Field(default=None, description="Number of attributes of every marginal, at least 1.")
    up_to_order: UpToOrder | None = Field(
        default=None,
        description="Largest number of attributes of a marginal, or 'all'; the number of rows (order 0) is included.",
    )
    max_cells: Positive | None = Field(
        default=None, description="Largest number of cells of a marginal; marginals with more cells are left out."
    )
    attributes: Attributes = Field(
        default="all", description="Attributes that the marginals may contain: 'all', or a list of names."
    )
    target: Text | None = Field(default=None, description="An attribute that every marginal contains.")
    skewed: Skewed | None = Field(default=None, description="Draws random marginals of the given order.")
    cliques: Annotated[tuple[WeightedClique, ...], Field(min_length=1, strict=False)] | None = Field(
        default=None, description="Lists the marginals one by one, each with a weight."
    )
    prefix: Names | None = Field(
        default=None,
        description="Attributes whose values are replaced by the prefixes of their order wherever a marginal contains "
        "them; the codes of nulls and of other values are still counted one by one.",
    )
    ranges: Names | None = Field(
        default=None,
        description="Attributes whose values are replaced by all ranges of neighbouring values wherever a marginal "
        "contains them; the codes of nulls and of other values are still counted one by one.",
    )

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
    """Conjunctions of literals over the items of baskets or the one-hot columns of a table: random or listed ones."""

    renamed_keys: ClassVar[dict[str, str]] = {"share": "popularity_share"}

    count: Positive | None = Field(default=None, description="Number of random conjunctions, at least 1.")
    order: Positive | None = Field(default=None, description="Number of literals of each conjunction, at least 1.")
    weights: Literal["uniform", "noisy_popularity", "file"] = Field(
        default="uniform",
        description="Probability of each column in the random choice: uniform (the default, which costs no budget), "
        "proportional to its noisy count, or proportional to the public numbers of weights_file.",
    )
    weights_file: Text | None = Field(
        default=None,
        description="A public .csv or .parquet file of column weights, relative to the config file; for weights: file.",
    )
    popularity_share: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description="Share of the release's budget that measures the noisy popularity, in (0, 1); 0.05 when left out, "
        "because the choice of queries tolerates more noise than their answers.",
    )
    negations: Literal["none", "random"] = Field(
        default="none", description="Whether each literal is negated with probability 1/2; none negates no literal."
    )
    seed: Seed = Field(default=0, description="Public seed of the choice; equal seeds give equal queries.")
    attributes: Attributes = Field(
        default="all", description="Attributes of a table whose columns may occur: 'all', or a list of names."
    )
    file: Text | None = Field(
        default=None,
        description="A public file that lists the conjunctions, relative to the config file; it excludes every other "
        "key of this section.",
    )

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
        if self.popularity_share is not None and self.weights != "noisy_popularity":
            raise ValueError(
                "popularity_share pays for noisy popularity; want weights: noisy_popularity, or no popularity_share"
            )
        if (self.weights_file is not None) != (self.weights == "file"):
            raise ValueError("weights: file and weights_file: PATH go together; want both or none")
        return self

    @property
    def share_before_mechanism(self) -> float:
        """Share of the budget that is spent before the mechanism starts, in [0, 1)."""
        if self.weights != "noisy_popularity":
            return 0.0
        return POPULARITY_SHARE if self.popularity_share is None else self.popularity_share


class ParityQueries(Section):
    """Parities of the columns of a binary view: all up to an order, or random ones."""

    order: Annotated[int, Field(ge=1, le=LARGEST_ORDER)] = Field(
        description="Largest number of columns of a parity, at least 1."
    )
    count: Positive | None = Field(
        default=None, description="Number of random parities; every parity up to the order is asked when left out."
    )
    seed: Seed = Field(default=0, description="Public seed of the choice; it needs a count.")
    attributes: Attributes = Field(
        default="all", description="Attributes of a table whose columns may occur: 'all', or a list of names."
    )

    @model_validator(mode="after")
    def _seed_draws(self) -> Self:
        if self.count is None and "seed" in self.model_fields_set:
            raise ValueError("seed draws some parities; want count beside it, or no seed")
        return self


class Width(Section):
    """All ranges of one width."""

    width: Positive = Field(description="Number of neighbouring values of each range, at least 1.")


class Groups(Section):
    """Sets of values, each counted as one."""

    groups: Annotated[tuple[tuple[str | int, ...], ...], Field(min_length=1, strict=False)] = Field(
        description="One list for each set; a value is a label of the schema, or a range of labels such as 18..64."
    )


Way = Annotated[Literal["each", "total", "each_and_total", "prefix", "ranges"] | Width | Groups, BeforeValidator(_way)]


class ProductQueries(Section):
    """A Kronecker product: one query for each choice of a row from the query matrix of every attribute."""

    attributes: Annotated[dict[str, Way], Field(min_length=1)] = Field(
        description="Query matrix of each attribute: each (the identity: one query per value), total (one query for "
        "all values, as for attributes that are left out), each_and_total, prefix, ranges, {width: N} or {groups: "
        "[[VALUE, ...], ...]}; the codes of nulls and of other values get queries of their own beside ranges."
    )
    weight: Weight = Field(
        default=1.0, description="Positive factor of the product's errors in the workload error; 1 weighs all alike."
    )


class Queries(Section):
    """The queries of a release; exactly one of the four kinds."""

    marginals: MarginalQueries | None = Field(default=None, description="Marginals of a table.")
    products: Annotated[tuple[ProductQueries, ...], Field(min_length=1, strict=False)] | None = Field(
        default=None, description="A union of Kronecker products over the attributes of a table."
    )
    conjunctions: ConjunctionQueries | None = Field(
        default=None, description="Conjunctions of literals, for a table or for baskets."
    )
    parities: ParityQueries | None = Field(
        default=None, description="Parities of binary columns, for a table or for baskets."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if [self.marginals, self.products, self.conjunctions, self.parities].count(None) != 3:
            raise ValueError("want exactly one of marginals, products, conjunctions and parities")
        return self
