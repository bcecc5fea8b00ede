"""FEM and sepFEM: whom the query player asks for, what the perturbations separate, and that both learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.record_model import RecordModel
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.log_weights import LogWeights
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.query_game import fem, sep_fem
from dpcore.mechanisms.query_game.fem import Fem
from dpcore.mechanisms.query_game.primal_loop import PerturbationLaw
from dpcore.mechanisms.query_game.sep_fem import SepFem
from dpcore.queries import Conjunctions, CountingQueries
from dpcore.queries.generation import all_parities
from dpcore.testing.doubles import REPLACE, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive
from tests.support.constants import with_constants

DOMAIN = Domain.of({"a": 3, "b": 2, "c": 4})
CODES = np.random.default_rng(0).integers(0, (1, 2, 2), (400, 3))  # Corner of the domain: far from uniform.
TRUTH = TinyTable(DOMAIN, CODES)
WORKLOAD = all_k_way(DOMAIN, 2)
SMALL = budget_of(1.0, 1e-6, Currency.ZCDP)


@dataclass
class Calls:
    """Every call of ``sample``, with what it drew."""

    tilts: list[LogWeights] = field(default_factory=list)
    slopes: list[Fraction] = field(default_factory=list)
    drawn: list[int] = field(default_factory=list)


def watched(private: PrivateStatistics, monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls, sample = Calls(), PrivateStatistics.sample

    def watch(
        self: PrivateStatistics, queries: CountingQueries, slope: Fraction, tilt: LogWeights, total: int, size: int
    ) -> NDArray[np.int64]:
        assert size == 1
        calls.tilts.append(tilt)
        calls.slopes.append(slope)
        calls.drawn += sample(self, queries, slope, tilt, total, size).tolist()
        return np.array(calls.drawn[-1:], dtype=np.int64)

    monkeypatch.setattr(PrivateStatistics, "sample", watch)
    return calls


def exact(workload: Workload) -> NDArray[np.float64]:
    request = type("Request", (), {"queries": workload.queries})()
    return TRUTH.aggregate(request) / len(CODES)


@pytest.mark.parametrize("compared", ["round", "all"])
def test_log_weights_are_slope_times_what_each_query_misses(compared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For queries and complements alike slope * (q(D) - q(D_t)), up to one constant."""
    private = private_statistics(TRUTH, SMALL, neighbours=REPLACE, units=400)
    calls = watched(private, monkeypatch)
    mechanism = with_constants(Fem(rounds=4, records=8), burn_in=0.0, compared=compared)
    release = mechanism.run(private, WORKLOAD, generator=np.random.default_rng(0))
    truth, records = exact(WORKLOAD), np.unpackbits(release.model.records, axis=1, count=9)  # type: ignore[union-attr]
    rounds = records.reshape(4, 8, 9)
    for t, (tilt, slope) in enumerate(zip(calls.tilts, calls.slopes, strict=True), start=1):
        seen = rounds[0 if compared == "all" else t - 1 : t].reshape(-1, 9).astype(np.bool_)
        model = RecordModel.of_rows(BinaryView.one_hot(DOMAIN), seen, 1.0)
        missing = truth - model.answer(WORKLOAD.queries)
        found = float(slope) * np.concatenate([truth, 1 - truth]) + tilt.log_weights()
        wanted = float(slope) * np.concatenate([missing, -missing])
        assert np.allclose(found - found[0], wanted - wanted[0])
    assert len(calls.tilts) == 3  # No selection after the last round.


@pytest.mark.parametrize("mechanism", [Fem(rounds=60, records=20), SepFem(rounds=60, records=20)], ids=repr)
@pytest.mark.parametrize("start", ["uniform", "marginals"])
def test_with_much_budget_it_learns(mechanism: Fem | SepFem, start: str) -> None:
    mechanism = with_constants(mechanism, start=start)
    private = private_statistics(TRUTH, budget_of(300.0, 1e-6, Currency.ZCDP), neighbours=REPLACE, units=400)
    release = mechanism.run(private, WORKLOAD, generator=np.random.default_rng(0))
    errors = np.abs(release.answers.values / 400 - exact(WORKLOAD))
    assert errors.max() < 0.08  # Uniform records: 0.3 and more.
    assert private.remaining_share < Fraction(1, 2**30)


def test_one_seed_gives_one_release_and_the_first_query_is_random() -> None:
    def run(seed: int) -> NDArray[np.float64]:
        private = private_statistics(TRUTH, SMALL, neighbours=REPLACE, units=400)
        mechanism = with_constants(Fem(rounds=2, records=3, profile="published"), burn_in=0.5, exponential_scale=0.01)
        return mechanism.run(private, WORKLOAD, generator=np.random.default_rng(seed)).answers.values

    assert len({run(seed).tobytes() for seed in range(8)}) > 1


@pytest.mark.parametrize("law", [fem.LAW, sep_fem.LAW], ids=["fem", "sep_fem"])
def test_every_column_is_perturbed(law: PerturbationLaw) -> None:
    view = BinaryView(7)
    drawn = law.perturb(law.offsets(view, np.full(7, 0.5)), 3.0, 100, np.random.default_rng(0))
    assert all(np.unique(drawn[:, column]).size > 50 for column in range(7))
    assert np.abs(np.corrcoef(drawn.T) - np.eye(7)).max() < 0.5


def test_the_separator_sets_separate_and_perturb_every_class_alike() -> None:
    """Parities of single columns, with negated weights, prefer the same records as literals of single columns."""
    view = BinaryView(4)
    records = np.array(list(product((False, True), repeat=4)))
    weights = np.random.default_rng(0).laplace(size=4)
    preferred = []
    for queries, signed in ((Conjunctions.single_columns(view), weights), (all_parities(view, 1), -weights)):
        values = np.array([RecordModel.of_rows(view, row[None], 1.0).answer(queries) for row in records])
        assert len({tuple(row) for row in values.tolist()}) == len(records)
        preferred.append(np.argsort(values @ signed).tolist())
    assert preferred[0] == preferred[1]


def test_burn_in_drops_the_first_rounds() -> None:
    private = private_statistics(TRUTH, SMALL, neighbours=REPLACE, units=400)
    release = with_constants(Fem(rounds=10, records=3), burn_in=0.35).run(
        private, WORKLOAD, generator=np.random.default_rng(0)
    )
    assert len(release.model.records) == 3 * 7  # type: ignore[union-attr]


def test_weights_multiply_the_chances_of_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    private = private_statistics(TRUTH, SMALL, neighbours=REPLACE, units=400)
    calls = watched(private, monkeypatch)
    weighted = Workload(WORKLOAD.queries, np.array([1.0, 4.0, 9.0]))
    Fem(rounds=3, records=3).run(private, weighted, generator=np.random.default_rng(0))
    prior = calls.tilts[0].prior
    assert prior is not None
    assert np.allclose(prior, np.log(np.repeat([1.0, 4.0, 9.0], WORKLOAD.queries.sizes)))  # type: ignore[union-attr]


@pytest.mark.parametrize("settings", [{"rounds": 1}, {"rounds": 0}, {"records": 0}])
@pytest.mark.parametrize("mechanism", [Fem, SepFem])
def test_settings_without_a_meaning_are_refused(mechanism: type[Fem | SepFem], settings: dict[str, int]) -> None:
    private = private_statistics(TRUTH, SMALL, neighbours=REPLACE, units=400)
    with pytest.raises(ConfigError, match="want"):
        mechanism(**settings).plan(private.terms, WORKLOAD)  # type: ignore[arg-type]


def test_parities_and_conjunctions_are_played_alike() -> None:
    view = BinaryView.one_hot(DOMAIN)
    for workload in (conjunctive(all_parities(view, 2)), WORKLOAD):
        private = private_statistics(TRUTH, SMALL, neighbours=REPLACE, units=400)
        generator: Generator = np.random.default_rng(0)
        release = SepFem(rounds=5, records=4).run(private, workload, generator=generator)
        assert release.answers.values.shape == (workload.queries.size,)
        assert ((release.answers.values >= 0) & (release.answers.values <= 400)).all()
