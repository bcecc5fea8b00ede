"""One release on every engine: with the draws of the local run given again, Spark's and Beam's are the same to the bit.

The kernel goes the whole way each time, from the engine's exact answers to the inputs of its samplers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dpcore.exact_statistics import Statistics
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.api import Mechanism
from dpcore.mechanisms.baskets.basket_mixture import BasketMixture
from dpcore.mechanisms.clipping.clipped_gaussian import ClippedGaussian
from dpcore.mechanisms.query_game.dqrs import Dqrs
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.mechanisms.query_game.fem import Fem
from dpcore.mechanisms.query_game.sep_fem import SepFem
from dpcore.queries.generation import random_conjunctions
from dpcore.workload import Workload, all_k_way, conjunctive
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import Engine, EngineStatistics
from pipelines.layout import BasketLayout, TableLayout
from pipelines.source import open_source
from tests.support import engine_cases
from tests.support.constants import with_constants
from tests.support.engine_cases import SALT
from tests.support.engines import DISTRIBUTED
from tests.support.recorder import Scene, record

MECHANISMS: dict[str, Mechanism] = {
    "dual_query": DualQuery(samples=8),
    "dqrs": Dqrs(samples=8, rounds=12),
    "fem": Fem(rounds=4, records=6),
    "sep_fem": SepFem(rounds=4, records=6),
    "clipped_gaussian": with_constants(ClippedGaussian(), min_predicted_queries=1),
    "basket_mixture": BasketMixture(),
}
BASKETS, TABLE = engine_cases.messy_baskets(), engine_cases.text_units()


@dataclass(frozen=True)
class Data:
    """A case and the files that hold it."""

    case: engine_cases.Case
    folder: Path


@pytest.fixture(scope="module", params=[BASKETS, TABLE], ids=["baskets", "table"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Data:
    folder = tmp_path_factory.mktemp("data")
    engine_cases.write(request.param.rows, folder, 3)
    return Data(request.param, folder)


def statistics(engine: Engine, data: Data) -> Statistics:
    return EngineStatistics(engine, open_source(str(data.folder), data.case.layout, SALT))


def scene(name: str, case: engine_cases.Case) -> Scene:
    layout, draw = case.layout, np.random.default_rng(4)
    assert isinstance(layout, BasketLayout | TableLayout)
    workload: Workload
    if isinstance(layout, TableLayout) and name != "clipped_gaussian":
        workload = all_k_way(layout.schema.domain, 2)
    else:
        order = 3 if isinstance(layout, BasketLayout) else 2
        negate = isinstance(layout, BasketLayout)
        workload = conjunctive(random_conjunctions(layout.view, 14, order, draw, negate=negate))
    unit = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, layout.contribution)
    return Scene(MECHANISMS[name], workload, unit, budget_of(2.0, 1e-6, Currency.ZCDP), seed=9)


@pytest.mark.smoke(5)
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("make", DISTRIBUTED)
def test_a_release_is_the_same_on_every_engine(make: Callable[[], Engine], name: str, data: Data) -> None:
    if name == "basket_mixture" and isinstance(data.case.layout, TableLayout):
        return
    played = scene(name, data.case)
    first = record(played, statistics(LocalEngine(2), data))
    again = record(played, statistics(make(), data), first.draws)
    assert not [event for event in first.events if event[0] == "raised"]
    assert any(event[0] == "answers" for event in first.events)
    assert again.events == first.events
    assert again.charges == first.charges
    assert len(first.draws) == len(again.draws) > 1
    for one, other in zip(first.draws, again.draws, strict=True):
        for seen, seen_again in zip(one.seen, other.seen, strict=True):
            np.testing.assert_array_equal(seen_again, seen)
