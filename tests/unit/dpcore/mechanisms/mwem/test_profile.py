"""The constants of the MWEM profiles, and what follows from them for starts and budgets."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.mwem.mwem import Mwem
from dpcore.mechanisms.mwem.mwem_pgm import MwemPgm
from dpcore.mechanisms.mwem.mwem_queries import MwemQueries
from dpcore.mechanisms.mwem.profile import (
    MWEM,
    MWEM_PGM,
    MWEM_QUERIES,
    MwemPgmProfile,
    MwemProfile,
    MwemQueriesProfile,
)
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import all_k_way, linear

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 2})
TABLE = TinyTable(DOMAIN, np.random.default_rng(0).integers(0, DOMAIN.sizes, (200, 3)))
PAIRS, PREFIXES = all_k_way(DOMAIN, 2), linear(range_marginals(DOMAIN, [("a", "b")], {"b": prefix(4)}))
NAMES = ("default", "published")


@pytest.mark.parametrize("profiles", [MWEM, MWEM_QUERIES, MWEM_PGM], ids=["mwem", "mwem_queries", "mwem_pgm"])
@pytest.mark.parametrize("name", NAMES)
def test_the_shares_of_a_profile_leave_something_for_every_part(
    profiles: dict[str, MwemProfile | MwemQueriesProfile | MwemPgmProfile], name: str
) -> None:
    profile = profiles[name]
    assert 0 < profile.total_share < 1
    assert 0 < profile.select_share < 1
    assert 0 <= profile.start_share < 1 - profile.total_share
    assert (profile.start_share == 0) == (profile.start == "uniform")


@pytest.mark.parametrize("name", NAMES)
def test_the_updates_of_a_profile_cannot_overshoot(name: str) -> None:
    """Marginals and answers with values 0 and 1 allow a step of 4, parities one of 1."""
    assert 0 < MWEM[name].step <= 4
    assert 0 < MWEM_QUERIES[name].step <= 1
    for profile in (MWEM[name], MWEM_QUERIES[name]):
        assert profile.passes >= 1
        assert profile.final_passes >= 0
    assert 0 <= MWEM_QUERIES[name].tolerance < float("inf")
    assert 0 < MWEM_PGM[name].prior_scale < float("inf")


def test_the_published_profiles_spend_all_in_rounds_as_printed() -> None:
    """Fig. 1 and Algorithm 5: no start, and half of each round selects."""
    terms = private_statistics(TABLE, Budget.zcdp(1), units=200).terms
    plans = [
        Mwem(profile="published").plan(terms, PAIRS),
        MwemPgm(profile="published").plan(terms, PAIRS),
        MwemQueries(profile="published").plan(terms, PREFIXES),
    ]
    for plan in plans:
        assert [step.label for step in plan.steps] == ["select", "measure"]
        assert [step.share for step in plan.steps] == [pytest.approx(0.5)] * 2
