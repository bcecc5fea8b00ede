"""The joint strategies of ``hdmm``: one strategy for all parts of a workload together."""

from __future__ import annotations

from typing import Final, Literal, Protocol

from dpcore.errors import ConfigError
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Plan, Progress, Release
from dpcore.mechanisms.hdmm.clusters import MeasuredClusters
from dpcore.mechanisms.hdmm.kronecker import MeasuredKronecker
from dpcore.mechanisms.hdmm.marginals import MeasuredMarginals
from dpcore.mechanisms.hdmm.product_marginals import MeasuredProductMarginals
from dpcore.mechanisms.hdmm.products import MeasuredProductResiduals
from dpcore.mechanisms.hdmm.symmetric import MeasuredSymmetric
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.workload import Workload

Strategy = Literal["best", "parts", "residuals", "marginals", "table", "clusters"]
Loss = Literal["total", "largest"]

_RANGES: Final = "or prefixes and ranges with the same queries of an attribute in all terms"
_REQUIREMENTS: Final = {
    "residuals": f"marginals of at most 2,048 values per attribute, {_RANGES}, under Gaussian noise "
    "(privacy.accounting zcdp or gdp)",
    "marginals": f"marginals over at most 16 attributes together, {_RANGES}, under Laplace noise "
    "(privacy.accounting pure)",
    "table": "two or more terms of products, whose attributes have at most 2,097,152 cells together and enough values "
    "that all queries treat alike",
    "clusters": "products under Laplace noise (privacy.accounting pure), some of which share attributes",
}
_MIN_SEARCH_GAP: Final = 0.02  # Relative gap to the optimal squared error above which further strategies are searched.


class MeasuredStrategy(Protocol):
    """Queries that are measured, chosen from public facts alone, from which least squares answers a workload."""

    def weighted_error(self, terms: PrivacyTerms, /) -> float:
        """Expected sum over the answers of (weight * error)^2."""

    def release_plan(self, terms: PrivacyTerms, /) -> Plan:
        """The plan of a release that measures the queries with the whole budget."""

    def run(self, private: PrivateStatistics, progress: Progress, /) -> Release:
        """MEASURE the queries with the whole budget and ESTIMATE the answers."""


def best_joint_strategy(
    terms: PrivacyTerms, workload: Workload, strategy: Strategy, loss: Loss
) -> MeasuredStrategy | None:
    """The joint strategy with the smallest expected loss among those that apply to the workload.

    Returns None if none applies, or if the setting ``strategy`` is "parts".

    Raises ConfigError if the requested strategy or loss does not apply to the workload.
    """
    options: list[MeasuredStrategy | None] = []
    if loss == "largest":
        if strategy not in ("best", "residuals"):
            raise ConfigError(f"mechanism.loss largest, strategy {strategy}; want strategy: best or residuals")
        strategy, options = "residuals", [MeasuredResiduals.of(terms, workload, error="largest")]
    elif strategy != "parts":
        products = MeasuredProductResiduals.of(terms, workload) if strategy in ("best", "residuals") else None
        if strategy in ("best", "residuals"):
            options += [MeasuredResiduals.of(terms, workload), products]
        if strategy in ("best", "marginals"):
            options += [MeasuredMarginals.of(terms, workload), MeasuredProductMarginals.of(terms, workload)]
        is_near_optimal = products is not None and products.strategy.gap <= _MIN_SEARCH_GAP
        if strategy == "table" or (strategy == "best" and not is_near_optimal):
            options += [MeasuredSymmetric.of(terms, workload), MeasuredKronecker.of(terms, workload)]
        if strategy == "clusters" or (strategy == "best" and options == [None] * len(options)):
            options.append(MeasuredClusters.of(terms, workload))
    applicable = [option for option in options if option is not None]
    if not applicable and loss == "largest":
        raise ConfigError("mechanism.loss largest is for marginals under Gaussian noise; want loss: total")
    if not applicable and strategy in _REQUIREMENTS:
        raise ConfigError(f"mechanism.strategy {strategy} is for {_REQUIREMENTS[strategy]}; want strategy: best")
    return min(applicable, key=lambda option: option.weighted_error(terms), default=None)
