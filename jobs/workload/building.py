"""From the workload section of a config to queries, by public facts and noisy popularity alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Clique, Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.queries import Marginals
from dpcore.queries.generation import all_parities, parity_counts, random_conjunctions, random_parities
from dpcore.queries.ranges import all_ranges, prefix, range_marginals, range_rows
from dpcore.workload import LARGEST_CLIQUES, Workload, all_k_way, conjunctive, explicit, skewed, target
from jobs.config import Config
from jobs.config.workload import ConjunctionQueries, MarginalQueries, ParityQueries
from jobs.workload.products import number_of_answers, product_workload
from jobs.workload.public_files import PublicFiles
from pipelines.attributes import Attribute
from pipelines.layout import Layout, TableLayout
from pipelines.schema import Schema

LARGEST_ANSWERS = 1 << 26  # 67 million answers: 2 GiB of vectors on the driver.


_NO_FILES = PublicFiles()


def workload_of(
    config: Config, layout: Layout, files: PublicFiles = _NO_FILES, popularity: NDArray[np.float64] | None = None
) -> Workload:
    """The workload of a config.

    files: What the public files hold that the config names.
    popularity: float64 [columns of the layout's view], noisy; None for queries of the same number and order that are
        chosen uniformly, which is what a plan can know.

    Raises ConfigError, DomainTooLargeError when the answers do not fit in memory.
    """
    asked = config.workload
    try:
        if asked.conjunctions is not None:
            return _conjunctions(asked.conjunctions, layout, files, popularity)
        if asked.parities is not None:
            return _parities(asked.parities, layout)
        if asked.marginals is not None and isinstance(layout, TableLayout):
            return _marginals(asked.marginals, layout.schema)
        if asked.products is not None and isinstance(layout, TableLayout):
            _check_size(number_of_answers(asked.products, layout.schema))
            return product_workload(asked.products, layout.schema)
    except ValueError as error:
        raise ConfigError(f"workload: {error}") from error
    raise ConfigError("workload does not fit the shape of the dataset; want conjunctions or parities for baskets")


def _marginals(asked: MarginalQueries, schema: Schema) -> Workload:
    """Marginals, or the linear queries on them that prefixes and ranges make of them."""
    domain = schema.domain
    if asked.prefix is None and asked.ranges is None:
        return _cliques(asked, domain, domain)
    prefixes = [schema.attributes[domain.index(name)] for name in asked.prefix or ()]
    ranges = [schema.attributes[domain.index(name)] for name in asked.ranges or ()]
    rows = dict(zip(domain.names, domain.sizes, strict=True))
    rows |= {attribute.name: range_rows(attribute.size, attribute.known) for attribute in ranges}
    # As many answers as marginals have whose attributes have a code for each row: what is too large is refused here.
    cliques = _cliques(asked, Domain.of(rows), domain)
    matrices = {attribute.name: _matrix(prefix, attribute) for attribute in prefixes}
    matrices |= {attribute.name: _matrix(all_ranges, attribute) for attribute in ranges}
    assert isinstance(cliques.queries, Marginals)
    return Workload(range_marginals(domain, cliques.queries.cliques, matrices), cliques.weights)


def _matrix(make: Callable[[int, int], NDArray[np.int64]], attribute: Attribute) -> NDArray[np.int64]:
    """The listed values or bins are in an order, codes of nulls and of other values are not."""
    try:
        return make(attribute.size, attribute.known)
    except ValueError as error:
        raise ValueError(f"attribute {attribute.name!r}: {error}") from error


def _cliques(asked: MarginalQueries, domain: Domain, codes: Domain) -> Workload:
    """domain: Answers of each attribute. codes: Of each attribute, which cells are counted by."""
    if asked.cliques is not None:
        weights: dict[tuple[str, ...], float] = {}
        for clique in asked.cliques:
            name = domain.canonical(clique.attributes)
            weights[name] = weights.get(name, 0.0) + clique.weight
        _check_size(sum(domain.size(clique) for clique in weights))
        return explicit(domain, weights)
    names = domain.names if asked.attributes == "all" else asked.attributes
    if asked.up_to_order is not None or asked.max_cells is not None:
        return _small(asked, domain, codes.project(domain.canonical(names)))
    order = asked.order or 1
    if asked.skewed is not None:
        made = skewed(domain, order, asked.skewed.count, np.random.default_rng(asked.skewed.seed))
        _check_size(made.queries.size)
        return made
    if asked.target is not None:
        others = [size for name, size in zip(domain.names, domain.sizes, strict=True) if name != asked.target]
        _check_size(domain.size((asked.target,)) * _cells(others, order - 1))
        return target(domain, order, asked.target)
    _check_size(_cells(domain.shape(names), order))
    return all_k_way(domain, order, names)


def _small(asked: MarginalQueries, domain: Domain, codes: Domain) -> Workload:
    """All marginals of an order, or up to one, that have at most ``max_cells`` cells, those of few attributes first."""
    attributes = len(codes.names)
    largest = attributes if asked.up_to_order == "all" else asked.up_to_order or asked.order or 1
    if largest > attributes:
        raise ValueError(f"order {largest} over {attributes} attributes; want 1 .. {attributes}")
    orders = range(largest + 1) if asked.order is None else range(largest, largest + 1)
    if asked.max_cells is None:
        every = _cells_of_orders(domain.shape(codes.names), largest)
        _check_size(sum(every[order] for order in orders))
    found = _cliques_within(codes, largest, asked.max_cells)
    cliques = sorted((clique for clique in found if len(clique) in orders), key=lambda one: (len(one), codes.axes(one)))
    if not cliques:
        raise ValueError(f"no marginal of order {largest} has at most {asked.max_cells:,} cells; want more max_cells")
    _check_size(sum(map(domain.size, cliques)))
    return explicit(domain, dict.fromkeys(cliques, 1.0))


def _cliques_within(domain: Domain, order: int, cells: int | None) -> list[Clique]:
    """Cliques of at most so many attributes and cells, in any order."""
    by_size = sorted(zip(domain.sizes, domain.names, strict=True))
    found: list[Clique] = []
    left: list[tuple[Clique, int, int]] = [((), 1, 0)]
    while left:
        clique, size, start = left.pop()
        found.append(domain.canonical(clique))
        if len(found) > LARGEST_CLIQUES:
            raise ValueError(
                f"the workload has more than {LARGEST_CLIQUES:,} marginals; want a lower order or max_cells"
            )
        if len(clique) == order:
            continue
        for place in range(start, len(by_size)):
            more, name = by_size[place]
            if cells is not None and size * more > cells:
                break  # Those that follow have more values.
            left.append(((*clique, name), size * more, place + 1))
    return found


def _cells(sizes: tuple[int, ...] | list[int], order: int) -> int:
    """Cells of all marginals of ``order`` attributes."""
    return _cells_of_orders(sizes, order)[order]


def _cells_of_orders(sizes: tuple[int, ...] | list[int], largest: int) -> list[int]:
    """The same for each order from 0 to the largest: the elementary symmetric polynomials of the sizes."""
    sums = [1] + [0] * largest
    for size in sizes:
        for degree in range(largest, 0, -1):
            sums[degree] += size * sums[degree - 1]
    return sums


def _conjunctions(
    asked: ConjunctionQueries, layout: Layout, files: PublicFiles, popularity: NDArray[np.float64] | None
) -> Workload:
    if files.queries is not None:
        _check_size(files.queries.queries.size)
        return files.queries
    count, order = asked.count or 1, asked.order or 1
    _check_size(count)
    allowed = _allowed_columns(asked.attributes, layout)
    draw = partial(_drawn, asked, layout.view, count, order)
    if files.weights is not None:
        return draw(files.weights * allowed)
    if popularity is None:
        return draw(None if allowed.all() else allowed.astype(np.float64))
    # Noise may leave fewer popular columns than the count needs; the choice then leans towards uniform.
    popular = popularity * allowed
    uniform = allowed / allowed.sum()
    candidates = [popular / popular.sum(), popular / popular.sum() + uniform] if popular.any() else []
    for weights in candidates:
        try:
            return draw(weights)
        except ValueError:
            continue
    return draw(uniform)


def _drawn(
    asked: ConjunctionQueries, view: BinaryView, count: int, order: int, weights: NDArray[np.float64] | None
) -> Workload:
    generator = np.random.default_rng(asked.seed)
    negate = asked.negations == "random"
    return conjunctive(random_conjunctions(view, count, order, generator, weights=weights, negate=negate))


def _parities(asked: ParityQueries, layout: Layout) -> Workload:
    allowed = _allowed_columns(asked.attributes, layout)
    columns = None if allowed.all() else np.flatnonzero(allowed)
    if asked.count is None:
        _check_size(sum(parity_counts(layout.view, asked.order, columns)))
        return conjunctive(all_parities(layout.view, asked.order, columns))
    _check_size(asked.count)
    generator = np.random.default_rng(asked.seed)
    return conjunctive(random_parities(layout.view, asked.count, asked.order, generator, columns))


def _allowed_columns(attributes: str | tuple[str, ...], layout: Layout) -> NDArray[np.bool_]:
    """Columns of the view that queries may name, bool [columns]."""
    allowed = np.ones(layout.view.columns, dtype=np.bool_)
    if isinstance(layout, TableLayout) and not isinstance(attributes, str):
        chosen = layout.schema.domain.axes(attributes)
        allowed = np.isin(layout.view.group_of_column(), chosen)
    return allowed


def _check_size(answers: int) -> None:
    if answers > LARGEST_ANSWERS:
        gib = -(-answers * 32 // 2**30)  # Of integers, as there may be more than a double holds.
        advice = (
            f"about {gib:,} GiB on the driver; choose a lower order or fewer attributes, or workload.conjunctions with "
            "mechanism: dual_query, which answers a chosen number of queries"
        )
        raise DomainTooLargeError("the workload", answers, LARGEST_ANSWERS, advice)
