"""What the cases of graphical models are judged by, against loops that anyone can check."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.estimation.graphical.likelihood.losses import SquaredLoss
from dpcore.estimation.model import TableRows
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, linear
from tests.benchmarks import mwem_identity, pgm_chain, pgm_plugin
from tests.benchmarks.case import Run
from tests.benchmarks.figures.datasets import Table
from tests.benchmarks.graphical import peers, ranges, workloads
from tests.benchmarks.graphical.definition26 import counted, distances, workload_error
from tests.benchmarks.graphical.gaussian_loss import gaussian_loss

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4})
CLIQUES = Marginals(DOMAIN, (("a", "c"), ("b",), ("a", "b", "c")))
CODES = np.array([[0, 0, 0], [0, 2, 3], [1, 2, 3], [1, 2, 3], [1, 1, 0]], dtype=np.int32)


def slow_tables(codes: NDArray[np.int32]) -> list[NDArray[np.int64]]:
    tables = []
    for clique in CLIQUES.cliques:
        table = np.zeros(DOMAIN.shape(clique), dtype=np.int64)
        for row in codes:
            table[tuple(row[axis] for axis in DOMAIN.axes(clique))] += 1
        tables.append(table)
    return tables


def flat(tables: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([table.ravel() for table in tables])


def test_the_workload_error_is_definition_26_without_a_half() -> None:
    exact, answers = slow_tables(CODES), [table + 0.25 for table in slow_tables(CODES[:3])]
    weights = np.array([1.0, 3.0, 0.5])
    terms = [w * np.abs(x - y).sum() for w, x, y in zip(weights, answers, exact, strict=True)]
    found = workload_error(Workload(CLIQUES, weights), np.concatenate([t.ravel() for t in answers]), flat(exact), 5)
    assert found == pytest.approx(sum(terms) / (3 * 5))
    assert workload_error(Workload(CLIQUES, weights), flat(exact), flat(exact), 5) == 0


def test_all_zeros_are_off_by_one_and_rows_elsewhere_by_two() -> None:
    exact = flat(slow_tables(CODES[:1]))
    elsewhere = flat(slow_tables(np.array([[1, 1, 1]], dtype=np.int32)))
    workload = Workload(CLIQUES, np.ones(3))
    assert workload_error(workload, np.zeros(CLIQUES.size), exact, 1) == 1
    assert workload_error(workload, elsewhere, exact, 1) == 2
    assert distances(CLIQUES, elsewhere, exact).tolist() == [2, 2, 2]


def test_rows_are_counted_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.benchmarks.graphical.definition26._ROWS_AT_ONCE", 2)
    assert counted(TableRows(DOMAIN, CODES), CLIQUES).tolist() == flat(slow_tables(CODES)).tolist()


def test_rows_over_fewer_attributes_are_counted_by_name() -> None:
    rows = TableRows(DOMAIN.project(("c", "b")), CODES[:, [2, 1]])
    assert counted(rows, CLIQUES.only([("b",)])).tolist() == [1, 1, 3]


def test_the_loss_is_half_the_squared_residuals() -> None:
    assert gaussian_loss(np.array([1.0, 2.0]), np.array([3.0, 5.0]), 2.0) == pytest.approx((4 + 9) / 4 / 2)


def test_ranges_are_prefixes_of_numeric_attributes() -> None:
    domain = Domain.of({"Sex": 2, "Age": 4})
    queries = ranges.range_queries("titanic", Marginals(domain, (("Sex", "Age"), ("Age",))))
    cells = np.arange(12.0)
    table = cells[:8].reshape(2, 4)
    slow = [sum(table[sex, : age + 1]) for sex in range(2) for age in range(4)]
    slow += [sum(cells[8 : 8 + age + 1]) for age in range(4)]
    assert ranges.applied(queries, cells).tolist() == slow
    assert linear(queries).queries.size == 12


def test_the_range_error_is_normalised_a_term() -> None:
    domain = Domain.of({"Sex": 2, "Age": 3})
    queries = ranges.range_queries("titanic", Marginals(domain, (("Sex",), ("Age",))))
    exact = np.array([1.0, 3.0, 1.0, 2.0, 5.0])
    found = ranges.range_error(queries, exact + np.array([1, -1, 0, 4, 0]), exact)
    assert found == pytest.approx((2 / 8 + 4 / 16) / 2)


@pytest.mark.parametrize("name", ["titanic", "adult_fine", "loans"])
def test_numeric_attributes_are_named_once(name: str) -> None:
    assert len(set(ranges._NUMERIC[name])) == len(ranges._NUMERIC[name])


def test_workloads_are_the_same_at_every_call() -> None:
    table = Table(TinyTable(DOMAIN, CODES), DOMAIN, len(CODES))
    everything = workloads.WORKLOADS["ALL-3WAY"]("titanic", table)
    assert everything.queries.cliques == (("a", "b", "c"),)
    aimed = workloads.WORKLOADS["TARGET"]("nltcs", table)
    assert all("b" in clique for clique in aimed.queries.cliques)
    skew = [workloads.WORKLOADS["SKEWED"]("nltcs", table) for _ in range(2)]
    assert skew[0].queries.cliques == skew[1].queries.cliques
    assert skew[0].weights.sum() == workloads.SKEWED_DRAWS
    assert workloads.target_of("adult", Domain.of({"income>50K": 2, "age": 3})) == "income>50K"


def test_the_chain_recursion_is_the_sum_over_all_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pgm_chain, "SIZE", 2)
    names = ("p", "q", "r", "s", "t")
    cliques = tuple(names[start : start + 3] for start in range(3))
    theta = np.random.default_rng(3).normal(size=24) * 3
    state = pgm_chain.State(Domain(names, (2,) * 5), cliques, theta)
    slow = np.zeros((3, 2, 2, 2))
    for cell in itertools.product(range(2), repeat=5):
        chance = np.exp(sum(theta.reshape(3, 2, 2, 2)[place][cell[place : place + 3]] for place in range(3)))
        for place in range(3):
            slow[place][cell[place : place + 3]] += chance
    assert pgm_chain.along_the_chain(state) == pytest.approx(slow.ravel() / slow[0].sum(), rel=1e-12)


def test_a_peer_that_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PYTHON", peers.ROOT / "no" / "python")
    assert peers.missing() == "peer not installed: run make peers"


@pytest.mark.parametrize(
    ("pgm", "plain", "ratio"),
    [
        ([1.0, 2.0, 9.0], [4.0, 5.0, 8.0], 0.4),
        ([1.0, None, 3.0], [None, 4.0, 5.0], 0.6),
        ([1.0, 2.0, 9.0], [None, None, 4.0], 0.0),
        ([1.0, None, None], [None, None, 4.0], np.inf),
        ([None, None, None], [None, None, None], np.inf),
    ],
)
def test_a_release_that_did_not_end_errs_infinitely(
    pgm: list[float | None], plain: list[float | None], ratio: float
) -> None:
    def figures(value: float | None) -> dict[str, float]:
        return {} if value is None else {"cell": value}

    runs = [
        Run(0, 0.0, 0.0, 0.0, 0.0, figures(with_it), {"without": figures(without)}, {})
        for with_it, without in zip(pgm, plain, strict=True)
    ]
    assert pgm_plugin.ratio_of_medians("cell", runs) == pytest.approx(ratio)


def test_two_mechanisms_are_apart_by_their_mean_errors() -> None:
    def run(pgm: tuple[float, float], mwem: tuple[float, float], ratio: float) -> Run:
        cells = ("epsilon 1", "epsilon 10")
        facts = {f"epsilon {epsilon:g}: error_ratio": ratio for epsilon in mwem_identity.EPSILONS}
        beside = {"mwem": dict(zip(cells, mwem, strict=True))}
        return Run(0, 0.0, 0.0, 0.0, 0.0, dict(zip(cells, pgm, strict=True)), beside, facts)

    runs = [run((2.0, 1.0), (1.0, 1.0), 1.001), run((1.0, 1.0), (2.0, 3.0), 0.98)]
    assert mwem_identity.apart(runs) == pytest.approx(0.5)
    assert mwem_identity.error_off(runs) == pytest.approx(0.02)
    assert mwem_identity.farthest("error_ratio", runs) == 1.001


def test_the_model_of_least_squared_loss_is_found() -> None:
    """Two values of one attribute and a cell below 0: a projection on the simplex, by hand."""
    domain = Domain.of({"a": 3, "b": 2})
    measured = [Measurement(Marginals(domain, (("a",),)), np.array([7.0, 6.0, -5.0]), Noise.GAUSSIAN, 1.0)]
    model = mwem_identity.least_squares(SquaredLoss(domain, measured), 10.0)
    assert np.allclose(model.answer(Marginals(domain, (("a",),))), [5.5, 4.5, 0.0], atol=1e-3)
    assert np.allclose(model.answer(Marginals(domain, (("b",),))), [5.0, 5.0])
