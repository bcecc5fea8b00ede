"""PrivBayes against a Bayesian network written out as a dense table, and its structure against the scores by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Clique, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.kernel.budget import Budget, Currency
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.bayes import priv_bayes
from dpcore.mechanisms.bayes.priv_bayes import PrivBayes, PrivBayesConstants, PrivBayesPgm, conditional
from dpcore.mechanisms.bayes.structure import Family, Limits, candidates
from dpcore.queries import Conjunctions, Marginals
from dpcore.testing.doubles import REPLACE, NoStatistics, private_statistics
from dpcore.testing.memory import MemoryJournal
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive, explicit
from tests.support.constants import with_constants

DOMAIN = Domain.of({"a": 3, "b": 2, "unused": 2, "c": 3, "d": 2, "e": 4})
NAMES = ("a", "b", "c", "d", "e")
UNITS = 500
WORKLOAD = all_k_way(DOMAIN, 2, NAMES)
NO_NOISE = (Budget.pure(600), Budget.zcdp(10**12), Budget.gdp(10**12))
BOTH = (PrivBayes, PrivBayesPgm)
Kind = type[PrivBayes] | type[PrivBayesPgm]
every_budget = pytest.mark.parametrize("budget", NO_NOISE, ids=lambda budget: budget.currency.name)
both = pytest.mark.parametrize("kind", BOTH, ids=lambda kind: kind.__name__)


def dependent(seed: int) -> NDArray[np.int64]:
    random = np.random.default_rng(seed)
    codes = random.integers(0, DOMAIN.sizes, (UNITS, len(DOMAIN.sizes)))
    for axis in range(1, len(DOMAIN.sizes)):
        other, follows = random.integers(axis), random.random(UNITS) < random.uniform(0.3, 0.9)
        codes[:, axis] = np.where(follows, codes[:, other] % DOMAIN.sizes[axis], codes[:, axis])
    return codes


CODES = dependent(0)
TABLE = TinyTable(DOMAIN, CODES)


def counts(clique: Clique, codes: NDArray[np.int64] = CODES) -> NDArray[np.float64]:
    """Of a clique in the order of the domain."""
    table = np.zeros(DOMAIN.shape(clique))
    np.add.at(table, tuple(codes[:, DOMAIN.index(name)] for name in clique), 1)
    return table


def wide(clique: Clique, table: NDArray[np.float64]) -> NDArray[np.float64]:
    """A table over a clique, in the order of the domain, ready to be multiplied by those over others."""
    return table.reshape([size if name in clique else 1 for name, size in zip(DOMAIN.names, DOMAIN.sizes, strict=True)])


def network_of(families: Sequence[Family], tables: dict[Clique, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Product of p(child | parents) over the domain, by cells; what no family names is uniform."""
    joint = np.full(DOMAIN.sizes, 1.0)
    for name in DOMAIN.names:
        if name not in [family.child for family in families]:
            joint /= DOMAIN.size((name,))
    for family in families:
        clique = DOMAIN.canonical(family.names)
        held = next(one for one in sorted(tables, key=DOMAIN.size) if set(clique) <= set(one))
        table = tables[held].clip(0)
        found = table.sum(axis=tuple(axis for axis, name in enumerate(held) if name not in clique))
        axis = clique.index(family.child)
        for cell in np.ndindex(*[1 if place == axis else size for place, size in enumerate(found.shape)]):
            column = tuple(slice(None) if place == axis else index for place, index in enumerate(cell))
            total = found[column].sum()
            found[column] = found[column] / total if total > 0 else 1 / found.shape[axis]
        joint = joint * wide(clique, found)
    return joint


def measurement(clique: Clique, values: NDArray[np.float64]) -> Measurement:
    return Measurement(Marginals(DOMAIN, (clique,)), values.ravel(), Noise.GAUSSIAN, 3.0)


def dense(model: GraphicalModel) -> NDArray[np.float64]:
    return model.answer(Marginals(DOMAIN, (DOMAIN.names,))).reshape(DOMAIN.sizes)


# c has two parents that nothing else joins: the moral graph has an edge that no family but that one asks for.
FAMILIES = [
    Family("a", ()),
    Family("e", ()),
    Family("c", ("a", "e")),
    Family("b", ("a",)),
    Family("d", ("b", "c")),
]
MEASURED: tuple[Clique, ...] = (("a", "c", "e"), ("a", "b"), ("b", "c", "d"))


@pytest.mark.parametrize("noise", [0.0, 15.0])
def test_its_model_is_the_product_of_clipped_and_normalised_tables(noise: float) -> None:
    random = np.random.default_rng(1)
    tables = {clique: counts(clique) + noise * random.standard_normal(DOMAIN.shape(clique)) for clique in MEASURED}
    if noise:
        tables["a", "b"][1] = [-4.0, -2.0]  # Nothing is left of these.
        tables["a", "b"][0] = [-4.0, 2.0]
    measured = [measurement(clique, table) for clique, table in tables.items()]
    model = PrivBayes()._model(DOMAIN, FAMILIES, measured, 250.0)
    assert np.allclose(dense(model), 250 * network_of(FAMILIES, tables), atol=1e-9)
    assert dense(model).sum() == pytest.approx(250)
    if noise:
        ab = model.answer(Marginals(DOMAIN, (("a", "b"),))).reshape(3, 2)
        assert ab[0, 0] == 0
        assert ab[1, 0] == pytest.approx(ab[1, 1])
    others = [*FAMILIES[:-1], Family("d", ("b",))]
    assert not np.allclose(dense(model), 250 * network_of(others, tables), atol=0.01)


def test_a_family_inside_another_one_is_read_off_its_table() -> None:
    random = np.random.default_rng(2)
    tables = {("a", "b", "c"): random.random((3, 2, 3)), ("b", "c", "d", "e"): random.random((2, 3, 2, 4))}
    found = conditional(DOMAIN, Family("b", ("c",)), tables)
    by_hand = tables["a", "b", "c"].sum(axis=0)
    assert np.allclose(found, by_hand / by_hand.sum(axis=0))


def networks_of(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> list[list[Family]]:
    """Where the network of each later run will be."""
    networks: list[list[Family]] = []
    made: Callable[..., GraphicalModel] = kind._model

    def watched(self: object, domain: Domain, network: list[Family], *args: Any) -> GraphicalModel:
        networks.append(list(network))
        return made(self, domain, network, *args)

    monkeypatch.setattr(kind, "_model", watched)
    return networks


@both
@every_budget
@pytest.mark.parametrize("options", [{}, {"units": UNITS}, {"neighbours": REPLACE, "units": UNITS}])
def test_without_noise_it_is_the_greedy_network_of_the_data(
    kind: Kind, budget: Budget, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The structure maximises n R round by round, and the model is that network of the exact tables."""
    networks = networks_of(kind, monkeypatch)
    private = private_statistics(TABLE, budget, **options)
    release = kind(usefulness=1e-9, max_parents=2).run(private, WORKLOAD, generator=np.random.default_rng(3))
    (network,) = networks
    assert network[0] == Family(NAMES[np.random.default_rng(3).integers(5)], ())
    loosely = 1.0 if budget.currency is Currency.PURE else 0.01
    for done in range(1, 5):
        choices = [r_score(family) for family in candidates(DOMAIN, network[:done], NAMES, Limits(1e9, 2, 1 << 40))]
        assert max(choices) - loosely <= r_score(network[done]) <= max(choices) + 1e-9
        assert min(choices) < max(choices) - 1.0
    assert isinstance(release.model, GraphicalModel)
    exact = {clique: counts(clique) for clique in (DOMAIN.canonical(family.names) for family in network)}
    limit = 0.3 if kind is PrivBayesPgm else 0.02
    assert np.abs(dense(release.model) - UNITS * network_of(network, exact)).max() < limit
    assert release.model.total == pytest.approx(UNITS, abs=0.01)


def r_score(family: Family) -> float:
    """n R of the data: half the L1 distance of the family's table from independence of child and parents."""
    clique = DOMAIN.canonical(family.names)
    table, axis = counts(clique), clique.index(family.child)
    others = tuple(place for place in range(len(clique)) if place != axis)
    product = table.sum(axis=axis, keepdims=True) * table.sum(axis=others, keepdims=True) / UNITS
    return float(np.abs(table - product).sum() / 2)


@pytest.mark.parametrize(("score", "second"), [("r", "d"), ("mutual_information", "c")])
def test_the_score_is_that_of_the_constants(score: Any, second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """c tells a rare value of a for certain: 0.20 nats, R 0.10. d tells a frequent one by and large: 0.03 and 0.12."""
    random = np.random.default_rng(0)
    codes = np.zeros((2000, 6), dtype=np.int64)
    codes[:, 0] = random.choice(3, 2000, p=[0.475, 0.475, 0.05])
    codes[:, 3] = codes[:, 0] == 2
    codes[:, 4] = (codes[:, 0] == 1) ^ (random.random(2000) < 0.38)
    networks = networks_of(PrivBayes, monkeypatch)
    private = private_statistics(TinyTable(DOMAIN, codes), NO_NOISE[1])
    workload = all_k_way(DOMAIN, 2, ["a", "c", "d"])
    seed = next(seed for seed in range(100) if np.random.default_rng(seed).integers(3) == 0)
    mechanism = with_constants(PrivBayes(usefulness=1e-9, max_parents=1), score=score)
    mechanism.run(private, workload, generator=np.random.default_rng(seed))
    assert [family.child for family in networks[0][:2]] == ["a", second]


def test_both_measure_the_same_and_only_the_model_differs() -> None:
    """One journal serves both. The fitted model agrees better with what was measured, over a few runs."""
    misfits = [0.0, 0.0]
    for _ in range(8):
        journal = MemoryJournal()
        for place, kind in enumerate(BOTH):
            private = private_statistics(TABLE, Budget.zcdp(Fraction(1, 5)), journal=journal)
            release = kind(usefulness=0.5).run(private, WORKLOAD, generator=np.random.default_rng(1))
            assert isinstance(release.model, GraphicalModel)
            misfits[place] += sum(
                float(((release.model.answer(one.queries) - one.values) ** 2).sum()) / one.stddev**2
                for one in release.measurements[1:]
                if isinstance(one.queries, Marginals)
            )
        assert len(journal.answers) == len(private.charges)
    assert misfits[1] < 0.9 * misfits[0]


@both
def test_one_half_selects_and_the_other_one_measures(kind: Kind) -> None:
    private = private_statistics(TABLE, Budget.gdp(1))
    release = kind(usefulness=0.01).run(private, WORKLOAD, generator=np.random.default_rng(0))
    amounts: dict[str, list[float]] = {"measure": [], "select": []}
    for charge in private.charges:
        amounts[charge.label.split()[0]].append(float(charge.amount))
    rows, *families = amounts["measure"]
    assert rows == pytest.approx(0.02)
    # The second attribute has one parent for want of others, but four attributes to choose from: every round selects,
    # but the last one, where a single family holds all the others.
    assert amounts["select"] == pytest.approx([0.49 / 4] * 3)
    assert families == pytest.approx([(0.49 + 0.49 / 4) / len(families)] * len(families))
    assert len(families) == len(release.measurements) - 1


def test_no_family_lies_in_another_one_that_is_measured() -> None:
    private = private_statistics(TABLE, NO_NOISE[2], units=UNITS)
    release = PrivBayes(usefulness=1e-6).run(private, WORKLOAD, generator=np.random.default_rng(0))
    assert [one.queries for one in release.measurements] == [Marginals(DOMAIN, (NAMES,))]


@pytest.mark.parametrize(
    ("budget", "mean"), [(Budget.pure(4), 1 / math.sinh(0.4)), (Budget.zcdp(2), math.sqrt(2.5 * 2 / math.pi))]
)
def test_families_are_as_large_as_is_useful(budget: Budget, mean: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 rows; half of the budget on five tables is noise of scale 5 / 2, or sigma (5 / 2)^(1/2), in each cell."""
    given: list[Limits] = []

    def watched(domain: Domain, network: list[Family], names: Clique, limits: Limits) -> list[Family]:
        given.append(limits)
        return candidates(domain, network, names, limits)

    monkeypatch.setattr(priv_bayes, "candidates", watched)
    private = private_statistics(TABLE, budget, units=UNITS)
    mechanism = PrivBayes(usefulness=20.0)
    mechanism.run(private, WORKLOAD, generator=np.random.default_rng(0))
    most = 500 / (20 * mean)
    assert [limits.cells for limits in given] == pytest.approx([most] * 4)
    assert mechanism.plan(private.terms, WORKLOAD).notes[1] == f"families of at most {most:.0f} cells are useful"


@both
@pytest.mark.parametrize("cliques", [[("c",)], [()]])
def test_one_attribute_takes_the_whole_budget(kind: Kind, cliques: list[Clique]) -> None:
    private = private_statistics(TABLE, Budget.pure(40))
    workload = explicit(DOMAIN, dict.fromkeys(cliques, 1.0))
    release = kind().run(private, workload, generator=np.random.default_rng(0))
    assert [float(charge.amount) for charge in private.charges] == pytest.approx([40])
    assert release.answers.values.sum() == pytest.approx(UNITS, abs=1)


def test_the_first_attribute_is_random() -> None:
    """With no useful pair every network is a list of attributes, in the order in which they came."""
    firsts = set()
    for seed in range(30):
        private = private_statistics(TABLE, Budget.zcdp(1), units=UNITS)
        mechanism = PrivBayes(usefulness=1e9)
        release = mechanism.run(private, WORKLOAD, generator=np.random.default_rng(seed))
        assert all(len(one.queries.cliques[0]) == 1 for one in release.measurements)  # type: ignore[union-attr]
        firsts.add(release.measurements[0].queries.cliques[0])  # type: ignore[union-attr]
    assert firsts == {(name,) for name in NAMES}


@pytest.mark.parametrize("kind", BOTH)
def test_the_model_keeps_its_limit(kind: Kind) -> None:
    for seed in range(5):
        private = private_statistics(TABLE, Budget.zcdp(100), units=UNITS)
        mechanism = kind(usefulness=1e-3, max_model_mb=60 / 2**17)
        release = mechanism.run(private, WORKLOAD, generator=np.random.default_rng(seed))
        assert isinstance(release.model, GraphicalModel)
        assert release.model.tree.cells <= 60


def test_the_constants_leave_a_share_for_the_tables() -> None:
    constants = PrivBayesConstants()
    assert 0 < constants.total_share < 1
    assert 0 < constants.structure_share < 1


REFUSED: dict[str, tuple[dict[str, Any], Workload, str]] = {
    "no usefulness": ({"usefulness": 0.0}, WORKLOAD, "mechanism.usefulness 0, max_parents 5; want"),
    "no parents": ({"max_parents": -1}, WORKLOAD, "max_parents -1; want"),
    "no model": ({"max_model_mb": -1.0}, WORKLOAD, "mechanism.max_model_mb is -1; want"),
    "baskets": (
        {},
        conjunctive(Conjunctions.single_columns(BinaryView(5))),
        "mechanism priv_bayes(_pgm)? answers marginals, .* want workload.marginals",
    ),
}


@both
@pytest.mark.parametrize(("settings", "workload", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_before_anything_is_measured(
    kind: Kind, settings: dict[str, Any], workload: Workload, message: str
) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), Budget.zcdp(1))
    run = partial(kind(**settings).run, private, workload, generator=np.random.default_rng(0))
    with pytest.raises(ConfigError, match=message):
        run()
    assert private.charges == ()
