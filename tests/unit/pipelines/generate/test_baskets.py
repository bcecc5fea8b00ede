"""The generator of baskets: its law against a direct draw, its files, and its errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from dpcore.errors import ConfigError
from pipelines.generate.basket_law import TASTES, BasketLaw, draw_tastes, fit_law
from pipelines.generate.baskets import USERS_AT_ONCE, alias_tables, draw_baskets, write_baskets

SIZES = {"users": 3 * USERS_AT_ONCE + 5, "films": 300, "pairs": 40_000, "seed": 7}
REJECT_BELOW = 1e-6  # Chance that a correct sampler fails.
WRONG_BY = 0.2  # Rates this far off must be rejected.


def _pairs(folder: Path) -> list[tuple[int, int]]:
    tables = [pq.read_table(path) for path in sorted(folder.iterdir())]
    return [pair for table in tables for pair in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def _p_value(counts: np.ndarray, chances: np.ndarray, draws: int) -> float:
    variance = draws * chances * (1 - chances)
    return float(stats.chi2.sf(((counts - draws * chances) ** 2 / variance).sum(), len(counts)))


@pytest.mark.smoke(1)
@pytest.mark.parametrize("activity", [0.5, 2.0, 20.0], ids=["throws", "some toss", "all toss"])
def test_a_user_holds_each_film_with_the_chance_of_the_law(activity: float) -> None:
    draws, films = 20_000, 12
    rates = np.random.default_rng(1).gamma(1.0, 0.45, size=(TASTES, films))
    law = BasketLaw(np.full(draws, activity), rates)
    _, held = draw_baskets(law, alias_tables(law), 0, draws, np.random.default_rng(2))
    counts = np.bincount(held, minlength=films)
    # Averaged over tastes by the plain formula, with tastes of its own.
    tastes = draw_tastes(400_000, np.random.default_rng(3))

    def chances(factor: float) -> np.ndarray:
        return (1 - np.exp(-activity * factor * tastes @ rates)).mean(axis=0)

    assert _p_value(counts, chances(1), draws) > REJECT_BELOW
    assert _p_value(counts, chances(1 - WRONG_BY), draws) < REJECT_BELOW
    assert _p_value(counts, chances(1 + WRONG_BY), draws) < REJECT_BELOW


def test_tastes_tie_films_together() -> None:
    rates = np.zeros((TASTES, 3))
    rates[0, :2] = rates[1, 2] = 1.0  # Films 0 and 1 are to one taste, film 2 to another.
    law = BasketLaw(np.full(20_000, 2.0), rates)
    units, films = draw_baskets(law, alias_tables(law), 0, law.users, np.random.default_rng(4))
    held = np.zeros((law.users, 3))
    held[units, films] = 1
    correlation = np.corrcoef(held.T)
    assert correlation[0, 1] > 0.05
    assert correlation[0, 2] < -0.005


def test_alias_tables_give_each_film_its_share() -> None:
    rates = np.random.default_rng(5).gamma(0.3, size=(TASTES, 40))
    chances, aliases = alias_tables(BasketLaw(np.ones(1), rates))
    for taste in range(TASTES):
        share = np.bincount(aliases[taste], weights=1 - chances[taste], minlength=40) + chances[taste]
        np.testing.assert_allclose(share / 40, rates[taste] / rates[taste].sum(), atol=1e-12)


def test_the_law_has_the_asked_number_of_pairs() -> None:
    law = fit_law(users=6_000, films=500, pairs=60_000, generator=np.random.default_rng(6))
    chances = 1 - np.exp(-law.activity[:, None] * (draw_tastes(law.users, np.random.default_rng(7)) @ law.rates))
    assert 0.93 * 60_000 < chances.sum() < 1.02 * 60_000


def test_files_and_threads_do_not_change_the_pairs(tmp_path: Path) -> None:
    for name, files, threads in (("a", 1, 1), ("b", 3, 2)):
        written = write_baskets(tmp_path / name, **SIZES, files=files, threads=threads)
        assert written == sorted((tmp_path / name).iterdir())
        assert len(written) == files
    pairs = _pairs(tmp_path / "a")
    assert pairs == _pairs(tmp_path / "b")
    assert pairs == sorted(set(pairs))


def test_a_quarter_of_all_pairs_can_be_asked_for(tmp_path: Path) -> None:
    write_baskets(tmp_path / "dense", users=2_000, films=40, pairs=20_000, files=1, seed=9)
    assert 0.85 * 20_000 < len(_pairs(tmp_path / "dense")) < 1.05 * 20_000


def test_another_seed_gives_other_pairs(tmp_path: Path) -> None:
    write_baskets(tmp_path / "a", **SIZES, files=1)
    write_baskets(tmp_path / "b", **{**SIZES, "seed": 8}, files=1)
    assert _pairs(tmp_path / "a") != _pairs(tmp_path / "b")


def test_units_are_whole_in_files_and_row_groups(tmp_path: Path) -> None:
    seen: set[int] = set()
    for path in write_baskets(tmp_path / "out", **SIZES, files=2):
        file = pq.ParquetFile(path)
        assert file.schema_arrow.names == ["user_id", "movie_id"]
        assert {str(field.type) for field in file.schema_arrow} == {"int32"}
        for group in range(file.num_row_groups):
            units = set(file.read_row_group(group)["user_id"].to_pylist())
            assert not seen & units
            seen |= units
    assert max(seen) < SIZES["users"]


def test_progress_adds_up_to_the_users(tmp_path: Path) -> None:
    done: list[int] = []
    write_baskets(tmp_path / "out", **SIZES, files=2, progress=done.append)
    assert sum(done) == SIZES["users"]


@pytest.mark.parametrize(("change", "words"), [
    ({"users": 0}, "users is 0; want >= 1"),
    ({"films": 0}, "films is 0; want >= 1"),
    ({"pairs": 0}, "pairs is 0; want >= 1"),
    ({"pairs": 10**9}, "want at most a quarter of users x films"),
    ({"files": 0}, "files is 0; want 1 .. 4"),
    ({"files": 5}, "files is 5; want 1 .. 4"),
    ({"threads": 0}, "threads is 0; want >= 1"),
    ({"seed": -1}, "seed is -1; want >= 0"),
])  # fmt: skip
def test_a_wrong_size_is_refused_and_writes_nothing(tmp_path: Path, change: dict[str, int], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        write_baskets(tmp_path / "out", **{**SIZES, "files": 1, **change})
    assert not (tmp_path / "out").exists()


def test_a_used_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.txt").touch()
    with pytest.raises(ConfigError, match="is not an empty folder"):
        write_baskets(tmp_path, **SIZES, files=1)
    assert [path.name for path in tmp_path.iterdir()] == ["old.txt"]
