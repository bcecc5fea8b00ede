"""Which queries ``hdmm`` measures for all parts of a workload together, where that is possible."""

from __future__ import annotations

from typing import Final, Literal, Protocol

from dpcore.errors import ConfigError
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Plan, Progress, Release
from dpcore.mechanisms.hdmm.clusters import MeasuredClusters
from dpcore.mechanisms.hdmm.kronecker import MeasuredKronecker
from dpcore.mechanisms.hdmm.marginals import MeasuredMarginals
from dpcore.mechanisms.hdmm.products import MeasuredProductResiduals
from dpcore.mechanisms.hdmm.symmetric import MeasuredSymmetric
from dpcore.mechanisms.hdmm.terms import MeasuredTerms
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.workload import Workload

Strategy = Literal["best", "parts", "residuals", "marginals", "table", "clusters"]
Loss = Literal["total", "largest"]

_RANGES: Final = "or prefixes and ranges that ask an attribute the same in all terms"
_NEEDS: Final = {
    "residuals": f"marginals of at most 2,048 values an attribute, {_RANGES}, under Gaussian noise "
    "(privacy.accounting zcdp or gdp)",
    "marginals": f"marginals over at most 16 attributes together, {_RANGES}, under Laplace noise "
    "(privacy.accounting pure)",
    "table": "two terms of products or more, whose attributes have at most 2,097,152 cells together and enough values "
    "that are asked alike",
    "clusters": "products under Laplace noise (privacy.accounting pure) of which some ask the same attributes",
}
_CLOSE: Final = 0.02  # Of the squared error: a search that gains less at most is not made.


class Together(Protocol):
    """Queries from which least squares answers all parts of a workload, chosen from public facts alone."""

    def weighted_error(self, terms: PrivacyTerms, /) -> float:
        """Expected sum over the answers of (weight * error)^2."""

    def of_release(self, terms: PrivacyTerms, /) -> Plan:
        """What measuring them would do."""

    def run(self, private: PrivateStatistics, progress: Progress, /) -> Release:
        """MEASURE and ESTIMATE, for all that is left of the budget."""


def measured_together(terms: PrivacyTerms, workload: Workload, strategy: Strategy, loss: Loss) -> Together | None:
    """The queries with the least expected loss out of those that apply; None where none does, or parts are asked for.

    Raises ConfigError where the strategy or the loss that is asked for does not apply.
    """
    options: list[Together | None] = []
    if loss == "largest":
        if strategy not in ("best", "residuals"):
            raise ConfigError(f"mechanism.loss largest, strategy {strategy}; want strategy: best or residuals")
        strategy, options = "residuals", [MeasuredResiduals.of(terms, workload, error="largest")]
    elif strategy != "parts":
        products = MeasuredProductResiduals.of(terms, workload) if strategy in ("best", "residuals") else None
        if strategy in ("best", "residuals"):
            options += [MeasuredResiduals.of(terms, workload), products]
        if strategy in ("best", "marginals"):
            options += [MeasuredMarginals.of(terms, workload), MeasuredTerms.of(terms, workload)]
        if strategy == "table" or (strategy == "best" and (products is None or products.selected.gap > _CLOSE)):
            options += [MeasuredSymmetric.of(terms, workload), MeasuredKronecker.of(terms, workload)]
        if strategy == "clusters" or (strategy == "best" and options == [None] * len(options)):
            options.append(MeasuredClusters.of(terms, workload))
    usable = [option for option in options if option is not None]
    if not usable and loss == "largest":
        raise ConfigError("mechanism.loss largest is for marginals under Gaussian noise; want loss: total")
    if not usable and strategy in _NEEDS:
        raise ConfigError(f"mechanism.strategy {strategy} is for {_NEEDS[strategy]}; want strategy: best")
    return min(usable, key=lambda option: option.weighted_error(terms), default=None)
