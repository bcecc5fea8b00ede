"""The mechanism to begin with: a rule that uses public facts alone, and agrees with our benchmarks of table mechanisms.

``dpcore/decisions/recommendation.md`` has the study behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dpcore.errors import ConfigError
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.kernel.budget import Currency
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.mechanisms.additive_noise import LARGEST_ANSWERS, Gaussian, Laplace
from dpcore.mechanisms.aim.marginals import LARGEST_CELLS, MANY_CANDIDATES
from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB, modelled
from dpcore.mechanisms.shared.totals import public_total
from dpcore.queries import Conjunctions, Itemsets, Marginals, Parities, Products
from dpcore.queries.lattice import needs_lattice
from dpcore.workload import Workload, downward_closure

_MAX_MODEL_CELLS: Final = 16 * CELLS_IN_MB  # Of one model for the whole workload, because a fit makes many passes.
_MAX_CLOSURE: Final = MANY_CANDIDATES
_SMALL_MARGINAL: Final = 16  # Mean cells of marginals whose model comes with the answers, because it costs little.
_DENSE_MARGINAL: Final = 64  # Mean cells of a marginal that is not sparse whatever the number of rows.
_MAX_NOISE: Final = {True: 0.5, False: 0.1}  # L1 noise of a marginal over the rows, for small marginals and others.
_WITH_MODEL: Final = {"model": "graphical"}
_FEW_QUERIES: Final = 500  # With fewer queries plain noise had the smaller mean error on Adult at epsilon 1.
# With fewer queries with negations or of mixed orders, noise for all of them is less than that of their terms together.
_FEW_SIGNED: Final = 50


@dataclass(frozen=True)
class Recommendation:
    """A registered mechanism, to be used with its default settings but for those that are given.

    name: The mechanism's name in a config.
    why: The reason, as one clause. It is public.
    settings: Settings, as in a config.
    """

    name: str
    why: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism with these settings."""
        return MECHANISMS[self.name](**self.settings)

    @property
    def choice(self) -> str:
        """The name, and the settings in brackets if there are any."""
        settings = ", ".join(f"{key}: {value}" for key, value in self.settings.items())
        return f"{self.name} ({settings})" if settings else self.name


def recommended(terms: PrivacyTerms, workload: Workload, *, rows: bool = False) -> Recommendation:
    """The first mechanism, in the order of our benchmarks, that accepts the workload under these terms.

    rows: Whether synthetic rows are wanted. Mechanisms without a model cannot draw any.

    The rule never looks at data. It can promise no accuracy, because the error of a mechanism depends on the data.

    Raises ConfigError where no mechanism accepts the workload.
    """
    for option in _options(terms, workload, rows):
        mechanism = option.mechanism
        if (not rows or mechanism.traits.gives_rows(mechanism)) and _accepts(mechanism, terms, workload):
            return option
    raise ConfigError("no mechanism accepts this workload under these terms; want a smaller workload")


def _accepts(mechanism: Mechanism, terms: PrivacyTerms, workload: Workload) -> bool:
    try:
        mechanism.plan(terms, workload)
    except (ConfigError, ValueError):
        return False
    return True


def _options(terms: PrivacyTerms, workload: Workload, rows: bool) -> Iterator[Recommendation]:
    """The recommended mechanisms, best first. Later ones serve where those before have no proof, or no memory."""
    if isinstance(workload.requested, Itemsets):
        yield Recommendation("frequent_itemsets", "no other mechanism answers workload.itemsets")
        return
    queries = workload.queries
    match queries:
        case Marginals():
            yield from _for_marginals(terms, workload, queries, rows)
        case Products():
            why = (
                "it measures the most informative ranges, round by round; if intervals matter more than the mean "
                "error, choose hdmm, whose answers are unbiased with exact intervals"
            )
            yield Recommendation("aim", why)
            why = "its answers are unbiased, with exact intervals and the smallest error of linear strategies it knows"
            yield Recommendation("hdmm", why)
        case Conjunctions() | Parities():
            yield from _for_columns(queries)
    yield from _additive_noise("mechanisms with a model have no proof for this workload, or not enough memory")
    yield Recommendation("independent", "the workload is too large for any other mechanism")


def _for_marginals(terms: PrivacyTerms, workload: Workload, queries: Marginals, rows: bool) -> Iterator[Recommendation]:
    """Residuals; or, for rows and for pure DP, one model of all marginals if it is small."""
    cells, marginals = _model_cells(queries), f"{len(queries.cliques):,} marginals"
    prefers_model = rows or terms.budget.currency is Currency.PURE
    if cells <= _MAX_MODEL_CELLS and prefers_model and _noise_is_small(terms, workload, queries):
        yield Recommendation(
            "gaussian_pgm", f"all {marginals} fit one model of {cells:,} cells, and can be measured at once"
        )
    why = (
        f"it measures all {marginals} once, and again where it helps most; if noise would prevail, it selects marginals"
    )
    modelled_why = f"{why}; a model of its estimates gives rows and answers other marginals"
    if not rows and (cells > _MAX_MODEL_CELLS or queries.size > _SMALL_MARGINAL * len(queries.cliques)):
        yield Recommendation("adaptive_residuals", why)
    elif queries.size <= _DENSE_MARGINAL * len(queries.cliques):
        yield Recommendation("adaptive_residuals", modelled_why, _WITH_MODEL)
    candidates = _closure_size(queries)
    if candidates is None:
        limits = f"{_MAX_CLOSURE:,}, or have more than {LARGEST_CELLS:,} cells"
        counted = f"the marginals and those below them are more than {limits}"
        yield Recommendation("clique_tree", f"{counted}: it scores them once, not in every round")
    else:
        why = f"it selects, in a batch and then round by round, which of {candidates:,} marginals to measure"
        yield Recommendation("aim", why)


def _noise_is_small(terms: PrivacyTerms, workload: Workload, queries: Marginals) -> bool:
    """Whether all marginals can be measured at once with little noise compared to the number of rows.

    Where that number is private, the marginals must be small, because most cells of large ones are nearly empty.
    """
    rows, mean_size = public_total(terms), queries.size / max(1, len(queries.cliques))
    is_small = mean_size <= _DENSE_MARGINAL
    if rows is None:
        return is_small
    if queries.size > LARGEST_ANSWERS:
        return False
    plain = Laplace() if terms.budget.currency is Currency.PURE else Gaussian()
    error = plain.plan(terms, workload).predicted_error
    return error is not None and error * mean_size <= _MAX_NOISE[is_small] * rows


def _for_columns(queries: Conjunctions | Parities) -> Iterator[Recommendation]:
    """For conjunctions and parities of one-hot columns, or of items of baskets."""
    if isinstance(queries, Conjunctions):
        yield from _clipped(queries)
    if queries.size <= _FEW_QUERIES:
        yield from _additive_noise(f"there are at most {_FEW_QUERIES:,} queries")
    if isinstance(queries, Conjunctions) and not queries.view.groups:
        why = "its model is fitted to noisy sizes, item and pair counts, and synthetic baskets keep sizes and counts"
        yield Recommendation("basket_mixture", why)
    yield Recommendation("dqrs", "its noise does not grow with the number of queries")


def _clipped(queries: Conjunctions) -> Iterator[Recommendation]:
    """Clipped answers, except where a few queries are signed sums of nearly as many terms."""
    typical = "its noise suits a typical unit instead of the one that satisfies the most queries"
    if not needs_lattice(queries):
        yield Recommendation("clipped_gaussian", typical)
    elif queries.size > _FEW_SIGNED:
        why = (
            f"each query is a signed sum of positive conjunctions of at most {int(queries.orders.max())} literals. "
            "Noise is added for a typical unit, and errors were below those of dqrs and independent on all data that "
            "were tried"
        )
        yield Recommendation("clipped_gaussian", why)


def _additive_noise(why: str) -> Iterator[Recommendation]:
    """The two mechanisms that add noise to every answer. Each budget is accepted by one of them."""
    yield Recommendation("gaussian", why)
    yield Recommendation("laplace", why)


def _model_cells(queries: Marginals) -> int:
    """Cells of the junction tree of all marginals."""
    return JunctionTree.of(queries.domain.project(modelled(queries)), queries.cliques).cells


def _closure_size(queries: Marginals) -> int | None:
    """The number of AIM's candidates; None where they are too many for its rounds or too large for its memory."""
    try:
        closure = downward_closure(queries.cliques)
    except ConfigError:
        return None
    cells = sum(map(queries.domain.size, closure))
    return len(closure) if len(closure) <= _MAX_CLOSURE and cells <= LARGEST_CELLS else None
