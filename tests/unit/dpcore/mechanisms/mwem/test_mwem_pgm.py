"""MWEM+PGM against Algorithm 5 written out on a dense table, and the identity with MWEM of the thesis, section 4.5."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Clique, Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.fitting.fit import FitSettings, fit_model
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.likelihood.losses import SquaredLoss
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.multiplicative_weights.dense import MultiplicativeWeights
from dpcore.kernel import private_statistics as kernel
from dpcore.kernel.budget import Budget
from dpcore.kernel.scores import GRID
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.mwem.mwem_pgm import MwemPgm
from dpcore.queries import Conjunctions, Marginals
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.testing.doubles import NoStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way, conjunctive, explicit, linear
from tests.support.constants import with_constants
from tests.support.mirror_descent import MirrorDescent

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 2, "d": 3})
RANDOM = np.random.default_rng(3)
CELLS = RANDOM.choice(36, size=900, p=RANDOM.dirichlet(np.full(36, 0.7)))
CODES = np.stack(np.unravel_index(CELLS, DOMAIN.sizes), axis=1)
JOINT = np.bincount(CELLS, minlength=36).reshape(DOMAIN.sizes).astype(float)
TABLE = TinyTable(DOMAIN, CODES)
WORKLOAD = all_k_way(DOMAIN, 2)
NO_NOISE = Budget.zcdp(10**9)
PRINTED = with_constants(MwemPgm(rounds=3, profile="published"), prior_scale=1e6)


def run(mechanism: MwemPgm, budget: Budget = NO_NOISE, workload: Workload = WORKLOAD, **options: Any) -> Release:
    private = private_statistics(TABLE, budget, **options)
    return mechanism.run(private, workload, generator=np.random.default_rng(0))


def marginal(joint: NDArray[np.float64], clique: Clique) -> NDArray[np.float64]:
    return joint.sum(axis=tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique))


def joint_of(model: GraphicalModel) -> NDArray[np.float64]:
    return model.answer(Marginals(DOMAIN, (DOMAIN.names,))).reshape(DOMAIN.sizes)


def measured(cliques: list[Clique], noise: float) -> list[Measurement]:
    random = np.random.default_rng(7)
    return [
        Measurement(
            Marginals(DOMAIN, (clique,)),
            marginal(JOINT, clique).ravel() + random.normal(0, noise, DOMAIN.size(clique)),
            Noise.GAUSSIAN,
            noise,
        )
        for clique in cliques
    ]


def fitted_to_exact(cliques: list[Clique]) -> NDArray[np.float64]:
    """Iterative proportional fitting from the uniform table: the entropy is largest among those that fit."""
    joint = np.full(DOMAIN.sizes, JOINT.sum() / 36)
    for _ in range(500):
        for clique in cliques:
            others = tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in clique)
            ratio = marginal(JOINT, clique) / np.maximum(marginal(joint, clique), 1e-12)
            joint = joint * np.expand_dims(ratio, others)
    return joint


def chosen(release: Release) -> list[Clique]:
    return [m.queries.cliques[0] for m in release.measurements if isinstance(m.queries, Marginals)]


@pytest.mark.parametrize("cycle", [False, True])
def test_mwem_iterated_to_convergence_finds_the_same_distribution(cycle: bool) -> None:
    """Thesis, section 4.5: the same measurements and start, the same squared loss, so the same table."""
    cliques: list[Clique] = [("a", "b"), ("b", "c"), ("a", "c")] if cycle else [("a", "b"), ("b", "d")]
    measurements = measured(cliques, 2.0)
    total = float(JOINT.sum())
    weights = MultiplicativeWeights(DOMAIN, np.ones(36), total, 1.0)
    for step in (1.0, 0.1, 0.01):  # Smaller and smaller: with one step the passes end in a circle.
        weights.step = step
        weights.follow(
            [(clique, measurement.values) for clique, measurement in zip(cliques, measurements, strict=True)], 2000
        )
    loss = SquaredLoss(DOMAIN, measurements)
    oracle = Inference(JunctionTree.of(DOMAIN, cliques), loss.queries.cliques)
    estimator = MirrorDescent(iterations=5000, tolerance=1e-12)
    potentials = estimator.estimate(oracle, loss, total, np.zeros(loss.queries.size)).potentials
    model = GraphicalModel(oracle.tree, oracle.conditionals(potentials), total)
    dense = weights.table.reshape(DOMAIN.sizes)
    assert np.abs(joint_of(model) - dense).sum() < 1e-3 * total
    fitting = FitSettings(prior_scale=1e5, tolerance=1e-9, iterations=5000)
    near = fit_model(DOMAIN, measurements, total, fitting).model
    assert np.abs(joint_of(near) - dense).sum() < 3e-3 * total
    assert np.abs(dense - total / 36).sum() > 0.1 * total  # The start is far away.


def test_each_round_selects_the_worst_answered_marginal_less_its_cells() -> None:
    """Algorithm 5 without noise, by hand."""
    release = run(PRINTED)
    model, expected = np.full(DOMAIN.sizes, JOINT.sum() / 36), list[Clique]()
    for _ in range(3):
        cliques = [clique for clique in combinations(DOMAIN.names, 2) if clique not in expected]
        scores = [np.abs(marginal(JOINT - model, clique)).sum() - DOMAIN.size(clique) for clique in cliques]
        expected.append(cliques[int(np.argmax(scores))])
        model = fitted_to_exact(expected)
    assert chosen(release)[-3:] == expected
    assert isinstance(release.model, GraphicalModel)
    assert np.abs(joint_of(release.model) - model).sum() < 5e-3 * JOINT.sum()


@pytest.mark.parametrize(("penalty", "penalty_per_cell"), [("cells", 1.0), ("noise", 4 * np.sqrt(2 / np.pi))])
def test_the_score_and_the_split_are_the_printed_ones(
    penalty: Any, penalty_per_cell: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rho = 1/2, T = 8: sigma = sqrt(T / rho) = 4, and epsilon = 2 sqrt(rho / T) = 1/2."""
    seen = list[tuple[NDArray[np.int64], float]]()

    def first(scores: NDArray[np.int64], currency: object, scale: float) -> int:
        seen.append((scores, scale))
        return 0

    monkeypatch.setattr(kernel, "noisy_argmax", first)
    mechanism = with_constants(MwemPgm(rounds=8), start="uniform", size_penalty=penalty)
    release = run(mechanism, Budget.zcdp(Fraction(1, 2)), units=900)
    assert [measurement.stddev for measurement in release.measurements] == pytest.approx([4.0] * 8)
    distances = [np.abs(marginal(JOINT - 25.0, clique)).sum() for clique in combinations(DOMAIN.names, 2)]
    penalties = [penalty_per_cell * DOMAIN.size(clique) for clique in combinations(DOMAIN.names, 2)]
    assert np.allclose(seen[0][0] / GRID**2, np.array(distances) - penalties, atol=0.05)
    assert seen[0][1] / GRID**2 == pytest.approx(2 / 0.5, rel=1e-3)  # Chances are as exp(epsilon score / 2).


def test_marginals_that_would_pass_the_capacity_are_left_out() -> None:
    limit = 22 / 2**17
    uniform = with_constants(MwemPgm(rounds=6), start="uniform")
    release = run(replace(uniform, max_model_mb=limit))
    assert isinstance(release.model, GraphicalModel)
    assert release.model.tree.cells <= 22
    assert run(uniform).model.tree.cells > 22  # type: ignore[union-attr]
    with pytest.raises(DomainTooLargeError, match="larger max_model_mb"):
        run(MwemPgm(max_model_mb=9 / 2**17))


def test_weights_decide_what_is_measured() -> None:
    cliques = list(combinations(DOMAIN.names, 2))
    for clique in cliques:
        weights = dict.fromkeys(cliques, 1.0) | {clique: 250.0}
        mechanism = with_constants(MwemPgm(rounds=1), start="uniform")
        release = run(mechanism, workload=explicit(DOMAIN, weights))
        assert chosen(release)[-1] == clique


def test_products_are_answered_from_their_marginals() -> None:
    queries = range_marginals(DOMAIN, [("a", "b"), ("b", "d")], {"b": prefix(3)})
    release = run(MwemPgm(rounds=6), workload=linear(queries))
    exact = queries.of_tables(
        [marginal(JOINT, term.clique).ravel().astype(np.int64) for term in queries.terms], 1 << 20
    )
    assert np.allclose(release.answers.values, exact / queries.denominator, atol=2.0)


@pytest.mark.parametrize(
    "mechanism",
    [
        MwemPgm(rounds=0),
        MwemPgm(max_model_mb=0.0),
        MwemPgm(profile="printed"),  # type: ignore[arg-type]
    ],
)
def test_settings_without_a_meaning_are_refused(mechanism: MwemPgm) -> None:
    private = private_statistics(NoStatistics(TABLE.contribution), NO_NOISE)
    with pytest.raises(ConfigError, match="want"):
        mechanism.run(private, WORKLOAD, generator=np.random.default_rng(0))


def test_conjunctions_are_refused() -> None:
    view = BinaryView.one_hot(DOMAIN)
    queries = conjunctive(Conjunctions(view, np.array([[0]]), np.array([[False]])))
    with pytest.raises(ConfigError, match="mwem_pgm answers marginals"):
        MwemPgm().plan(private_statistics(TABLE, NO_NOISE).terms, queries)


def test_only_ratios_of_weights_matter_however_large() -> None:
    heavy = explicit(DOMAIN, {("a", "b"): 1e20, ("c", "d"): 2e20})
    released = MwemPgm(rounds=2).run(private_statistics(TABLE, NO_NOISE), heavy, generator=np.random.default_rng(0))
    assert np.isfinite(released.answers.values).all()
