"""What is public about a setting, and what ``plan`` recommends for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from dpcore.errors import ConfigError
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.additive_noise import Gaussian
from dpcore.mechanisms.recommendation import recommended
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.queries import Marginals
from dpcore.workload import downward_closure
from tests.benchmarks.graphical.releases import DELTA
from tests.benchmarks.study.configurations import Configuration

FEATURES: Final = (
    "attributes", "marginals", "answers", "mean_cells", "closure", "closure_cells", "model_cells", "epsilon",
    "single_noise", "plain_noise", "noise", "signal",
)  # fmt: skip
ROWS_ARE_PUBLIC: Final = ("single_noise", "plain_noise", "noise", "signal")
"""Facts that need the number of rows."""

Facts = Mapping[str, float | str]


def terms_of(configuration: Configuration, units: int | None = None) -> PrivacyTerms:
    """Terms of a release by a mechanism that mostly adds Gaussian noise; units: their number where it is public."""
    unit = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, Contribution(Shape.TABLE, 1), units)
    return PrivacyTerms(unit, budget_of(configuration.epsilon, DELTA, Currency.GDP))


def facts_of(configuration: Configuration) -> Facts:
    """Numbers and recommendations. Noise is the expected L1 error of a marginal over the number of rows.

    single_noise: Of a mean marginal that gets the whole budget.
    plain_noise, noise: Of unbiased answers of the whole workload, by noise on each and by optimal linear measurements.
    signal: Rows over the expected absolute noise of a count that gets the whole budget.
    """
    queries = configuration.workload.queries
    assert isinstance(queries, Marginals)
    terms, rows = terms_of(configuration), configuration.rows
    marginals, mean = len(queries.cliques), queries.size / len(queries.cliques)
    plain = _plain_error(configuration, terms) * mean / rows
    linear = MeasuredResiduals.of(terms, configuration.workload, error="absolute")
    numbers = {
        "rows": rows,
        "attributes": len(queries.domain.names),
        "marginals": marginals,
        "answers": queries.size,
        "mean_cells": mean,
        **_closure(queries),
        "model_cells": _model_cells(queries),
        "epsilon": configuration.epsilon,
        "strength": configuration.strength,
        "single_noise": plain / math.sqrt(marginals),
        "plain_noise": plain,
        "noise": plain if linear is None else linear.absolute_error(terms) * mean / rows,
        "signal": mean * math.sqrt(marginals) / plain,
    }
    return {
        "key": configuration.key,
        "family": configuration.family,
        "kind": configuration.kind,
        **{name: float(f"{value:.4g}") for name, value in numbers.items()},
        "recommended": recommended(terms, configuration.workload).name,
        "with_rows": recommended(terms_of(configuration, rows), configuration.workload).name,
    }


def _plain_error(configuration: Configuration, terms: PrivacyTerms) -> float:
    error = Gaussian().plan(terms, configuration.workload).predicted_error
    assert error is not None
    return error


def _closure(queries: Marginals) -> dict[str, float]:
    """Number of all subsets of the marginals, and their cells; infinite for too many."""
    try:
        subsets = downward_closure(queries.cliques)
    except ConfigError:
        return {"closure": math.inf, "closure_cells": math.inf}
    return {"closure": len(subsets), "closure_cells": sum(map(queries.domain.size, subsets))}


def _model_cells(queries: Marginals) -> float:
    """Cells of the junction tree of all marginals, at most 1e300."""
    used = {name for clique in queries.cliques for name in clique}
    domain = queries.domain.project([name for name in queries.domain.names if name in used])
    return float(min(JunctionTree.of(domain, queries.cliques).cells, 10**300))
