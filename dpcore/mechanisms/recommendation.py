"""Which mechanism to begin with: a rule from public facts alone, held to the measured grid of table mechanisms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dpcore.errors import ConfigError
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.kernel.budget import Currency
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS, Gaussian, Laplace
from dpcore.mechanisms.aim.marginals import LARGEST_CELLS
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB, modelled
from dpcore.mechanisms.shared.totals import public_total
from dpcore.queries import Conjunctions, Marginals, Parities, Products
from dpcore.workload import Workload, downward_closure

_LARGEST_MODEL: Final = 16 * CELLS_IN_MB  # Of one model for the whole workload, which a fit passes over many times.
_LARGEST_CLOSURE: Final = 5_000  # Cliques that AIM weighs in every round; beyond, a release takes hours.
_SMALL: Final = 64  # Mean cells of marginals that are no sparse tables, whatever the number of rows.
_MOST_NOISE: Final = {True: 0.5, False: 0.1}  # Of the rows in a marginal, by whether marginals are small.
_FEW_QUERIES: Final = 500  # Below, plain noise had the lower mean error on Adult at epsilon 1.


@dataclass(frozen=True)
class Recommendation:
    """A registered mechanism, to be used with its defaults. why: One clause, public."""

    name: str
    why: str


def recommended(terms: PrivacyTerms, workload: Workload, *, rows: bool = False) -> Recommendation:
    """The first mechanism, in the order of our measurements, that accepts the workload under these terms.

    rows: Whether synthetic rows are wanted, which mechanisms without a model cannot give.

    Nothing is asked of data, and the answer is no promise: how well a mechanism does depends on what it must not look
    at. Raises ConfigError where no mechanism accepts.
    """
    for option in _options(terms, workload):
        if (not rows or _gives_rows(option.name)) and _accepts(option.name, terms, workload):
            return option
    raise ConfigError("no mechanism accepts this workload under these terms; want a smaller workload")


def _gives_rows(name: str) -> bool:
    return MECHANISMS[name].traits.gives_rows(MECHANISMS[name]())


def _accepts(name: str, terms: PrivacyTerms, workload: Workload) -> bool:
    try:
        MECHANISMS[name]().plan(terms, workload)
    except (ConfigError, ValueError):
        return False
    return True


def _options(terms: PrivacyTerms, workload: Workload) -> Iterator[Recommendation]:
    """Best first. What comes after the first is for terms, or sizes, for which those before have no proof."""
    queries = workload.queries
    match queries:
        case Marginals():
            yield from _of_marginals(terms, workload, queries)
        case Products():
            yield Recommendation("aim", "it measures the most informative ranges, round by round")
            yield Recommendation("hdmm", "it measures the queries from which the ranges come out with least error")
        case Conjunctions() | Parities():
            yield from _of_columns(queries)
    yield from _additive("the mechanisms with a model have no proof, or no memory, for this workload")
    yield Recommendation("independent", "the workload is too large for any other mechanism")


def _of_marginals(terms: PrivacyTerms, workload: Workload, queries: Marginals) -> Iterator[Recommendation]:
    cells = _model_cells(queries)
    if cells <= _LARGEST_MODEL and _is_worth_measuring(terms, workload, queries):
        sizes = f"{len(queries.cliques):,} marginals fit one model of {cells:,} cells"
        yield Recommendation("gaussian_pgm", f"all {sizes}, and can be measured at once")
    candidates = _closure(queries)
    if candidates is None:
        counted = f"the marginals and their parts are more than {_LARGEST_CLOSURE:,}, or than {LARGEST_CELLS:,} cells"
        yield Recommendation("clique_tree", f"{counted}: it weighs them once, not in every round")
    else:
        why = f"it selects, at once and then round by round, which of {candidates:,} marginals are worth their noise"
        yield Recommendation("aim", why)


def _is_worth_measuring(terms: PrivacyTerms, workload: Workload, queries: Marginals) -> bool:
    """Whether all marginals can be measured at once without drowning in noise.

    Where the number of rows is private the marginals must be small: in large ones most cells are nearly empty.
    """
    rows, sizes = public_total(terms), queries.size / max(1, len(queries.cliques))
    if rows is None:
        return sizes <= _SMALL
    if queries.size > LARGEST_ANSWERS:
        return False
    noise = (Laplace() if terms.budget.currency is Currency.PURE else Gaussian()).plan(terms, workload).predicted_error
    return noise is not None and noise * sizes <= _MOST_NOISE[sizes <= _SMALL] * rows


def _of_columns(queries: Conjunctions | Parities) -> Iterator[Recommendation]:
    """Conjunctions and parities of one-hot columns, or of items of baskets."""
    if isinstance(queries, Conjunctions) and not queries.negated.any():
        yield Recommendation("clipped_gaussian", "noise for the usual unit, whatever the number of positive queries")
    if queries.size <= _FEW_QUERIES:
        yield from _additive(f"the queries are few: at most {_FEW_QUERIES:,}")
    yield Recommendation("dqrs", "its noise does not grow with the number of queries")


def _additive(why: str) -> Iterator[Recommendation]:
    """One of the two accepts whatever the currency."""
    yield Recommendation("gaussian", why)
    yield Recommendation("laplace", why)


def _model_cells(queries: Marginals) -> int:
    return JunctionTree.of(queries.domain.project(modelled(queries)), queries.cliques).cells


def _closure(queries: Marginals) -> int | None:
    """Candidates of AIM; None where they are too many for its rounds, or some of them for its memory."""
    try:
        closure = downward_closure(queries.cliques)
    except ConfigError:
        return None
    cells = sum(map(queries.domain.size, closure))
    return len(closure) if len(closure) <= _LARGEST_CLOSURE and cells <= LARGEST_CELLS else None
