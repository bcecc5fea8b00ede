"""What mechanisms share that measure marginals and release a graphical model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.fitting.consistency import estimate_total
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.measurement import Measurement, noise_stddev
from dpcore.mechanisms.shared.totals import public_total
from dpcore.queries import Marginals, Products
from dpcore.workload import Workload

CELLS_IN_MB: Final = 1 << 17  # Of float64.
COPIES: Final = 6  # Of the tables of a model, at most, while it is fitted.
LARGEST_PENALTY: Final = 2.0**44  # Of a score.
# Of ``FitSettings``: between rounds a few seconds on one core, at the end what models of a few hundred MiB need.
ROUND_WORK: Final = 2.0**28
LAST_WORK: Final = 2.0**32


def table_marginals(workload: Workload, mechanism: str) -> Marginals:
    """The marginals of a workload, or those that its products are read off, each once.

    Raises ConfigError for other queries.
    """
    if isinstance(workload.queries, Marginals):
        return workload.queries.only(dict.fromkeys(workload.queries.cliques))
    if isinstance(workload.queries, Products):
        return workload.queries.marginals
    raise ConfigError(
        f"mechanism {mechanism} answers marginals, prefixes and ranges of a table; want workload.marginals "
        "or workload.products, or mechanism dual_query for conjunctions and parities"
    )


def clique_weights(workload: Workload, queries: Marginals) -> NDArray[np.float64]:
    """One for each of the ``table_marginals``: what is asked of it in several parts adds up; float64 [cliques]."""
    parts = workload.queries
    assert isinstance(parts, Marginals | Products)
    given = parts.cliques if isinstance(parts, Marginals) else [term.clique for term in parts.terms]
    place = {clique: index for index, clique in enumerate(queries.cliques)}
    return np.bincount([place[clique] for clique in given], weights=workload.weights).astype(np.float64)


def modelled(queries: Marginals) -> Clique:
    """The attributes that some clique names, in the order of the domain; the first one where none does."""
    used = {name for clique in queries.cliques for name in clique}
    names = tuple(name for name in queries.domain.names if name in used)
    return names or queries.domain.names[:1]


def rows_of(terms: PrivacyTerms, domain: Domain, measurements: Sequence[Measurement]) -> float:
    """Rows of the model, at least 1: public, or the least-squares estimate from everything that was measured."""
    public = public_total(terms)
    return max(1.0, estimate_total(domain, measurements)[0] if public is None else public)


def stddev_of(terms: PrivacyTerms, queries: Marginals, share: Fraction) -> float:
    """Of the noise in each value of a measurement, in counts."""
    return noise_stddev(terms.noise, terms.measure_scale(queries, share))


def check_shares(shares: Iterable[tuple[str, float]]) -> None:
    """Refuses parts of a budget that are not positive, or leave nothing for what comes after them."""
    named = tuple(shares)
    if min(share for _, share in named) <= 0 or sum(share for _, share in named) >= 1:
        given = ", ".join(f"mechanism.{name} {share:g}" for name, share in named)
        raise ConfigError(f"{given}; want each > 0 and their sum < 1")


def check_model_size(max_model_mb: float) -> None:
    if not 0 < max_model_mb < float("inf"):
        raise ConfigError(f"mechanism.max_model_mb is {max_model_mb:g}; want a number > 0")


def uniform_note(queries: Marginals) -> tuple[str, ...]:
    """A sentence for the analyst where the workload leaves attributes out."""
    left = len(queries.domain.names) - len(modelled(queries))
    return (f"{left} attributes that the workload does not name are uniform in the rows",) if left else ()
