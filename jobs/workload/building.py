"""Builds the workload of a config. The number of answers is checked before anything is allocated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Clique, Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.queries import Itemsets, Marginals
from dpcore.queries.enumeration import number_of_conjunctions, numbers_of_sets
from dpcore.queries.generation import all_parities, parity_counts, random_conjunctions, random_parities
from dpcore.queries.mixed_orders import random_mixed_conjunctions
from dpcore.queries.ranges import all_ranges, prefix, range_marginals, range_rows
from dpcore.workload import (
    LARGEST_CLIQUES,
    Workload,
    all_k_way,
    conjunctive,
    explicit,
    frequent,
    random_k_way,
    skewed,
    target,
)
from jobs.config import Config
from jobs.config.workload import ConjunctionQueries, ItemsetQueries, MarginalQueries, ParityQueries, Queries
from jobs.workload.products import number_of_answers, product_workload
from jobs.workload.public_files import PublicFiles
from pipelines.attributes import Attribute
from pipelines.layout import Layout, TableLayout
from pipelines.schema import Schema

LARGEST_ANSWERS = 1 << 26
"""Maximum number of answers of a workload: 67 million, whose vectors take 2 GiB on the driver."""

LARGEST_LITERALS = 1 << 28
"""Maximum number of literals of all random conjunctions together: 268 million, which take some GiB on the driver."""

_NO_FILES = PublicFiles()


def workload_of(
    config: Config, layout: Layout, files: PublicFiles = _NO_FILES, popularity: NDArray[np.float64] | None = None
) -> Workload:
    """Builds the workload of a config.

    config: The config of the release.
    layout: The public layout of its data.
    files: Content of the public files that the config names.
    popularity: Noisy popularity of each column, float64 [columns of the layout's view]. With None, the same number of
        queries is chosen uniformly, as a stand-in for a plan.

    Raises: ConfigError when the workload does not fit the layout; DomainTooLargeError when the answers do not fit in
        memory.
    """
    return workload_of_section(config.workload, layout, files, popularity)


def workload_of_section(
    section: Queries, layout: Layout, files: PublicFiles = _NO_FILES, popularity: NDArray[np.float64] | None = None
) -> Workload:
    """``workload_of``, from the section ``workload`` of a config."""
    try:
        if section.conjunctions is not None:
            return _conjunction_workload(section.conjunctions, layout, files, popularity)
        if section.itemsets is not None:
            return _itemset_workload(section.itemsets, layout)
        if section.parities is not None:
            return _parity_workload(section.parities, layout)
        if section.marginals is not None and isinstance(layout, TableLayout):
            return _marginal_workload(section.marginals, layout.schema)
        if section.products is not None and isinstance(layout, TableLayout):
            _check_size(number_of_answers(section.products, layout.schema))
            return product_workload(section.products, layout.schema)
    except ValueError as error:
        raise ConfigError(f"workload: {error}") from error
    raise ConfigError(
        "workload does not fit the shape of the dataset; want conjunctions, itemsets or parities for baskets"
    )


def _marginal_workload(section: MarginalQueries, schema: Schema) -> Workload:
    """Marginals, or linear queries when attributes are queried by prefixes or ranges."""
    domain = schema.domain
    if section.prefix is None and section.ranges is None:
        return _cliques(section, domain, domain)
    prefixes = [schema.attributes[domain.index(name)] for name in section.prefix or ()]
    ranges = [schema.attributes[domain.index(name)] for name in section.ranges or ()]
    rows = dict(zip(domain.names, domain.sizes, strict=True))
    rows |= {attribute.name: range_rows(attribute.size, attribute.known) for attribute in ranges}
    # A domain with one code per matrix row has one cell per answer, so _cliques checks the number of answers.
    cliques = _cliques(section, Domain.of(rows), domain)
    matrices = {attribute.name: _matrix(prefix, attribute) for attribute in prefixes}
    matrices |= {attribute.name: _matrix(all_ranges, attribute) for attribute in ranges}
    assert isinstance(cliques.queries, Marginals)
    return Workload(range_marginals(domain, cliques.queries.cliques, matrices), cliques.weights)


def _matrix(make: Callable[[int, int], NDArray[np.int64]], attribute: Attribute) -> NDArray[np.int64]:
    """The query matrix of an attribute. Only listed values and bins have an order; null and other values have none."""
    try:
        return make(attribute.size, attribute.known)
    except ValueError as error:
        raise ValueError(f"attribute {attribute.name!r}: {error}") from error


def _cliques(section: MarginalQueries, domain: Domain, codes: Domain) -> Workload:
    """The marginals of the section, as cliques with weights.

    domain: Number of answers per attribute.
    codes: Number of codes per attribute, to which ``max_cells`` refers.
    """
    if section.cliques is not None:
        weights: dict[tuple[str, ...], float] = {}
        for clique in section.cliques:
            name = domain.canonical(clique.attributes)
            weights[name] = weights.get(name, 0.0) + clique.weight
        _check_size(sum(domain.size(clique) for clique in weights))
        return explicit(domain, weights)
    names = domain.names if section.attributes == "all" else section.attributes
    if section.up_to_order is not None or section.max_cells is not None:
        return _cliques_by_size(section, domain, codes.project(domain.canonical(names)))
    order = section.order or 1
    if order > len(names):
        raise ValueError(f"order is {order} for {len(names)} attributes; want 1 .. {len(names)}")
    if section.count is not None:
        workload = random_k_way(domain, order, section.count, _generator(section), names)
        _check_size(workload.queries.size)
        return workload
    if section.skewed is not None:
        if section.skewed.count > LARGEST_CLIQUES:
            raise ValueError(f"skewed.count is {section.skewed.count:,}; want at most {LARGEST_CLIQUES:,}")
        workload = skewed(domain, order, section.skewed.count, np.random.default_rng(section.skewed.seed))
        _check_size(workload.queries.size)
        return workload
    if section.target is not None:
        sizes = [size for name, size in zip(domain.names, domain.sizes, strict=True) if name != section.target]
        _check_size(domain.size((section.target,)) * _cells(sizes, order - 1))
        return target(domain, order, section.target)
    _check_size(_cells(domain.shape(names), order))
    return all_k_way(domain, order, names)


def _cliques_by_size(section: MarginalQueries, domain: Domain, codes: Domain) -> Workload:
    """All marginals of one order, or up to an order, with at most ``max_cells`` cells. Low orders come first."""
    attributes = len(codes.names)
    largest = attributes if section.up_to_order == "all" else section.up_to_order or section.order or 1
    if largest > attributes:
        raise ValueError(f"order is {largest} for {attributes} attributes; want 1 .. {attributes}")
    orders = range(largest + 1) if section.order is None else range(largest, largest + 1)
    if section.max_cells is None:
        cells = _cells_of_orders(domain.shape(codes.names), largest)
        _check_size(sum(cells[order] for order in orders))
    small_cliques = _cliques_within(codes, largest, section.max_cells)
    cliques = sorted(
        (clique for clique in small_cliques if len(clique) in orders),
        key=lambda clique: (len(clique), codes.axes(clique)),
    )
    if not cliques:
        raise ValueError(
            f"no marginal of order {largest} has at most {section.max_cells:,} cells; want a larger max_cells"
        )
    if section.count is not None:
        if section.count > len(cliques):
            raise ValueError(
                f"count is {section.count:,}, but only {len(cliques):,} marginals of order {largest} have at most "
                f"{section.max_cells:,} cells; want at most {len(cliques):,}, or a larger max_cells"
            )
        kept = _generator(section).choice(len(cliques), size=section.count, replace=False)
        cliques = [cliques[index] for index in sorted(kept.tolist())]
    _check_size(sum(map(domain.size, cliques)))
    return explicit(domain, dict.fromkeys(cliques, 1.0))


def _generator(section: MarginalQueries) -> np.random.Generator:
    """The generator that chooses random marginals. Its seed is public."""
    return np.random.default_rng(section.seed or 0)


def _cliques_within(domain: Domain, largest_order: int, max_cells: int | None) -> list[Clique]:
    """All cliques of at most ``largest_order`` attributes and ``max_cells`` cells, unsorted."""
    by_size = sorted(zip(domain.sizes, domain.names, strict=True))
    cliques: list[Clique] = []
    stack: list[tuple[Clique, int, int]] = [((), 1, 0)]  # A clique, its cells, the first attribute that may extend it.
    while stack:
        clique, cells, start = stack.pop()
        cliques.append(domain.canonical(clique))
        if len(cliques) > LARGEST_CLIQUES:
            raise ValueError(
                f"the workload has more than {LARGEST_CLIQUES:,} marginals; want a smaller order or max_cells"
            )
        if len(clique) == largest_order:
            continue
        for index in range(start, len(by_size)):
            size, name = by_size[index]
            if max_cells is not None and cells * size > max_cells:
                break  # All later attributes have at least as many values.
            stack.append(((*clique, name), cells * size, index + 1))
    return cliques


def _cells(sizes: tuple[int, ...] | list[int], order: int) -> int:
    """Total number of cells of all marginals of ``order`` attributes."""
    return _cells_of_orders(sizes, order)[order]


def _cells_of_orders(sizes: tuple[int, ...] | list[int], largest: int) -> list[int]:
    """Total number of cells of all marginals of each order from 0 to ``largest``."""
    return numbers_of_sets(Counter(sizes), largest)


def _conjunction_workload(
    section: ConjunctionQueries, layout: Layout, files: PublicFiles, popularity: NDArray[np.float64] | None
) -> Workload:
    if files.queries is not None:
        _check_size(files.queries.queries.size)
        return files.queries
    count, orders = section.count or 1, section.orders or (section.order or 1,)
    _check_conjunctions(layout.view, count, max(orders))
    allowed = _allowed_columns(section.attributes, layout)
    draw = partial(_random_conjunctions, section, layout.view, count)
    if files.weights is not None:
        return draw(files.weights * allowed)
    if popularity is None:
        return draw(None if allowed.all() else allowed.astype(np.float64))
    # Noise may leave too few popular columns for the count of queries. Weights closer to uniform are tried then.
    popular = popularity * allowed
    uniform = allowed / allowed.sum()
    candidates = [popular / popular.sum(), popular / popular.sum() + uniform] if popular.any() else []
    number = number_of_random_conjunctions(section, layout)
    for weights in candidates:
        try:
            drawn = draw(weights)
        except ValueError:
            continue
        if drawn.queries.size == number:
            return drawn
    return draw(uniform)


def number_of_random_conjunctions(section: ConjunctionQueries, layout: Layout) -> int:
    """The number of queries of a random choice without public weights, without making any: all if too few exist."""
    usable = _allowed_columns(section.attributes, layout)
    usable[[start for start, stop in layout.view.groups if stop - start == 1]] = False
    negate, orders = section.negations == "random", section.orders or (section.order or 1,)
    existing = sum(number_of_conjunctions(layout.view, order, usable=usable, negate=negate) for order in orders)
    return min(section.count or 1, existing)


def _itemset_workload(section: ItemsetQueries, layout: Layout) -> Workload:
    min_support = None if section.min_support is None else Fraction(str(section.min_support))
    return frequent(Itemsets(layout.view, section.order, section.top, min_support))


def _check_conjunctions(view: BinaryView, count: int, order: int) -> None:
    """Refuses random conjunctions that cannot exist, or do not fit in memory, before any is drawn."""
    _check_count(count)
    groups = len(view.groups) or view.columns
    if order > groups:
        raise ValueError(
            f"order is {order:,}; want at most {groups:,}, because each literal has its own attribute or item"
        )
    if count * order > LARGEST_LITERALS:
        raise ValueError(
            f"{count:,} conjunctions have {count * order:,} literals; want at most {LARGEST_LITERALS:,} in all"
        )


def _random_conjunctions(
    section: ConjunctionQueries, view: BinaryView, count: int, weights: NDArray[np.float64] | None
) -> Workload:
    generator = np.random.default_rng(section.seed)
    negate = section.negations == "random"
    if section.orders is not None:
        mixed = random_mixed_conjunctions(view, count, section.orders, generator, weights=weights, negate=negate)
        return conjunctive(mixed)
    order = section.order or 1
    return conjunctive(random_conjunctions(view, count, order, generator, weights=weights, negate=negate))


def _parity_workload(section: ParityQueries, layout: Layout) -> Workload:
    columns = _parity_columns(section, layout)
    if section.count is None:
        _check_size(number_of_parities(section, layout))
        return conjunctive(all_parities(layout.view, section.order, columns))
    _check_count(section.count)
    generator = np.random.default_rng(section.seed)
    return conjunctive(random_parities(layout.view, section.count, section.order, generator, columns))


def number_of_parities(section: ParityQueries, layout: Layout) -> int:
    """The number of queries of a workload of parities, without making any."""
    if section.count is not None:
        return section.count
    return sum(parity_counts(layout.view, section.order, _parity_columns(section, layout)))


def _parity_columns(section: ParityQueries, layout: Layout) -> NDArray[np.int64] | None:
    """The columns of the view that may occur in parities, int64 [columns]; None for all of them."""
    allowed = _allowed_columns(section.attributes, layout)
    return None if allowed.all() else np.flatnonzero(allowed)


def _allowed_columns(attributes: str | tuple[str, ...], layout: Layout) -> NDArray[np.bool_]:
    """Which columns of the view may occur in queries, bool [columns]."""
    allowed = np.ones(layout.view.columns, dtype=np.bool_)
    if isinstance(layout, TableLayout) and not isinstance(attributes, str):
        chosen = layout.schema.domain.axes(attributes)
        allowed = np.isin(layout.view.group_of_column(), chosen)
    return allowed


def _check_count(queries: int) -> None:
    if queries > LARGEST_ANSWERS:
        raise ValueError(f"count is {queries:,}; want at most {LARGEST_ANSWERS:,} queries")


def _check_size(answers: int) -> None:
    if answers > LARGEST_ANSWERS:
        gib = -(-answers * 32 // 2**30)  # Integer arithmetic, because a float64 may not represent the number exactly.
        advice = (
            f"about {gib:,} GiB on the driver; want a lower order, fewer attributes, workload.marginals.max_cells, "
            "which leaves out large marginals, workload.marginals.count, which chooses some at random, or "
            "workload.conjunctions with mechanism: dual_query, which answers a chosen number of queries"
        )
        raise DomainTooLargeError("the workload", answers, LARGEST_ANSWERS, advice)
