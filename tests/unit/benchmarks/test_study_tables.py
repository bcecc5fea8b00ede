"""The settings of the study of recommendations, and their tables."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Marginals, UnitCount
from dpcore.testing.tiny_statistics import TinyTable
from tests.benchmarks.study import configurations as settings
from tests.benchmarks.study.configurations import FAMILIES, KINDS, configuration, configurations, fitting, workload_of
from tests.benchmarks.study.tables import GENERATED, REAL, CodedTable, drawn_given, real
from tests.support.required_data import dataset

SIZES = (3, 2, 5, 4, 2, 3, 4)
ROWS = 4_000


def made(family: str, strength: float, seed: int = 1) -> np.ndarray:
    return GENERATED[family](SIZES, ROWS, strength, np.random.default_rng(seed))


def marginals(kind: str, domain: Domain) -> Marginals:
    queries = workload_of(kind, domain, np.random.default_rng(0)).queries
    assert isinstance(queries, Marginals)
    return queries


def dependence(codes: np.ndarray, first: int, second: int) -> float:
    """L1 distance of a pair from the product of its attributes."""
    pair = np.zeros((SIZES[first], SIZES[second]))
    np.add.at(pair, (codes[first], codes[second]), 1 / ROWS)
    return float(np.abs(pair - np.outer(pair.sum(axis=1), pair.sum(axis=0))).sum())


@pytest.mark.parametrize("family", GENERATED)
@pytest.mark.parametrize("strength", [0.0, 0.8, 1.0])
def test_codes_are_those_of_the_domain_and_of_the_seed(family: str, strength: float) -> None:
    codes = made(family, strength)
    assert (codes.shape, codes.dtype) == ((len(SIZES), ROWS), np.dtype(np.uint16))
    assert (codes.max(axis=1) < SIZES).all()
    assert (codes == made(family, strength)).all()
    assert (codes != made(family, strength, seed=2)).any()


def test_a_chain_is_anything_from_independent_to_deterministic() -> None:
    """Rows of strength 1 take as many combinations as the first attribute has values."""
    distances = [dependence(made("chain", strength), 0, 1) for strength in (0.0, 0.5, 1.0)]
    assert distances[0] < 0.1 < distances[1] < distances[2]
    for family in ("chain", "tree"):
        assert len(np.unique(made(family, 1.0), axis=1).T) <= SIZES[0]


def test_functions_of_two_attributes_are_exact_at_strength_1() -> None:
    codes, roots = made("functions", 1.0), len(SIZES) // 2
    combinations = len(np.unique(codes[:roots], axis=1).T)
    assert len(np.unique(codes, axis=1).T) == combinations
    assert len(np.unique(made("functions", 0.5), axis=1).T) > combinations


def test_a_draw_follows_the_distribution_of_its_parent() -> None:
    parents = np.array([0, 2, 1, 2, 0] * 500, dtype=np.uint16)
    tables = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.25, 0.75, 0.0]])
    codes = drawn_given(parents, tables, np.random.default_rng(0))
    assert (codes[parents == 0] == 0).all()
    assert (codes[parents == 1] == 2).all()
    assert codes[parents == 2].max() == 1
    assert codes[parents == 2].mean() == pytest.approx(0.75, abs=0.05)


def test_statistics_in_memory_are_those_of_the_reference() -> None:
    domain, codes = Domain.of({"a": 3, "b": 2, "c": 5, "d": 4, "e": 2, "f": 3, "g": 4}), made("mixture", 0.5)[:, :300]
    queries = Marginals(domain, (("a", "c"), ("b", "d", "g"), ()))
    for request in (QueryAnswers(queries), UnitCount()):
        exact = CodedTable(domain, codes).aggregate(request)
        assert (exact == TinyTable(domain, codes.T).aggregate(request)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [1, -1])
def test_a_domain_is_cut_until_its_workload_fits(kind: str, order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference counts the cells of the marginals one by one."""
    domain = Domain.of({f"a{axis}": size for axis, size in enumerate((2, 9, 3, 4, 12, 6, 7, 5)[::order])})
    queries = marginals(kind, domain)
    cells, count = sorted(map(queries.domain.size, queries.cliques)), len(queries.cliques)
    exact = {"LARGEST_MARGINAL": cells[-1], "LARGEST_WORKLOAD": sum(cells), "MAX_MARGINALS": count}
    for name, limit in exact.items():
        monkeypatch.setattr(settings, name, limit)
    assert fitting(kind, domain) == domain
    if kind == "some triples":
        return
    for name, limit in exact.items():
        with monkeypatch.context() as patch:
            patch.setattr(settings, name, limit - 1)
            cut = fitting(kind, domain)
            assert cut != domain
            part = marginals(kind, cut)
            limits = (max(part.sizes), part.size, len(part.cliques))
            assert limits[list(exact).index(name)] < limit


def test_five_attributes_are_kept_and_their_sizes_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "LARGEST_WORKLOAD", 1_000)
    cut = fitting("pairs", Domain.of(dict.fromkeys("abcdef", 40)))
    assert cut == Domain.of(dict.fromkeys("abcde", 10))


def test_some_triples_are_a_part_of_those_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain.of(dict(zip("abcdef", (2, 3, 4, 5, 6, 7), strict=True)))
    queries = marginals("some triples", domain)
    assert len(queries.cliques) == 10
    monkeypatch.setattr(settings, "LARGEST_MARGINAL", 60)
    assert max(marginals("some triples", domain).sizes) <= 60


def test_generated_settings_span_what_the_study_promises() -> None:
    chosen = configurations(tuple(GENERATED))
    assert len({one.key for one in chosen}) == len(chosen) == 192
    assert {one.kind for one in chosen} == set(KINDS)
    attributes, sizes = {len(one.domain.names) for one in chosen}, {size for one in chosen for size in one.domain.sizes}
    assert (min(attributes), max(attributes)) == (5, 110)
    assert (min(sizes), max(sizes) > 400) == (2, True)
    assert {one.rows for one in chosen} >= {10**3, 10**4, 10**5, 10**6, 10**7}
    assert {one.epsilon for one in chosen} == {0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 20.0}
    assert {one.strength for one in chosen} >= {0.0, 1.0}


def test_small_settings_come_first_and_families_take_turns() -> None:
    chosen = configurations(tuple(GENERATED))
    magnitudes = [int(2 * np.log10(one.size)) for one in chosen]
    assert magnitudes == sorted(magnitudes)
    own = [one.size for one in chosen if one.family == "tree"]
    assert own == sorted(own)
    assert len({one.family for one in chosen[80:100]}) == len(GENERATED)


def test_a_setting_does_not_depend_on_others() -> None:
    first = configuration("blocks", 3)
    assert first == next(one for one in configurations(("blocks",)) if one.number == 3)
    assert first != configuration("blocks", 7)
    assert first.workload.queries.digest() == configuration("blocks", 3).workload.queries.digest()


def test_parts_of_real_tables() -> None:
    for family in REAL:
        dataset(f"tabular/{family}")
    assert len(configurations()) >= 240
    assert {one.family for one in configurations()} == set(FAMILIES)
    part = configuration("titanic", 5)
    table = part.table()
    assert table.codes.shape == (len(part.domain.names), part.rows)
    assert (table.codes.max(axis=1) < part.domain.sizes).all()
    halved = configuration("loans", 1)  # Two of its attributes have fewer values than in the file.
    assert (halved.table().codes.max(axis=1) < halved.domain.sizes).all()


def test_values_of_a_real_table_are_merged_where_the_domain_has_fewer() -> None:
    dataset("tabular/titanic")
    whole, merged = (
        real("titanic", Domain.of({"Survived": 3, "Age": ages}), 1_304, np.random.default_rng(0)) for ages in (91, 46)
    )
    assert whole.shape == (2, 1_304)
    assert np.array_equal(merged[0], whole[0])
    assert np.array_equal(merged[1], whole[1].astype(int) * 46 // 91)
    assert merged[1].max() < 46
