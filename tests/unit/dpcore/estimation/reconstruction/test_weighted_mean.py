"""The weighted mean of estimates: exact without noise, consistent, and nearer to the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting.fit import fit_model
from dpcore.estimation.graphical.fitting.work import WorkMeter
from dpcore.estimation.reconstruction import weighted_mean as module
from dpcore.estimation.reconstruction.bounded_model import bounded_nodes
from dpcore.estimation.reconstruction.latent_classes import LatentClassModel, reads_of_fit
from dpcore.estimation.reconstruction.nonnegative import nonnegative_consistent
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.estimation.reconstruction.shrunken import shrunken_answers
from dpcore.estimation.reconstruction.thinning import thinned
from dpcore.estimation.reconstruction.weighted_mean import max_splits, mean_weights, squared_distance, weighted_mean
from dpcore.kernel.budget import Budget
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.queries import Marginals, Products
from dpcore.testing.doubles import NoStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload
from tests.unit.dpcore.estimation.reconstruction.test_latent_classes import of_classes
from tests.unit.dpcore.estimation.reconstruction.test_nonnegative import disagreement
from tests.unit.dpcore.estimation.reconstruction.test_shrunken import (
    BITS,
    MIXED,
    ROWS,
    chained,
    error,
    exact,
    independent,
    queries_of,
)
from tests.unit.dpcore.estimation.reconstruction.test_shrunken import measured as measured_residuals

Real = NDArray[np.float64]
PRECISE, NOISY = 0.01, 80.0  # Noise of a residual of the largest weight, in counts.


def measured(codes: NDArray[np.int64], queries: Marginals, stddev: float, runs: int) -> list[Measurement]:
    """The residuals of all subsets of the marginals, with the weights of a mechanism and noise of each run."""
    terms = private_statistics(NoStatistics(TinyTable(queries.domain, codes).contribution), Budget.gdp(1)).terms
    design = MeasuredResiduals.of(terms, Workload(queries, np.ones(len(queries.cliques))))
    assert design is not None
    asked, generator = design.queries, np.random.default_rng(1)
    tables = [exact(codes, Marginals(queries.domain, (term.clique,))).astype(np.int64) for term in asked.terms]
    answers = asked.of_tables(tables, ROWS) / asked.denominator
    scale = stddev * max(term.weight for term in asked.terms) / asked.denominator
    noises = generator.normal(0, scale, (runs, asked.size))
    return [Measurement(asked, answers + noise, Noise.GAUSSIAN, scale) for noise in noises]


def both(
    values: Measurement,
    queries: Marginals,
    max_cells: float = np.inf,
    classes: tuple[int, ...] = (),
    limit: float = np.inf,
    dispersions: tuple[float, ...] = (),
) -> tuple[Real, Real]:
    """The shrunken answers, and their mean with the nearest non-negative ones and those of the models."""
    shrunken = shrunken_answers(Residuals([values]), queries)
    weights = dict.fromkeys(queries.cliques, 1.0)
    mean = weighted_mean(
        shrunken, [values], queries, weights, total=None, max_cells=max_cells, classes=classes,
        dispersions=dispersions, generator=np.random.default_rng(3), meter=WorkMeter(limit),
    )  # fmt: skip
    return shrunken, mean


def nearest_answers(values: Measurement, queries: Marginals, rows: float) -> Real:
    """The nearest non-negative answers, from their definition."""
    residuals = Residuals([values])
    stddevs = np.concatenate([np.sqrt(residuals.variances(clique)).ravel() for clique in queries.cliques])
    return nonnegative_consistent(queries, residuals.answers(queries).values, stddevs, rows, module._NEAREST)


@pytest.mark.parametrize("max_cells", [np.inf, 60, 0])
@pytest.mark.parametrize(("domain", "order"), [(BITS, 1), (BITS, 2), (BITS, 3), (MIXED, 2), (MIXED, 3)])
def test_with_little_noise_it_has_the_tables(domain: Domain, order: int, max_cells: float) -> None:
    """Where the model cannot hold them, it gets no weight."""
    codes, queries = chained(domain), queries_of(domain, order)
    _, mean = both(measured(codes, queries, PRECISE, 1)[0], queries, max_cells)
    assert error(mean, exact(codes, queries)) < 2.0


def test_marginals_of_any_order_and_the_number_of_rows_are_consistent_and_not_negative() -> None:
    queries = Marginals(MIXED, ((), ("a",), ("c", "a"), ("d", "a", "b"), ("d", "c"), ("a",)))
    shrunken, mean = both(measured(chained(MIXED), queries_of(MIXED, 4), NOISY, 1)[0], queries)
    assert mean.min() >= 0
    assert disagreement(queries, mean) < 1e-6 * ROWS
    assert mean[0] == pytest.approx(shrunken[0])
    assert not np.allclose(mean, shrunken)


@pytest.mark.parametrize(
    ("make", "max_cells", "ratio"),
    [(independent, np.inf, 0.97), (chained, np.inf, 0.97), (independent, 60, 1.0), (chained, 60, 1.0)],
)
def test_much_noise_leaves_it_nearer_to_the_truth_than_shrinking_alone(
    make: Callable[[Domain], NDArray[np.int64]], max_cells: float, ratio: float
) -> None:
    codes, queries = make(BITS), queries_of(BITS, 3)
    truth = exact(codes, queries)
    pairs = [both(values, queries, max_cells) for values in measured(codes, queries, NOISY, 10)]
    shrunken, mean = (np.mean([error(values, truth) for values in of_kind]) for of_kind in zip(*pairs, strict=True))
    assert mean < ratio * shrunken


def test_a_model_of_a_part_has_the_residuals_inside_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, queries = chained(BITS), queries_of(BITS, 3)
    fits = []

    def watched(domain: Domain, measurements: list[Measurement], *rest: object, **settings: object) -> object:
        fits.append((measurements, settings["cliques"]))
        return fit_model(domain, measurements, *rest, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "fit_model", watched)
    shrunken, _ = both(measured(codes, queries, NOISY, 1)[0], queries, 40)
    nodes = bounded_nodes(queries, shrunken, dict.fromkeys(queries.cliques, 1.0), 40)
    assert sum(2 ** len(node) for node in nodes) <= 40
    (first,), given = fits[0]
    assert given == nodes
    assert isinstance(first.queries, Products)
    inside = {term.clique for term in first.queries.terms}
    assert all(any(set(part) <= set(node) for node in nodes) for part in inside)
    assert inside > {(name,) for name in BITS.names}
    assert 2 <= len(fits) <= 1 + max_splits(queries)


def test_weights_are_learnt_again_until_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, queries = chained(BITS), queries_of(BITS, 3)
    stddevs = iter([0.5, 0.3, 0.05, 0.01])
    weights = iter(np.array([[0.7, 0.2, 0.1], [0.8, 0.0, 0.2], [0.0, 0.4, 0.6], [0.1, 0.0, 0.9]]))
    monkeypatch.setattr(module, "mean_weights", lambda *_: (next(weights), next(stddevs)))
    (values,) = measured(codes, queries, NOISY, 1)
    shrunken, mean = both(values, queries)
    assert next(stddevs) == 0.01
    rows = float(shrunken[:8].sum())
    nearest = nearest_answers(values, queries, rows)
    model = fit_model(queries.domain, [values], rows, module._SETTINGS).model
    wanted = 0.5 * shrunken + 0.2 * nearest + 0.3 * model.answer(queries)
    np.testing.assert_allclose(mean, wanted, rtol=1e-6, atol=1e-3)


def test_without_a_model_nothing_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, queries = chained(BITS), queries_of(BITS, 3)
    (values,) = measured(codes, queries, NOISY, 1)
    monkeypatch.setattr(module, "fit_model", None)
    monkeypatch.setattr(module, "mean_weights", lambda estimates, *_: (np.eye(len(estimates))[-1], 0.0))
    shrunken, mean = both(values, queries, 0)
    nearest = nearest_answers(values, queries, float(shrunken[:8].sum()))
    np.testing.assert_allclose(mean, nearest, rtol=1e-6, atol=1e-3)


def test_a_latent_class_model_is_one_more_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, queries = of_classes(BITS, 3), queries_of(BITS, 3)
    (values,) = measured(codes, queries, NOISY, 1)
    counts = []

    def last(estimates: list[Real], *_: object) -> tuple[Real, float]:
        counts.append(len(estimates))
        return np.eye(len(estimates))[-1], 0.0

    monkeypatch.setattr(module, "mean_weights", last)
    shrunken, mean = both(values, queries, 0, classes=(32,))
    rows = float(shrunken[:8].sum())
    generator = np.random.default_rng(3)
    (seed,) = generator.integers(1 << 62, size=1)
    training, _ = thinned([values], generator)
    rows_of_split = float(shrunken_answers(Residuals(training), queries)[:8].sum())
    model = None
    for residuals, of_fit in ((Residuals(training), rows_of_split), (Residuals([values]), rows)):
        start = np.random.default_rng(seed)
        model = LatentClassModel.fitted(residuals, queries, of_fit, 32, start, WorkMeter(), model)
    assert model is not None
    np.testing.assert_allclose(mean, model.answers(queries, rows))
    _, mean = both(values, queries, 60, classes=(32,))
    np.testing.assert_allclose(mean, model.answers(queries, rows))
    both(values, queries, 0)
    both(values, queries, 0, classes=(2, 5))
    assert counts == [3, 4, 2, 4]


def test_estimates_of_a_split_know_nothing_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each split starts from drawn models; only the last fits go on, from the models of the last split."""
    starts: list[LatentClassModel | None] = []
    fitted: list[LatentClassModel] = []
    fit = LatentClassModel.fitted

    def watched(*settings: Any) -> LatentClassModel:
        starts.append(settings[-1])
        fitted.append(fit(*settings))
        return fitted[-1]

    monkeypatch.setattr(LatentClassModel, "fitted", watched)
    monkeypatch.setattr(module, "mean_weights", lambda estimates, *_: (np.eye(len(estimates))[0], 1.0))
    queries = queries_of(BITS, 2)
    both(measured(of_classes(BITS, 3), queries, NOISY, 1)[0], queries, 0, classes=(2, 5))
    splits = max_splits(queries)
    assert starts[:-2] == [None] * (2 * splits)
    assert starts[-2:] == fitted[-4:-2]
    assert [model.table.shape[1] for model in fitted] == [2, 5] * (splits + 1)


def test_work_that_runs_out_hurts_little() -> None:
    """Fits for splits and those of all values get equal parts, so that the weights suit the last models."""
    queries = queries_of(BITS, 3)
    codes = of_classes(BITS, 3)
    truth, (values,) = exact(codes, queries), measured(codes, queries, NOISY, 1)
    fits = sum(reads_of_fit(queries, number) for number in (16, 64))
    for part in (0.0, 0.1, 1.0, 2.0, 3.0):
        shrunken, mean = both(values, queries, 0, classes=(16, 64), limit=part * fits)
        assert error(mean, truth) < 1.1 * error(shrunken, truth)


def test_it_lowers_the_error_where_there_are_a_few_classes() -> None:
    domain = Domain(tuple("abcdefghij"), (2,) * 10)
    codes, queries = of_classes(domain, 3), queries_of(domain, 3)
    truth, several = exact(codes, queries), measured(codes, queries, NOISY, 3)
    without = np.mean([error(both(values, queries, 0)[1], truth) for values in several])
    assert np.mean([error(both(values, queries, 0, classes=(32,))[1], truth) for values in several]) < 0.9 * without


class TestWeights:
    """``ours`` and ``theirs`` lie on a line through the truth, at these distances from it."""

    QUERIES = queries_of(BITS, 3)
    WEIGHTS = dict.fromkeys(QUERIES.cliques, 1.0)

    def weight(self, ours: float, theirs: float, stddev: float = 1.0) -> float:
        """Of theirs."""
        codes = chained(BITS)
        truth = exact(codes, self.QUERIES)
        step = exact(independent(BITS, seed=5), self.QUERIES) - truth
        held_out = measured_residuals(codes, self.QUERIES, stddev)
        estimates = truth + ours * step, truth + theirs * step
        weights, _ = mean_weights(estimates, held_out, self.QUERIES, self.WEIGHTS)
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1)
        return float(weights[1])

    @pytest.mark.parametrize(
        ("ours", "theirs", "wanted"),
        [(0.0, 1.0, 0.0), (1.0, 0.0, 1.0), (-1.0, 1.0, 0.5), (-1.0, 3.0, 0.25), (1.0, 2.0, 0.0), (2.0, 1.0, 1.0)],
    )
    def test_they_are_those_of_the_nearest_mean(self, ours: float, theirs: float, wanted: float) -> None:
        assert self.weight(ours, theirs) == pytest.approx(wanted, abs=0.01)

    def test_noise_that_hides_the_difference_leaves_the_expected_weight(self) -> None:
        assert self.weight(0.0, 1e-3, stddev=1e4) == pytest.approx(1 / 3, abs=0.01)

    @pytest.mark.parametrize("stddev", [30.0, 300.0])
    def test_their_deviation_is_that_of_many_splits(self, stddev: float) -> None:
        """Of the posterior mean, which is shrunk, and which is cut at 0 and 1 hardly ever at this noise."""
        truth = exact(chained(BITS), self.QUERIES)
        step = exact(independent(BITS, seed=5), self.QUERIES) - truth
        found = []
        for noise in np.random.default_rng(6).normal(0, stddev, (60, truth.size)):
            held_out = Residuals.of_marginals([Measurement(self.QUERIES, truth + noise, Noise.GAUSSIAN, stddev)])
            weights, deviation = mean_weights((truth - step, truth + step), held_out, self.QUERIES, self.WEIGHTS)
            found.append((weights[1], deviation))
        values, deviations = np.array(found).T
        assert deviations == pytest.approx(deviations[0])
        # A weight of variance v becomes a posterior mean of variance v (s / (s + v))^2, and of posterior variance
        # s v / (s + v), where s is the prior variance.
        shrinking = 1 - deviations[0] ** 2 / module._PRIOR_STDDEV**2
        assert values.std() == pytest.approx(deviations[0] * shrinking**0.5, rel=0.2)

    def test_of_two_equal_estimates_the_first_is_taken(self) -> None:
        assert self.weight(1.0, 1.0) == 0.0

    def test_of_two_they_minimise_the_weighted_squares(self) -> None:
        """Against a search over all weights, with marginals of different weights and sizes."""
        queries, of_clique, truth, steps, held_out = self.mixed()
        estimates = [truth + 0.2 * steps[0], truth - 0.1 * steps[0] + 0.1 * steps[1]]
        grid = [np.array([1 - weight, weight]) for weight in np.linspace(0, 1, 10_001)]
        squares = [self.squares(weights, estimates, queries, of_clique, truth) for weights in grid]
        found, _ = mean_weights(estimates, held_out, queries, of_clique)
        assert found == pytest.approx(grid[int(np.argmin(squares))], abs=1e-3)
        assert 0.05 < found[1] < 0.95

    def test_of_three_they_minimise_the_weighted_squares(self) -> None:
        queries, of_clique, truth, steps, held_out = self.mixed()
        mixed = zip((0.3, -0.2, -0.1), steps, strict=True)
        estimates = [truth + offset * steps[0] + 0.1 * step for offset, step in mixed]
        best = minimize(
            lambda free: self.squares(np.array([1 - free.sum(), *free]), estimates, queries, of_clique, truth),
            [0.3, 0.3], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9, "maxiter": 2_000},
        ).x  # fmt: skip
        found, _ = mean_weights(estimates, held_out, queries, of_clique)
        assert min(1 - best.sum(), *best) > 0.05  # Between all three.
        assert found == pytest.approx([1 - best.sum(), *best], abs=1e-3)

    @pytest.mark.parametrize("offsets", [(0.2, -0.1, 0.0), (0.2, 0.1, 0.4)])
    def test_some_weights_are_zero_where_the_best_would_be_negative(self, offsets: tuple[float, float, float]) -> None:
        """The most probable weights on the edge; their distance is close to the least one there, from a grid."""
        queries, of_clique, truth, steps, held_out = self.mixed()
        estimates = [truth + offset * steps[0] + 0.1 * step for offset, step in zip(offsets, steps, strict=True)]
        grid = [np.array([1 - x - y, x, y]) for x in np.linspace(0, 1, 101) for y in np.linspace(0, 1 - x, 101)]
        least = min(self.squares(weights, estimates, queries, of_clique, truth) for weights in grid)
        found, _ = mean_weights(estimates, held_out, queries, of_clique)
        assert found.min() == 0
        assert self.squares(found, estimates, queries, of_clique, truth) < 1.01 * least

    @staticmethod
    def squares(
        weights: Real, estimates: list[Real], queries: Marginals, of_clique: dict[tuple[str, ...], float], truth: Real
    ) -> float:
        each = np.repeat([of_clique[clique] for clique in queries.cliques], queries.sizes)
        return float(each @ (weights @ np.stack(estimates) - truth) ** 2)

    @staticmethod
    def mixed() -> tuple[Marginals, dict[tuple[str, ...], float], Real, list[Real], Residuals]:
        """Marginals, their weights, exact answers, directions from these, and held-out values with little noise."""
        generator = np.random.default_rng(4)
        codes, queries = chained(MIXED), Marginals(MIXED, (("a", "c"), ("d", "c"), ("a", "b", "d"), ("c",)))
        of_clique = dict(zip(queries.cliques, (5.0, 1.0, 2.0, 0.5), strict=True))
        truth, asked = exact(codes, queries), queries_of(MIXED, 4)
        steps = [exact(independent(MIXED, seed), queries) - truth for seed in (7, 8, 9)]
        noisy = exact(codes, asked) + generator.normal(0, 0.01, asked.size)
        return (
            queries,
            of_clique,
            truth,
            steps,
            Residuals.of_marginals([Measurement(asked, noisy, Noise.GAUSSIAN, 0.01)]),
        )


def test_a_squared_distance_is_that_of_the_answers_up_to_what_is_held_out() -> None:
    """Differences of squared distances are those from the held-out answers themselves."""
    codes, queries = chained(MIXED), queries_of(MIXED, 2)
    (values,) = measured(codes, queries, NOISY, 1)
    held_out, weights = Residuals([values]), dict.fromkeys(queries.cliques, 1.0)
    generator = np.random.default_rng(5)
    estimates = [exact(codes[generator.integers(0, ROWS, ROWS)], queries) for _ in range(2)]
    unbiased = held_out.answers(queries).values
    found = [squared_distance(estimate, held_out, queries, weights) for estimate in estimates]
    wanted = [float(((estimate - unbiased) ** 2).sum()) for estimate in estimates]
    assert found[0] - found[1] == pytest.approx(wanted[0] - wanted[1], rel=1e-6)
