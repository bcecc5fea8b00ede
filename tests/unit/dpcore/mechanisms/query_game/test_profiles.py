"""The constants of the query-game profiles, and what the published ones change."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.errors import ConfigError
from dpcore.estimation.record_model import RecordModel
from dpcore.kernel.budget import Budget
from dpcore.mechanisms.query_game import dual_query_pgm
from dpcore.mechanisms.query_game.dqrs import Dqrs
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.mechanisms.query_game.dual_query_pgm import DualQueryPgm, IndependencePrior
from dpcore.mechanisms.query_game.fem import Fem
from dpcore.mechanisms.query_game.profiles import DUAL_QUERY_PGM_PROFILES, DUAL_QUERY_PROFILES, FEM_PROFILES
from dpcore.mechanisms.query_game.sep_fem import SepFem
from dpcore.queries import Marginals
from dpcore.testing.doubles import private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import all_k_way

UNITS = 300
DOMAIN = Domain.of({"a": 2, "b": 3})
TABLE = TinyTable(DOMAIN, np.random.default_rng(0).integers(0, DOMAIN.sizes, (UNITS, 2)))
WORKLOAD = all_k_way(DOMAIN, 2)
Mechanism = DualQuery | Dqrs | DualQueryPgm | Fem | SepFem


@pytest.mark.parametrize("name", ["default", "published", "dual_query_pgm"])
def test_the_constants_of_dual_query_leave_records_and_a_budget_for_rounds(name: str) -> None:
    profile = DUAL_QUERY_PROFILES[name]
    assert 0 <= profile.burn_in < 1
    assert profile.marginals_share > 0
    assert profile.units_share > 0
    assert profile.marginals_share + profile.units_share < 1


@pytest.mark.parametrize("name", ["default", "published"])
def test_the_constants_of_the_fit_allow_one(name: str) -> None:
    profile = DUAL_QUERY_PGM_PROFILES[name]
    assert profile.prior_strength >= 0
    assert profile.iterations >= 1


@pytest.mark.parametrize("name", ["default", "published"])
def test_the_constants_of_fem_leave_records_and_a_budget_for_rounds(name: str) -> None:
    profile = FEM_PROFILES[name]
    assert 0 <= profile.burn_in < 1
    assert profile.marginals_share > 0
    assert profile.units_share > 0
    assert profile.marginals_share + profile.units_share < 1
    assert profile.exponential_scale > 0
    assert profile.laplace_scale > 0
    assert profile.sweeps >= 1


@pytest.mark.parametrize(
    ("mechanism", "records"),
    [
        (DualQuery(rounds=20), 17),
        (DualQuery(rounds=20, profile="published"), 20),
        (Dqrs(rounds=20), 17),
        (Dqrs(rounds=20, profile="published"), 20),
        (Fem(rounds=20, records=3), 3 * 18),
        (Fem(rounds=20, records=3, profile="published"), 3 * 20),
        (SepFem(rounds=20, records=3), 3 * 18),
        (SepFem(rounds=20, records=3, profile="published"), 3 * 20),
    ],
    ids=repr,
)
def test_the_published_profiles_release_every_record(mechanism: DualQuery | Dqrs | Fem | SepFem, records: int) -> None:
    private = private_statistics(TABLE, Budget.zcdp(10), units=UNITS)
    release = mechanism.run(private, WORKLOAD, generator=np.random.default_rng(0))
    assert isinstance(release.model, RecordModel)
    assert len(release.model.records) == records


@pytest.mark.parametrize("kind", [Fem, SepFem])
def test_published_fem_starts_without_measurements(kind: type[Fem | SepFem]) -> None:
    terms = private_statistics(TABLE, Budget.zcdp(1), units=UNITS).terms
    default, published = (mechanism.plan(terms, WORKLOAD).steps for mechanism in (kind(), kind(profile="published")))
    assert [step.label for step in default] == ["measure one-way marginals", "select queries"]
    assert [step.label for step in published] == ["select queries"]


def test_the_published_fit_has_no_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    strengths = list[float]()

    def watched(queries: Marginals, expected: NDArray[np.float64], strength: float) -> IndependencePrior:
        strengths.append(strength)
        return IndependencePrior(queries, expected, strength)

    monkeypatch.setattr(dual_query_pgm, "IndependencePrior", watched)
    for mechanism in (DualQueryPgm(oracle="enumerate"), DualQueryPgm(oracle="enumerate", profile="published")):
        private = private_statistics(TABLE, Budget.zcdp(1), units=UNITS)
        release = mechanism.run(private, WORKLOAD, generator=np.random.default_rng(0))
        assert release.answers.values.min() >= 0
        assert release.answers.values.sum() == pytest.approx(UNITS)
    assert strengths == [0.2, 0.0]


@pytest.mark.parametrize("kind", [DualQuery, Dqrs, DualQueryPgm, Fem, SepFem])
def test_an_unknown_profile_is_refused(kind: type[Mechanism]) -> None:
    terms = private_statistics(TABLE, Budget.zcdp(1), units=UNITS).terms
    with pytest.raises(ConfigError, match="mechanism.profile is 'printed'; want default or published"):
        kind(profile="printed").plan(terms, WORKLOAD)  # type: ignore[arg-type]
