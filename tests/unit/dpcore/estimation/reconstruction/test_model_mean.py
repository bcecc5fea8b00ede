"""The weighted mean of shrunken residuals and a model: exact without noise, consistent, and nearer to the truth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.fitting.fit import fit_model
from dpcore.estimation.graphical.fitting.work import WorkMeter
from dpcore.estimation.reconstruction import model_mean as module
from dpcore.estimation.reconstruction.bounded_model import bounded_nodes
from dpcore.estimation.reconstruction.model_mean import max_splits, mean_with_model, model_weight
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.estimation.reconstruction.shrunken import shrunken_answers
from dpcore.kernel.budget import Budget
from dpcore.measurement import Measurement, Noise
from dpcore.mechanisms.shared.measured_residuals import MeasuredResiduals
from dpcore.queries import Marginals, Products
from dpcore.testing.doubles import NoStatistics, private_statistics
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload
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


def both(values: Measurement, queries: Marginals, max_cells: float | None = None) -> tuple[Real, Real]:
    """The shrunken answers, and their mean with the model."""
    shrunken = shrunken_answers(Residuals([values]), queries)
    weights = dict.fromkeys(queries.cliques, 1.0)
    mean = mean_with_model(
        shrunken, [values], queries, weights, total=None, max_cells=max_cells, generator=np.random.default_rng(3),
        meter=WorkMeter(),
    )  # fmt: skip
    return shrunken, mean


@pytest.mark.parametrize("max_cells", [None, 60])
@pytest.mark.parametrize(("domain", "order"), [(BITS, 1), (BITS, 2), (BITS, 3), (MIXED, 2), (MIXED, 3)])
def test_with_little_noise_it_has_the_tables(domain: Domain, order: int, max_cells: int | None) -> None:
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
    [(independent, None, 0.97), (chained, None, 0.97), (independent, 60, 1.0), (chained, 60, 1.0)],
)
def test_much_noise_leaves_it_nearer_to_the_truth_than_shrinking_alone(
    make: Callable[[Domain], NDArray[np.int64]], max_cells: int | None, ratio: float
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


def test_a_weight_is_learnt_again_until_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, queries = chained(BITS), queries_of(BITS, 3)
    stddevs = iter([0.5, 0.3, 0.05, 0.01])
    weights = iter([0.1, 0.2, 0.6, 0.9])
    monkeypatch.setattr(module, "model_weight", lambda *_: (next(weights), next(stddevs)))
    (values,) = measured(codes, queries, NOISY, 1)
    shrunken, mean = both(values, queries)
    assert next(stddevs) == 0.01
    model = fit_model(queries.domain, [values], float(shrunken[:8].sum()), module._SETTINGS).model
    np.testing.assert_allclose(mean, 0.7 * shrunken + 0.3 * model.answer(queries), rtol=1e-6, atol=1e-3)


class TestWeight:
    """``ours`` and ``theirs`` lie on a line through the truth, at these distances from it."""

    QUERIES = queries_of(BITS, 3)
    WEIGHTS = dict.fromkeys(QUERIES.cliques, 1.0)

    def weight(self, ours: float, theirs: float, stddev: float = 1.0) -> float:
        codes = chained(BITS)
        truth = exact(codes, self.QUERIES)
        step = exact(independent(BITS, seed=5), self.QUERIES) - truth
        held_out = measured_residuals(codes, self.QUERIES, stddev)
        estimates = truth + ours * step, truth + theirs * step
        return model_weight(*estimates, held_out, self.QUERIES, self.WEIGHTS)[0]

    @pytest.mark.parametrize(
        ("ours", "theirs", "wanted"),
        [(0.0, 1.0, 0.0), (1.0, 0.0, 1.0), (-1.0, 1.0, 0.5), (-1.0, 3.0, 0.25), (1.0, 2.0, 0.0), (2.0, 1.0, 1.0)],
    )
    def test_it_is_that_of_the_nearest_mean(self, ours: float, theirs: float, wanted: float) -> None:
        assert self.weight(ours, theirs) == pytest.approx(wanted, abs=0.01)

    def test_noise_that_hides_the_difference_leaves_the_expected_weight(self) -> None:
        assert self.weight(0.0, 1e-3, stddev=1e4) == pytest.approx(0.5, abs=0.01)

    @pytest.mark.parametrize("stddev", [30.0, 300.0])
    def test_its_deviation_is_that_of_many_splits(self, stddev: float) -> None:
        """Of the posterior mean, which is shrunk, and which is cut at 0 and 1 hardly ever at this noise."""
        truth = exact(chained(BITS), self.QUERIES)
        step = exact(independent(BITS, seed=5), self.QUERIES) - truth
        found = []
        for noise in np.random.default_rng(6).normal(0, stddev, (60, truth.size)):
            held_out = Residuals.of_marginals([Measurement(self.QUERIES, truth + noise, Noise.GAUSSIAN, stddev)])
            found.append(model_weight(truth - step, truth + step, held_out, self.QUERIES, self.WEIGHTS))
        values, deviations = np.array(found).T
        assert deviations == pytest.approx(deviations[0])
        # A weight of variance v becomes a posterior mean of variance v (s / (s + v))^2, and of posterior variance
        # s v / (s + v), where s is the prior variance.
        shrinking = 1 - deviations[0] ** 2 / module._PRIOR_STDDEV**2
        assert values.std() == pytest.approx(deviations[0] * shrinking**0.5, rel=0.2)

    def test_of_two_equal_estimates_the_first_is_taken(self) -> None:
        assert self.weight(1.0, 1.0) == 0.0

    def test_it_minimises_the_weighted_squares(self) -> None:
        """Against a search over all weights, with marginals of different weights and sizes."""
        generator = np.random.default_rng(4)
        codes, queries = chained(MIXED), Marginals(MIXED, (("a", "c"), ("d", "c"), ("a", "b", "d"), ("c",)))
        weights = dict(zip(queries.cliques, (5.0, 1.0, 2.0, 0.5), strict=True))
        truth = exact(codes, queries)
        steps = [exact(independent(MIXED, seed), queries) - truth for seed in (7, 8)]
        ours, theirs = truth + 0.2 * steps[0], truth - 0.1 * steps[0] + 0.1 * steps[1]
        asked = queries_of(MIXED, 4)
        held_out = Residuals.of_marginals(
            [Measurement(asked, exact(codes, asked) + generator.normal(0, 0.01, asked.size), Noise.GAUSSIAN, 0.01)]
        )
        each = np.repeat([weights[clique] for clique in queries.cliques], queries.sizes)
        grid = np.linspace(0, 1, 10_001)
        squares = [float(each @ ((1 - weight) * ours + weight * theirs - truth) ** 2) for weight in grid]
        found, _ = model_weight(ours, theirs, held_out, queries, weights)
        assert found == pytest.approx(float(grid[int(np.argmin(squares))]), abs=1e-3)
        assert 0.05 < found < 0.95
