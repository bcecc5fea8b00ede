"""The section ``workload`` of a config: the queries that a release answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dpcore.queries.itemsets import LARGEST_LISTED, ORDERS
from dpcore.queries.parities import LARGEST_ORDER
from jobs.config.section import Positive, Section, Seed, Text, check_key

POPULARITY_SHARE = 0.05
"""Default share of the budget that measures noisy popularity, in (0, 1)."""

NAMED_MATRICES: Final = ("each", "total", "each_and_total", "prefix", "ranges")
"""Names of query matrices of one attribute."""

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
    raise ValueError("want all, or the largest number of attributes (an integer >= 1)")


def _check_matrix(value: object) -> object:
    """Checks the choice of a query matrix before pydantic does, whose message would list the failures of every type."""
    if isinstance(value, str):
        check_key(value, list(NAMED_MATRICES), "query matrix")
    elif isinstance(value, Mapping) and set(value) == {"width"}:
        if type(value["width"]) is not int or value["width"] < 1:
            raise ValueError(f"width is {value['width']!r}; want an integer >= 1")
    elif isinstance(value, Mapping) and set(value) == {"groups"}:
        return {"groups": _groups(value["groups"])}
    elif not isinstance(value, Width | Groups):
        raise ValueError(f"want {', '.join(NAMED_MATRICES)}, {{width: N}} or {{groups: [[VALUE, ...], ...]}}")
    return value


def _groups(groups: object) -> tuple[tuple[str | int, ...], ...]:
    if not isinstance(groups, list | tuple) or not groups:
        raise ValueError("groups is not a list of groups; want one or more lists of values")
    return tuple(_group(group) for group in groups)


def _group(group: object) -> tuple[str | int, ...]:
    if not isinstance(group, list | tuple) or not group:
        raise ValueError(f"group {group!r} is not a list of values; want one or more, such as [a, b] or [18..64]")
    for value in group:
        if not isinstance(value, str | int):
            raise ValueError(f"value {value!r} in a group is neither text nor an integer; want it in quotes")
    return tuple(str(value).lower() if isinstance(value, bool) else value for value in group)


UpToOrder = Annotated[Literal["all"] | int, BeforeValidator(_all_or_order)]
Attributes = Annotated[Literal["all"] | tuple[str, ...], BeforeValidator(_all_or_names)]


class Skewed(Section):
    """Random marginals, among which some attributes occur more often than others."""

    count: Positive = Field(description="Number of marginals, at least 1.")
    seed: Seed = Field(
        default=0, description="Public seed of the random choice. The same seed gives the same marginals."
    )


class WeightedClique(Section):
    """One marginal and its weight."""

    attributes: Annotated[tuple[str, ...], Field(min_length=1, strict=False)] = Field(
        description="Names of the marginal's attributes, in any order."
    )
    weight: Weight = Field(
        default=1.0, description="Positive weight of the marginal in the workload error. The default is 1."
    )


class MarginalQueries(Section):
    """Marginals: all of one order, all up to an order, all that contain a target, random ones, or a list of cliques."""

    order: Positive | None = Field(default=None, description="Number of attributes of every marginal, at least 1.")
    up_to_order: UpToOrder | None = Field(
        default=None,
        description="Maximum number of attributes of a marginal, at least 1, or 'all' for no maximum. The marginal of "
        "order 0, which is the number of rows, is included.",
    )
    max_cells: Positive | None = Field(
        default=None,
        description="Maximum number of cells of a marginal, at least 1. Marginals with more cells are left out.",
    )
    attributes: Attributes = Field(
        default="all", description="Attributes that the marginals may contain: 'all', or a list of names."
    )
    target: Text | None = Field(default=None, description="An attribute that every marginal contains.")
    count: Positive | None = Field(
        default=None,
        description="Number of marginals of the given order that are chosen at random, each at most once, with equal "
        "probabilities, among those of at most max_cells cells. By default, all are queried.",
    )
    seed: Seed | None = Field(
        default=None,
        description="Public seed of the random choice, with a count; 0 by default. The same seed and schema give the "
        "same marginals.",
    )
    skewed: Skewed | None = Field(
        default=None, description="Draws random marginals of the given order, with some attributes more often."
    )
    cliques: Annotated[tuple[WeightedClique, ...], Field(min_length=1, strict=False)] | None = Field(
        default=None, description="An explicit list of marginals, each with a weight."
    )
    prefix: Names | None = Field(
        default=None,
        description="Attributes that are queried by prefixes (all values up to a given one) instead of single values, "
        "in every marginal that contains them. The codes of null and of other values are still counted one by one.",
    )
    ranges: Names | None = Field(
        default=None,
        description="Attributes that are queried by all ranges of neighbouring values instead of single values, in "
        "every marginal that contains them. The codes of null and of other values are still counted one by one.",
    )

    @model_validator(mode="after")
    def _one_matrix_per_attribute(self) -> Self:
        both = sorted({*(self.prefix or ())} & {*(self.ranges or ())})
        if both:
            raise ValueError(f"prefix and ranges both name {both}; want each attribute in one of them")
        return self

    @model_validator(mode="after")
    def _count_of_one_order(self) -> Self:
        if self.seed is not None and self.count is None:
            raise ValueError("seed is only for random marginals; want a count too, or no seed")
        if self.count is not None and (self.order is None or self.cliques or self.target or self.skewed):
            raise ValueError(
                "count chooses random marginals of one order; want order: N without target, skewed and cliques"
            )
        return self

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.cliques is not None:
            if self.model_fields_set - {"cliques", "prefix", "ranges"}:
                raise ValueError("cliques excludes order, attributes, target and skewed; want cliques without them")
            return self
        if self.order is None and self.up_to_order is None:
            raise ValueError("order is missing; want order: N, up_to_order: N, or cliques")
        if self.order is not None and self.up_to_order is not None:
            raise ValueError("order and up_to_order exclude each other; want one of them")
        if (self.up_to_order or self.max_cells) and (self.target or self.skewed):
            raise ValueError("target and skewed exclude up_to_order and max_cells; want an order instead")
        if self.target and self.skewed:
            raise ValueError("target and skewed exclude each other; want one of them")
        if self.attributes != "all" and (self.target or self.skewed):
            raise ValueError("target and skewed use all attributes; want attributes: all")
        return self


class ConjunctionQueries(Section):
    """Conjunctions of literals over the items of baskets or the one-hot columns of a table, random or from a file."""

    renamed_keys: ClassVar[dict[str, str]] = {"share": "popularity_share"}

    count: Positive | None = Field(
        default=None,
        description="Number of random conjunctions, at least 1. If fewer different ones exist, all of them are asked.",
    )
    order: Positive | None = Field(default=None, description="Number of literals of each conjunction, at least 1.")
    orders: Annotated[tuple[Positive, ...], Field(min_length=1, strict=False)] | None = Field(
        default=None,
        description="Instead of order, several numbers of literals, such as [1, 2, 3]. The count is divided equally "
        "among them; an order with fewer conjunctions gets all of them, and the others share the rest.",
    )
    weights: Literal["uniform", "noisy_popularity", "file"] = Field(
        default="uniform",
        description="Probability of each column in the random choice: equal (uniform, the default, which costs no "
        "budget), proportional to its noisy count (noisy_popularity), or proportional to the public weights in "
        "weights_file (file).",
    )
    weights_file: Text | None = Field(
        default=None,
        description="A public .csv or .parquet file of column weights, relative to the config file. Required for "
        "weights: file.",
    )
    popularity_share: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Share of the release's budget that measures the noisy popularity, in (0, 1). The default is 0.05, "
        "because the choice of queries tolerates more noise than their answers.",
    )
    negations: Literal["none", "random"] = Field(
        default="none",
        description="Negation of literals: none, or random (each literal is negated with probability 1/2).",
    )
    seed: Seed = Field(default=0, description="Public seed of the random choice. The same seed gives the same queries.")
    attributes: Attributes = Field(
        default="all", description="Attributes of a table whose columns may occur: 'all', or a list of names."
    )
    file: Text | None = Field(
        default=None,
        description="A public file that lists the conjunctions, relative to the config file. It excludes every other "
        "key of this section.",
    )

    @model_validator(mode="after")
    def _listed_or_random(self) -> Self:
        if self.file is not None:
            others = sorted(self.model_fields_set - {"file"})
            if others:
                raise ValueError(f"file excludes {', '.join(others)}; want file alone")
            return self
        if self.order is not None and self.orders is not None:
            raise ValueError("order and orders are given; want one of them")
        if self.orders is not None and len(set(self.orders)) < len(self.orders):
            raise ValueError("orders names a number twice; want each once, such as [1, 2, 3]")
        for key, value in (("count", self.count), ("order", self.order or self.orders)):
            if value is None:
                raise ValueError(f"{key} is missing; want count and order (or orders), or file")
        return self

    @model_validator(mode="after")
    def _keys_match_weights(self) -> Self:
        if self.popularity_share is not None and self.weights != "noisy_popularity":
            raise ValueError(
                "popularity_share is only for weights: noisy_popularity; want those weights, or no popularity_share"
            )
        if (self.weights_file is not None) != (self.weights == "file"):
            raise ValueError("weights: file and weights_file: PATH go together; want both or neither")
        return self

    @property
    def share_before_mechanism(self) -> float:
        """Share of the budget that is spent before the mechanism starts, in [0, 1)."""
        if self.weights != "noisy_popularity":
            return 0.0
        return POPULARITY_SHARE if self.popularity_share is None else self.popularity_share


class ParityQueries(Section):
    """Parities of the items of baskets or the one-hot columns of a table: all up to an order, or random ones."""

    order: Annotated[int, Field(ge=1, le=LARGEST_ORDER)] = Field(
        description=f"Maximum number of columns of a parity, from 1 to {LARGEST_ORDER}."
    )
    count: Positive | None = Field(
        default=None, description="Number of random parities. By default, all parities up to the order are queried."
    )
    seed: Seed = Field(default=0, description="Public seed of the random choice. It is allowed only with a count.")
    attributes: Attributes = Field(
        default="all", description="Attributes of a table whose columns may occur: 'all', or a list of names."
    )

    @model_validator(mode="after")
    def _seed_needs_count(self) -> Self:
        if self.count is None and "seed" in self.model_fields_set:
            raise ValueError("seed is only for random parities; want a count too, or no seed")
        return self


class Width(Section):
    """All ranges of one width."""

    width: Positive = Field(description="Number of neighbouring values of each range, at least 1.")


class Groups(Section):
    """Groups of values. Each group is counted by one query."""

    groups: Annotated[tuple[tuple[str | int, ...], ...], Field(min_length=1, strict=False)] = Field(
        description="One list per group. An entry is a label of the schema, a range such as 18..64, or an interval of "
        "bins such as '[18, 65)'."
    )


MatrixChoice = Annotated[
    Literal["each", "total", "each_and_total", "prefix", "ranges"] | Width | Groups, BeforeValidator(_check_matrix)
]


class ProductQueries(Section):
    """A Kronecker product: one query per choice of one row from the query matrix of every attribute."""

    attributes: Annotated[dict[str, MatrixChoice], Field(min_length=1)] = Field(
        description="Query matrix of each attribute: each (one query per value), total (one query for all values, as "
        "for attributes that are left out), each_and_total (both), prefix (all values up to each value), ranges (all "
        "ranges of neighbouring values), {width: N} (all ranges of N values), or {groups: [[VALUE, ...], ...]}. With "
        "prefix, ranges and a width, the codes of null and of other values are queried one by one."
    )
    weight: Weight = Field(
        default=1.0, description="Positive weight of the product in the workload error. The default is 1."
    )


class ItemsetQueries(Section):
    """Frequent itemsets of baskets, and the association rules among them. The mechanism finds out which they are."""

    order: Annotated[int, Field(ge=ORDERS[0], le=ORDERS[-1])] = Field(
        default=2, description="Largest number of items of an itemset: 2 (the default) or 3."
    )
    top: Annotated[int, Field(ge=1, le=LARGEST_LISTED)] | None = Field(
        default=None,
        description="How many itemsets of each size are listed, the most frequent ones. Either this or min_support.",
    )
    min_support: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Smallest support of a listed itemset, as a fraction of the units in (0, 1). Noisy supports are "
        "compared with it.",
    )

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if (self.top is None) == (self.min_support is None):
            raise ValueError("want exactly one of top and min_support")
        return self


class Queries(Section):
    """The queries of a release. Exactly one of the five kinds is given."""

    marginals: MarginalQueries | None = Field(default=None, description="Marginals of a table.")
    products: Annotated[tuple[ProductQueries, ...], Field(min_length=1, strict=False)] | None = Field(
        default=None, description="A union of Kronecker products over the attributes of a table."
    )
    conjunctions: ConjunctionQueries | None = Field(
        default=None, description="Conjunctions of literals about a table or baskets."
    )
    parities: ParityQueries | None = Field(
        default=None, description="Parities of binary columns of a table or baskets."
    )
    itemsets: ItemsetQueries | None = Field(
        default=None, description="Frequent itemsets of baskets, with association rules."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if [self.marginals, self.products, self.conjunctions, self.parities, self.itemsets].count(None) != 4:
            raise ValueError("want exactly one of marginals, products, conjunctions, parities and itemsets")
        return self
