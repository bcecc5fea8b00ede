"""What a release that discovers its items has beyond others: a threshold delta, and a part of the budget."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

from dpcore.errors import ConfigError
from dpcore.kernel.budget import Budget
from dpcore.kernel.private_items import ItemTerms
from dpcore.kernel.sensitivity import PrivacyUnit
from jobs.config import Config
from jobs.config.items import discovery_of
from pipelines.item_names import ItemNames
from pipelines.layout import BasketLayout, Layout

CHANCE_SHARE: Final = Fraction(1, 4)
"""Share of delta for names that only one unit has (``dpcore/decisions/discovery.md``)."""


def threshold_delta_of(config: Config) -> Fraction:
    """The threshold delta t (``dpcore.kernel.item_threshold``); 0 for a release that discovers nothing."""
    return Fraction(0) if discovery_of(config.dataset.items) is None else threshold_delta_at(config.privacy.delta)


def threshold_delta_at(delta: float) -> Fraction:
    """The threshold delta of a release that discovers its items with this delta."""
    return CHANCE_SHARE * Fraction(str(delta))


def discovery_share(config: Config) -> Fraction:
    """The share of the budget that discovers items; 0 for a release that discovers nothing."""
    choice = discovery_of(config.dataset.items)
    return Fraction(0) if choice is None else Fraction(str(choice.share))


def check_discovery(config: Config) -> None:
    """Raises ConfigError for a release that cannot discover its items, before anything is charged."""
    if discovery_of(config.dataset.items) is None:
        return
    dataset, conjunctions = config.dataset, config.workload.conjunctions
    problems = {
        "dataset.max_items_per_unit is missing; want a bound, such as 50": dataset.max_items_per_unit is None,
        "privacy.delta is 0; want a delta above 0, such as 1e-6": not config.privacy.delta,
        "the ledger cannot charge that to one consumer; want no privacy.consumer": config.privacy.consumer is not None,
        "the ledger cannot charge that to partitions; want no dataset.partition": dataset.partition is not None,
        "it needs files; want dataset.path or dataset.table": dataset.path is None and dataset.table is None,
        "workload.conjunctions.file and weights_file name items before they are known; want count and order": (
            conjunctions is not None and (conjunctions.file is not None or conjunctions.weights_file is not None)
        ),
    }
    for problem, holds in problems.items():
        if holds:
            raise ConfigError(f"dataset.items is to be discovered, and {problem}")


def item_terms(config: Config, unit: PrivacyUnit, budget: Budget) -> ItemTerms | None:
    """The terms of a discovery; None for a release that discovers nothing.

    config: The config.
    unit: The privacy unit.
    budget: The whole budget of the release.

    Raises: ConfigError when there is no proof for them.
    """
    choice = discovery_of(config.dataset.items)
    if choice is None:
        return None
    part = Budget(budget.currency, discovery_share(config) * budget.amount)
    try:
        return ItemTerms(unit, part, threshold_delta_of(config), choice.at_most)
    except ValueError as error:
        raise ConfigError(f"dataset.items cannot be discovered: {error}") from error


def named(layout: Layout, names: ItemNames) -> BasketLayout:
    """The layout of baskets whose items have been discovered."""
    if not isinstance(layout, BasketLayout):
        raise ConfigError("items are discovered in baskets; want shape: baskets")
    return replace(layout, items=names.size, names=names)
