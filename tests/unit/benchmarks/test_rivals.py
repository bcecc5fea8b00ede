"""Rivals by marginals: they spend their budget, learn more from more of it, and their steps are those of slow loops."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.errors import ConfigError
from dpcore.evaluation import exact_answers
from dpcore.exact_statistics import QueryAnswers
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.api import Release
from dpcore.queries import Marginals
from dpcore.testing.memory import MemoryJournal, MemoryLedger
from dpcore.testing.tiny_statistics import TinyTable
from dpcore.workload import Workload, all_k_way
from tests.benchmarks.graphical.cells import Cell, Outcome, Store
from tests.benchmarks.graphical.definition26 import workload_error
from tests.benchmarks.rivals import RIVALS, grid, gum
from tests.benchmarks.rivals.dependence import Dependence
from tests.benchmarks.rivals.privmrf import PrivMrf
from tests.benchmarks.rivals.privsyn import PrivSyn, consistent_targets, independent_rows, merged, select_pairs
from tests.benchmarks.rivals.report import recommended_is_close, rival_cells, won_by_rivals, write_report
from tests.benchmarks.rivals.votes import VotingStatistics, nearest_of, shared_votes

DOMAIN = Domain.of({"a": 2, "b": 3, "c": 4, "d": 2, "e": 3})
UNITS = 3_000


def _codes() -> NDArray[np.int64]:
    generator = np.random.default_rng(5)
    first = generator.choice(2, UNITS, p=[0.8, 0.2])
    second = np.where(generator.random(UNITS) < 0.9, first, 2)
    third = np.where(generator.random(UNITS) < 0.8, second + first, 0)
    return np.stack([first, second, third, first ^ (generator.random(UNITS) < 0.1), second], axis=1)


CODES = _codes()
STATISTICS = VotingStatistics(TinyTable(DOMAIN, CODES), CODES)
WORKLOAD = all_k_way(DOMAIN, 3)
EXACT = exact_answers(STATISTICS, WORKLOAD.queries)


def kernel(epsilon: float, journal: MemoryJournal | None = None, budget: Budget | None = None) -> PrivateStatistics:
    budget = budget or budget_of(epsilon, 1e-9, Currency.GDP)
    unit = PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, STATISTICS.contribution)
    return PrivateStatistics(
        STATISTICS, unit=unit, budget=budget, ledger=MemoryLedger(budget), journal=journal or MemoryJournal()
    )


def released(name: str, private: PrivateStatistics, seed: int = 1) -> Release:
    return RIVALS[name]().run(private, WORKLOAD, generator=np.random.default_rng(seed))


def error(release: Release) -> float:
    return workload_error(WORKLOAD, release.answers.values, EXACT, UNITS)


@pytest.mark.parametrize("name", ["privmrf", "privsyn", "tab_pe"])
def test_more_budget_gives_less_error(name: str) -> None:
    coarse, fine = (released(name, kernel(epsilon)) for epsilon in (0.003, 100.0))
    assert error(fine) < error(coarse)
    assert fine.model is not None
    model_error = workload_error(WORKLOAD, fine.model.answer(WORKLOAD.queries), EXACT, UNITS)
    assert model_error == pytest.approx(error(fine))


@pytest.mark.parametrize(("name", "limit"), [("privmrf", 0.05), ("privsyn", 0.1)])
def test_a_rich_budget_reproduces_the_table(name: str, limit: float) -> None:
    assert error(released(name, kernel(1_000.0))) < limit


@pytest.mark.parametrize("name", ["privmrf", "privsyn", "tab_pe"])
@pytest.mark.parametrize("epsilon", [0.01, 3.0])
def test_the_charges_sum_to_the_budget(name: str, epsilon: float) -> None:
    private = kernel(epsilon)
    released(name, private)
    total = sum(charge.amount for charge in private.charges)
    budget = private.terms.budget.amount
    assert 0.999 * budget < total <= budget
    assert private.remaining_share == 1 - total / budget


@pytest.mark.parametrize("name", ["privmrf", "privsyn", "tab_pe"])
def test_the_same_journal_and_seed_give_the_same_release(name: str) -> None:
    journal = MemoryJournal()
    first = released(name, kernel(2.0, journal), seed=7)
    again = released(name, kernel(2.0, journal), seed=7)
    assert first.answers.values.tolist() == again.answers.values.tolist()


@pytest.mark.parametrize("name", ["privmrf", "privsyn", "tab_pe"])
def test_the_plan_has_the_shares_that_a_run_spends(name: str) -> None:
    plan = RIVALS[name]().plan(kernel(1.0).terms, WORKLOAD)
    assert sum(step.share for step in plan.steps) == pytest.approx(1)


@pytest.mark.parametrize("name", ["privmrf", "privsyn", "tab_pe"])
def test_a_workload_of_one_attribute_is_refused_before_anything_is_charged(name: str) -> None:
    private = kernel(1.0)
    single = Workload(Marginals(DOMAIN, (("a",),)), np.ones(1))
    with pytest.raises(ConfigError, match="two or more"):
        RIVALS[name]().run(private, single, generator=np.random.default_rng(0))
    assert not private.charges


def test_votes_are_those_of_a_loop_and_the_kernel_charges_them_as_one_marginal() -> None:
    records = np.random.default_rng(3).integers(0, DOMAIN.sizes, size=(6, 5)).astype(np.int16)
    votes = np.zeros(len(records), dtype=np.int64)
    for row in CODES:
        votes[min(range(len(records)), key=lambda number: ((records[number] != row).sum(), number))] += 1
    queries = nearest_of(records)
    assert STATISTICS.aggregate(QueryAnswers(queries)).tolist() == votes.tolist()
    private = kernel(1_000.0)
    measured = private.measure(queries, private.remaining_share)
    assert measured.values == pytest.approx(votes, abs=1)
    (charge,) = private.charges
    assert charge.basis is not None
    assert charge.basis.sensitivity == 1


def test_equal_records_share_their_votes_and_a_row_more_is_a_vote_more() -> None:
    records = np.array([[0, 1], [2, 2], [0, 1], [1, 1], [0, 1], [2, 2]], dtype=np.int16)
    seen: list[list[list[int]]] = []

    def count(different: NDArray[np.int16]) -> NDArray[np.int64]:
        seen.append(different.tolist())
        return np.array([8, 5, 7], dtype=np.int64)

    assert shared_votes(records, count).tolist() == [3, 3, 3, 7, 2, 2]
    assert seen == [[[0, 1], [2, 2], [1, 1]]]
    for more in np.eye(3, dtype=np.int64):
        moved = shared_votes(records, lambda different: np.array([8, 5, 7]) + more) - [3, 3, 3, 7, 2, 2]  # noqa: B023
        assert sorted(moved.tolist()) == [0, 0, 0, 0, 0, 1]


def test_other_records_are_another_request_and_other_queries_go_to_the_table() -> None:
    records = np.zeros((2, 5), dtype=np.int16)
    assert nearest_of(records).digest() != nearest_of(records + 1).digest()
    pair = Marginals(DOMAIN, (("a", "c"),))
    assert STATISTICS.aggregate(QueryAnswers(pair)).tolist() == exact_answers(TinyTable(DOMAIN, CODES), pair).tolist()


def known(values: list[float], stddev: float = 1.0) -> Dependence:
    names = DOMAIN.names
    counts = {name: np.full(size, UNITS / size) for name, size in zip(names, DOMAIN.sizes, strict=True)}
    pairs = tuple(itertools.combinations(names, 2))
    return Dependence(WORKLOAD.queries, names, (), counts, UNITS, pairs, np.array(values), stddev)  # type: ignore[arg-type]


def test_pairs_are_selected_one_by_one_as_long_as_the_expected_error_falls() -> None:
    given = known([900.0, 10.0, 500.0, 3.0, 250.0, 20.0, 0.0, 700.0, 5.0, 40.0])

    def expected(selected: set[int], stddev: float) -> float:
        sizes = [DOMAIN.size(given.pairs[index]) for index in selected]
        shares = [size ** (2 / 3) for size in sizes]
        noise = sum(
            size * stddev * (sum(shares) / share) ** 0.5 * (2 / np.pi) ** 0.5
            for size, share in zip(sizes, shares, strict=True)
        )
        return noise + sum(given.values[index] for index in range(10) if index not in selected)

    for stddev in (0.1, 2.0, 5.0, 100.0):
        selected: set[int] = set()
        while len(selected) < 10:
            best = min(set(range(10)) - selected, key=lambda index: expected(selected | {index}, stddev))
            if expected(selected | {best}, stddev) >= expected(selected, stddev):
                break
            selected.add(best)
        assert select_pairs(given, stddev) == [given.pairs[index] for index in sorted(selected)]


def test_merged_cliques_hold_every_pair_and_are_small() -> None:
    triangle = [("a", "b"), ("b", "c"), ("a", "c"), ("d", "e")]
    assert merged(DOMAIN, triangle, 100) == [("a", "b", "c"), ("d", "e")]
    assert merged(DOMAIN, triangle, 23) == triangle
    every = list(itertools.combinations(DOMAIN.names, 2))
    assert merged(DOMAIN, every, 144) == [DOMAIN.names]
    cliques = merged(DOMAIN, every, 40)
    assert all(any(set(pair) <= set(clique) for clique in cliques) for pair in every)
    assert max(map(DOMAIN.size, cliques)) <= 40


def test_targets_are_consistent_and_sum_to_the_number_of_rows() -> None:
    private = kernel(1.0)
    cliques = [("a", "b"), ("b", "c"), ("b",), ("e",)]
    measured = [private.measure(Marginals(DOMAIN, (clique,)), private.remaining_share / 5) for clique in cliques]
    pair, following, single = consistent_targets(DOMAIN, measured, UNITS, 1_000)
    assert single.axes == DOMAIN.axes(("e",))
    for target in (pair, following, single):
        assert target.counts.min() >= 0
        assert target.counts.sum() == pytest.approx(1_000)
    assert pair.counts.reshape(2, 3).sum(axis=0) == pytest.approx(following.counts.reshape(3, 4).sum(axis=1), abs=3)


@pytest.mark.parametrize("step", [1.0, 0.3])
def test_gains_and_losses_of_cells_are_those_of_the_paper(step: float) -> None:
    generator = np.random.default_rng(2)
    for _ in range(50):
        counts = generator.integers(0, 4, 12) * generator.integers(0, 30, 12).astype(np.float64)
        wanted = generator.dirichlet(np.full(12, 0.3)) * counts.sum()
        gains, losses = gum.moves(counts, wanted, step)
        assert gains.sum() == pytest.approx(losses.sum())
        betas = []
        for count, target, gain, loss in zip(counts, wanted, gains, losses, strict=True):
            if target > count:
                assert loss == 0
                assert gain <= min(target - count, step * (count or target - count)) + 1e-9
            else:
                assert gain == 0
                assert loss <= count - target + 1e-9
                if 1e-9 < loss < (count - target) * (1 - 1e-6):
                    betas.append(loss / count)
        if gains.sum() < np.maximum(counts - wanted, 0).sum() - 1e-6:
            assert betas == pytest.approx([max(betas, default=0)] * len(betas), rel=1e-6)


def test_rounded_counts_keep_their_sum_and_their_means() -> None:
    values = np.array([0.2, 0.0, 1.5, 2.3, 0.0, 6.0])
    drawn = np.array([gum.rounded(values, np.random.default_rng(seed)) for seed in range(4_000)])
    assert set(drawn.sum(axis=1)) == {10}
    assert (np.abs(drawn - values) < 1).all()
    assert drawn.mean(axis=0) == pytest.approx(values, abs=0.05)


def test_rows_come_close_to_their_targets() -> None:
    given, generator = known([0.0] * 10), np.random.default_rng(4)
    cliques = [("a", "b", "c"), ("a", "d"), ("c", "e")]
    tables = [exact_answers(STATISTICS, Marginals(DOMAIN, (clique,))).astype(np.float64) for clique in cliques]
    targets = [
        gum.Target(DOMAIN.axes(clique), DOMAIN.shape(clique), table)
        for clique, table in zip(cliques, tables, strict=True)
    ]
    start = independent_rows(given, UNITS, generator)
    rows = gum.updated(start, targets, 40, generator)
    assert rows.shape == start.shape
    for target in targets:
        before, after = (
            np.abs(np.bincount(target.cells(codes.T), minlength=len(target.counts)) - target.counts).sum()
            for codes in (start, rows)
        )
        assert after < 0.05 * UNITS < before


def test_the_tree_of_privmrf_keeps_its_limit_and_takes_the_most_dependent_pairs_first() -> None:
    given = known([900.0, 800.0, 500.0, 0.5, 250.0, 200.0, 0.0, 700.0, 5.0, 40.0])
    wide, narrow = (PrivMrf(max_model_mb=cells / (1 << 17))._tree(given) for cells in (1_000, 40))
    assert wide.holds(("a", "b", "c"))
    assert narrow.cells <= 40
    assert narrow.holds(("a", "b"))
    assert not narrow.holds(("a", "b", "c", "d"))


def test_each_first_marginal_of_privmrf_is_useful_and_inside_a_node() -> None:
    private = kernel(1.0)
    release = released("privmrf", private)
    cliques = [
        measurement.queries.cliques[0]
        for measurement in release.measurements
        if isinstance(measurement.queries, Marginals)
    ]
    assert {(name,) for name in DOMAIN.names} <= set(cliques)
    assert any(len(clique) > 1 for clique in cliques)
    for measurement in release.measurements:
        if measurement.queries.size > max(DOMAIN.sizes):
            assert UNITS / measurement.queries.size > 2 * measurement.stddev


def test_privsyn_with_few_rows_answers_for_all() -> None:
    release = PrivSyn(max_rows=500).run(kernel(1_000.0), WORKLOAD, generator=np.random.default_rng(1))
    assert release.answers.values.sum() == pytest.approx(10 * UNITS, rel=0.01)
    assert error(release) < 0.2


def _cell(mechanism: str, *means: float, recommended: bool = False) -> Cell:
    runs = tuple(Outcome(seed, mean, 1.0, "abc", rows=mean) for seed, mean in enumerate(means))
    return Cell("adult", "ALL-3WAY", 1.0, mechanism, runs, "" if runs else "over 5 CPU seconds", recommended)


def test_the_page_names_the_cells_that_a_rival_wins_and_those_that_were_cut_off(tmp_path: Path) -> None:
    cells = [_cell("aim", 0.2, 0.3, recommended=True), _cell("privmrf", 0.1, 0.1), _cell("tab_pe")]
    cells.append(Cell("adult", "ALL-3WAY", 1.0, "gaussian_pgm", refused="the model is too large; want a smaller one"))
    page = write_report(cells, tmp_path / "RIVALS.md", 5).read_text()
    assert "Cells that a rival wins: privmrf on adult at 1." in page
    assert "| *privmrf* | **0.1** (0.1 to 0.1; 2) [0.1] | 1 |" in page
    assert "| *tab_pe* | over 5 CPU seconds |  |" in page
    assert "| gaussian_pgm | refused |  |" in page
    assert rival_cells(cells) == 2
    assert [cell.mechanism for cell in won_by_rivals(cells)] == ["privmrf"]


def test_a_recommendation_is_close_within_three_percent_or_two_standard_errors() -> None:
    def share(*means: float) -> float:
        return recommended_is_close([_cell("aim", *means, recommended=True), _cell("privmrf", 0.2, 0.2)])

    assert share(0.206, 0.206) == 1
    assert share(0.207, 0.207) == 0
    assert share(0.2, 0.3) == 1  # Standard error .05.
    assert recommended_is_close([]) == 0


def test_the_command_without_a_dataset_only_writes_and_reads_ours_from_the_other_grid(tmp_path: Path) -> None:
    folders = grid.Folders(tmp_path / "rivals", tmp_path / "graphical", tmp_path / "none")
    Store.opened(folders.rivals / "adult.json", {"dataset": "adult"}).put(_cell("privmrf", 0.1))
    ours = Store.opened(folders.ours / "adult.json", {"dataset": "adult"})
    ours.put(_cell("aim", 0.2))
    ours.put(_cell("mst", 0.3))
    assert grid.main([], folders) == 0
    assert [cell.mechanism for cell in grid.cells(folders)] == ["privmrf", "aim"]
    assert "*privmrf*" in (tmp_path / "RIVALS.md").read_text()
