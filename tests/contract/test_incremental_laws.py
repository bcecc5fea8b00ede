"""Laws of an engine with a store: the sums of a full run on every engine, from as few files as possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dpcore.errors import ConfigError, InputError
from dpcore.exact_statistics import Request
from pipelines.aggregators import aggregator_for
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics, TaskEngine
from pipelines.partition import Values
from pipelines.row_filter import Condition, RowFilter
from pipelines.source import open_frame, open_source
from pipelines.statistics_store import folder as store_folder
from pipelines.statistics_store.counting import CountTask
from pipelines.statistics_store.file_groups import GroupBy, known_files
from tests.support import engine_cases, reference
from tests.support.engine_cases import SALT, Case
from tests.support.engines import ENGINES
from tests.support.incremental import WatchedEngine, incremental
from tests.support.partition_cases import COLUMN, partitioned, rules, write_folders

CASES = [pytest.param(case, id=case.name) for case in engine_cases.cases()]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> WatchedEngine:
    return WatchedEngine(request.param())


def answers(engine: TaskEngine, folder: Path, case: Case, request: Request) -> list[int]:
    source = open_source(str(folder / "data"), case.clustered(), SALT)
    counted: list[int] = EngineStatistics(engine, source).aggregate(request).tolist()
    return counted


def in_ranges(case: Case, files: int) -> list[pa.Table]:
    """All rows of a unit in one part, and ranges of units that do not overlap; rows without a unit in the last part."""
    unit = case.layout.unit
    distinct = pc.unique(case.rows.column(unit).drop_null()).sort()
    size = -(-len(distinct) // files)
    wanted = [distinct.slice(size * number, size) for number in range(files)]
    parts = [case.rows.filter(pc.is_in(case.rows.column(unit), value_set=units)) for units in wanted]
    parts[-1] = pa.concat_tables([parts[-1], case.rows.filter(case.rows.column(unit).is_null())])
    return parts


def write(folder: Path, parts: dict[str, pa.Table]) -> None:
    for name, part in parts.items():
        path = folder / "data" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(part, path)


@pytest.mark.smoke(4)
@pytest.mark.parametrize("case", CASES)
def test_late_changed_and_deleted_files_give_the_sums_of_a_full_run(
    engine: WatchedEngine, case: Case, tmp_path: Path
) -> None:
    request = case.requests[0]
    parts = dict(zip("abcdef", in_ranges(case, 6), strict=True))
    files = {name: parts[name] for name in "abdf"}
    write(tmp_path, files)

    def check(*counted: str) -> None:
        """The sums of the slow reference, and the files that a new run has counted."""
        rows = [part.to_pylist() for part in files.values()]
        wanted = reference.answers(rows, case.clustered(), SALT, request)
        assert answers(incremental(tmp_path, engine), tmp_path, case, request) == wanted
        assert engine.taken() == ([f"{name}.parquet" for name in counted], [])

    check(*"abdf")
    check()
    files["e"] = parts["e"]
    write(tmp_path, {"e": parts["e"]})
    check("e")
    files["c"] = parts["c"]  # It comes late: its units lie between those of files that were counted.
    write(tmp_path, {"c": parts["c"]})
    check("c")
    files["a"] = parts["a"].slice(0, parts["a"].num_rows // 2)
    write(tmp_path, {"a": files["a"]})
    check("a")
    del files["b"]
    (tmp_path / "data" / "b.parquet").unlink()
    check()


@pytest.mark.smoke(4)
@pytest.mark.parametrize("case", CASES)
def test_a_new_file_with_rows_of_old_units_takes_them_out_of_both(
    engine: WatchedEngine, case: Case, tmp_path: Path
) -> None:
    """And gives them back when it is gone. Of the old files, only those with such a unit are counted again."""
    request = case.requests[0]
    files = dict(zip("abc", in_ranges(case, 3), strict=True))
    unit = files["a"].column(case.layout.unit)
    stray = pa.concat_tables(
        [files["a"].filter(pc.equal(unit, unit.drop_null()[0])).slice(0, 1), files["b"].slice(0, 1)]
    )
    write(tmp_path, files)
    before = answers(incremental(tmp_path, engine), tmp_path, case, request)
    engine.taken()
    write(tmp_path, {"stray": stray})
    rows = [part.to_pylist() for part in (*files.values(), stray)]
    wanted = reference.answers(rows, case.clustered(), SALT, request)
    assert answers(incremental(tmp_path, engine), tmp_path, case, request) == wanted != before
    counted, listed = engine.taken()
    assert counted == ["a.parquet", "b.parquet", "stray.parquet", "stray.parquet"]
    assert listed == ["a.parquet", "b.parquet", "stray.parquet"]
    assert answers(incremental(tmp_path, engine), tmp_path, case, request) == wanted
    assert engine.taken() == ([], [])
    (tmp_path / "data" / "stray.parquet").unlink()
    assert answers(incremental(tmp_path, engine), tmp_path, case, request) == before
    assert engine.taken() == ([], [])


@pytest.mark.smoke(3)
def test_all_requests_about_overlapping_files_equal_the_engine_itself(engine: WatchedEngine, tmp_path: Path) -> None:
    """Units spread over all ranges, with a broken one: the first run, a second one, and one with one engine for all."""
    case = engine_cases.text_units()
    engine_cases.write_clustered(case.rows, case.layout.unit, tmp_path / "data", 5)
    write(tmp_path, {"stray": case.rows.slice(5, 9)})
    wanted = [answers(engine.engine, tmp_path, case, request) for request in case.requests]
    one_engine = incremental(tmp_path, engine)
    source = open_source(str(tmp_path / "data"), case.clustered(), SALT)
    assert [EngineStatistics(one_engine, source).aggregate(request).tolist() for request in case.requests] == wanted
    assert engine.taken()[1] == sorted(Path(path).name for path in source.paths)  # Units are listed once.
    again = [answers(incremental(tmp_path, engine), tmp_path, case, request) for request in case.requests]
    assert again == wanted
    assert engine.taken() == ([], [])


@pytest.mark.smoke(3)
def test_folders_are_counted_again_as_a_whole(engine: WatchedEngine, tmp_path: Path) -> None:
    case = engine_cases.messy_baskets()
    parts = dict(zip(("day=1/a", "day=1/b", "day=2/c"), in_ranges(case, 3), strict=True))
    write(tmp_path, parts)

    def check(rows: list[pa.Table], *counted: str) -> None:
        wanted = reference.answers([part.to_pylist() for part in rows], case.clustered(), SALT, case.requests[0])
        run = incremental(tmp_path, engine, GroupBy.FOLDER)
        assert answers(run, tmp_path, case, case.requests[0]) == wanted
        assert engine.taken()[0] == list(counted)

    check(list(parts.values()), "a.parquet", "b.parquet", "c.parquet")
    check(list(parts.values()))
    stray = parts["day=1/a"].slice(0, 3)  # In the folder of the file that has the same units.
    write(tmp_path, {"day=1/stray": stray})
    check([*parts.values(), stray], *sorted(2 * ["a.parquet", "b.parquet", "stray.parquet"]))
    check([*parts.values(), stray])


def test_what_is_counted_file_by_file_must_be_files_of_whole_units(tmp_path: Path) -> None:
    case = engine_cases.messy_baskets()
    write(tmp_path, {"a": case.rows})
    source = open_source(str(tmp_path / "data"), case.layout, SALT)
    run = incremental(tmp_path)
    with pytest.raises(ConfigError, match=r"want files of whole units with dataset\.clustered_by_unit: true"):
        EngineStatistics(run, source).aggregate(case.requests[0])
    with pytest.raises(ConfigError, match="are a frame"):
        EngineStatistics(run, open_frame(case.rows, case.layout, SALT)).aggregate(case.requests[0])


def test_names_a_file_that_vanished(tmp_path: Path) -> None:
    case = engine_cases.messy_baskets()
    write(tmp_path, {"a": case.rows, "b": case.rows.slice(0, 0)})
    source = open_source(str(tmp_path / "data"), case.clustered(), SALT)
    (tmp_path / "data" / "b.parquet").unlink()
    with pytest.raises(InputError, match=r"b\.parquet does not exist"):
        EngineStatistics(incremental(tmp_path), source).aggregate(case.requests[0])


@pytest.mark.parametrize("change", ["before", "during"])
def test_a_file_that_changes_while_it_is_counted_is_not_kept(tmp_path: Path, change: str) -> None:
    """The counts of this run are those of what was read, and the next run counts the new file."""
    case = engine_cases.messy_baskets()
    first, second = in_ranges(case, 2)
    write(tmp_path, {"a": first})
    path = tmp_path / "data" / "a.parquet"

    class Restless(WatchedEngine):
        """Replaces the file before its task, or after it and before the task has asked for the version again."""

        def each(self, task: Any, items: Sequence[Any]) -> list[bytes]:
            if change == "during":
                task = _Replacing(task, path, second)
            else:
                _replace(path, second)
            return super().each(task, items)

    counted = answers(incremental(tmp_path, Restless()), tmp_path, case, case.requests[0])
    read = first if change == "during" else second
    assert counted == reference.answers([read.to_pylist()], case.clustered(), SALT, case.requests[0])
    assert not list((tmp_path / "store").rglob("*.entry"))
    watched = WatchedEngine(LocalEngine())
    again = answers(incremental(tmp_path, watched), tmp_path, case, case.requests[0])
    assert again == reference.answers([second.to_pylist()], case.clustered(), SALT, case.requests[0])
    assert watched.taken()[0] == ["a.parquet"]


class _Replacing:
    """A task whose file is replaced once it was read."""

    def __init__(self, task: CountTask, path: Path, table: pa.Table) -> None:
        self._task, self._path, self._table = task, path, table

    def __call__(self, piece: object) -> bytes:
        aggregator = self._task.aggregator
        path, table = self._path, self._table

        class Merging:
            def __getattr__(self, name: str) -> object:
                return getattr(aggregator, name)

            def merge(self, left: object, right: object) -> object:
                _replace(path, table)
                return aggregator.merge(left, right)

        return replace(self._task, aggregator=Merging())(piece)


def _replace(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


@pytest.mark.smoke(1)
def test_other_salts_bounds_and_filters_find_no_entries(tmp_path: Path) -> None:
    case = engine_cases.messy_baskets()
    write(tmp_path, dict(zip("ab", in_ranges(case, 2), strict=True)))
    layout, request = case.clustered(), case.requests[0]
    where = RowFilter((Condition("film", low=3),))
    views = [
        (layout, SALT),
        (layout, bytes(16)),
        (replace(layout, max_items_per_unit=1), SALT),
        (replace(layout, where=where), SALT),
    ]
    found = []
    for view, salt in 2 * views:
        source = open_source(str(tmp_path / "data"), view, salt)
        counted = EngineStatistics(incremental(tmp_path), source).aggregate(request).tolist()
        assert counted == EngineStatistics(LocalEngine(), source).aggregate(request).tolist()
        found.append(tuple(counted))
    assert len(set(found)) == len(views)


def test_days_without_a_bound_are_counted_from_their_own_files(tmp_path: Path) -> None:
    """Files of other days decide nothing, and are not asked for; where they do decide, the store is refused."""
    case = partitioned(engine_cases.messy_table(), Values.DATE)
    write_folders(case.rows, tmp_path / "data", files=1)
    *checked, first, several = rules(Values.DATE)
    for partition in (first, several, first):
        layout = replace(case.clustered(), partition=partition)
        source = open_source(str(tmp_path / "data"), layout, SALT)
        counted = EngineStatistics(incremental(tmp_path), source).aggregate(case.requests[0]).tolist()
        assert counted == EngineStatistics(LocalEngine(), source).aggregate(case.requests[0]).tolist()
        assert sum(counted) > 0
        days = [file.constants for file in source.needed_files]
        assert [known.file.constants for known in known_files(source, 0, 2.0)] == days
        assert len(days) == len({name for name in partition.names if (tmp_path / f"data/{COLUMN}={name}").is_dir()})
    for partition in checked:
        source = open_source(str(tmp_path / "data"), replace(case.clustered(), partition=partition), SALT)
        with pytest.raises(ConfigError, match="no partition that needs all others"):
            incremental(tmp_path).reduce(source, aggregator_for(case.requests[0], source.layout))


def test_a_run_that_dies_between_two_entries_leaves_what_the_next_run_can_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every entry, once before it is written and once in the middle of it."""
    case = engine_cases.text_units()
    engine_cases.write_clustered(case.rows, case.layout.unit, tmp_path / "data", 3)
    write(tmp_path, {"stray": case.rows.slice(5, 9)})
    wanted = answers(LocalEngine(), tmp_path, case, case.requests[0])
    written = store_folder.write
    for entries in range(100):
        run = tmp_path / f"run-{entries}"
        run.mkdir()
        (run / "data").symlink_to(tmp_path / "data")
        survivors = iter(range(entries))

        def write_or_die(path: Path, content: bytes, survivors: Iterator[int] = survivors) -> None:
            if next(survivors, None) is None:
                path.parent.mkdir(mode=0o700, exist_ok=True)
                path.with_name(f"{path.stem[:8]}.part").write_bytes(content[: len(content) // 2])
                raise KeyboardInterrupt
            written(path, content)

        monkeypatch.setattr(store_folder, "write", write_or_die)
        try:
            assert answers(incremental(run), run, case, case.requests[0]) == wanted
            break
        except KeyboardInterrupt:
            monkeypatch.setattr(store_folder, "write", written)
            for _ in range(2):
                assert answers(incremental(run), run, case, case.requests[0]) == wanted
    assert entries > 3 * 4  # Ranges, units and two counts of each file.
