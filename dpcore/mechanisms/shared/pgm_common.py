"""Limits, checks and helpers of mechanisms that measure marginals and release a graphical model."""

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

CELLS_IN_MB: Final = 1 << 17  # float64 cells in one MiB.
COPIES: Final = 6  # Maximum number of copies of a model's tables in memory during a fit.
LARGEST_PENALTY: Final = 2.0**44  # Maximum penalty that a score subtracts from a candidate.
# ``FitSettings.work`` of fits between rounds (a few seconds on one core) and of the last fit, which allows models of a
# few hundred MiB to converge.
ROUND_WORK: Final = 2.0**28
LAST_WORK: Final = 2.0**32


def table_marginals(workload: Workload, mechanism: str) -> Marginals:
    """The marginals of a workload, or the marginals from which its products are computed, each once.

    workload: A workload of marginals or of products.
    mechanism: Name of the mechanism, for the error message.

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


def check_names_attribute(cliques: Iterable[Clique], mechanism: str) -> None:
    """Raises ConfigError if no clique names an attribute, as in a workload of the number of rows alone.

    cliques: The cliques of the workload.
    mechanism: Name of the mechanism, for the error message.
    """
    if not any(cliques):
        raise ConfigError(
            f"mechanism {mechanism} needs a workload that names an attribute; want a clique of one attribute or more, "
            "or mechanism gaussian_pgm"
        )


def clique_weights(workload: Workload, queries: Marginals) -> NDArray[np.float64]:
    """The weight of each of the ``table_marginals``, float64 [cliques].

    The weights of all parts of the workload with the same clique are added up.
    """
    parts = workload.queries
    assert isinstance(parts, Marginals | Products)
    cliques = parts.cliques if isinstance(parts, Marginals) else [product.clique for product in parts.terms]
    index_of = {clique: index for index, clique in enumerate(queries.cliques)}
    return np.bincount([index_of[clique] for clique in cliques], weights=workload.weights).astype(np.float64)


def modelled(queries: Marginals) -> Clique:
    """The attributes of the model: those in some clique, in the order of the domain.

    If no clique names an attribute, the model has the first attribute of the domain alone.
    """
    return queries.domain.named(queries.cliques) or queries.domain.names[:1]


def modelled_domain(queries: Marginals) -> Domain:
    """The domain of the attributes of the model."""
    return queries.domain.project(modelled(queries))


def rows_of(terms: PrivacyTerms, domain: Domain, measurements: Sequence[Measurement]) -> float:
    """Number of rows of the model, at least 1: public, or the least-squares estimate from all measurements."""
    public = public_total(terms)
    return max(1.0, estimate_total(domain, measurements)[0] if public is None else public)


def stddev_of(terms: PrivacyTerms, queries: Marginals, share: Fraction) -> float:
    """Standard deviation, in counts, of the noise in each value of a measurement."""
    return noise_stddev(terms.noise, terms.measure_scale(queries, share))


def check_model_size(max_model_mb: float) -> None:
    """Raises ConfigError unless ``max_model_mb`` is positive and finite."""
    if not 0 < max_model_mb < float("inf"):
        raise ConfigError(f"mechanism.max_model_mb is {max_model_mb:g}; want a number > 0")


def uniform_note(queries: Marginals) -> tuple[str, ...]:
    """A note of a plan that says how many attributes the workload does not name; empty if it names all of them."""
    unnamed = len(queries.domain.names) - len(modelled(queries))
    return (f"{unnamed} attributes that the workload does not name are uniform in the rows",) if unnamed else ()
