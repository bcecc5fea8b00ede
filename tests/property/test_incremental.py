"""Any sequence of new, late, changed and deleted files gives the sums of a full run, whatever units they hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcore.exact_statistics import QueryAnswers
from dpcore.queries import Marginals, UnitCount
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import TableLayout
from pipelines.schema import Attribute, Kind, Schema
from pipelines.source import open_source
from pipelines.statistics_store.file_groups import GroupBy
from pipelines.statistics_store.folder import entries
from tests.support import reference
from tests.support.engine_cases import SALT
from tests.support.incremental import incremental

SCHEMA = Schema((Attribute("c", Kind.CATEGORICAL, values=("x", "y")),))
LAYOUT = TableLayout("u", SCHEMA, max_rows_per_unit=2, clustered_by_unit=True)
REQUESTS = (QueryAnswers(Marginals(SCHEMA.domain, (("c",), ()))), UnitCount())
TYPES = pa.schema({"u": pa.int64(), "c": pa.string()})
NAMES = ("day=1/a", "day=1/b", "day=2/a", "day=2/b", "day=3/a")
# Near the number of its file, so that ranges of units are sometimes disjoint and sometimes overlap in one unit.
UNITS = st.none() | st.integers(0, 2)
ROWS = st.lists(st.tuples(UNITS, st.sampled_from(["x", "y", "z", None])), max_size=5)


@dataclass(frozen=True)
class Step:
    """What happens before a run: files are written or deleted, and the store loses some entries.

    files: By their number, the rows with units relative to twice that number; None for a file that is deleted.
    lost: Which entries are gone, by the order of their names.
    request: Number of the request.
    """

    files: dict[int, list[tuple[int | None, str | None]] | None]
    lost: set[int] = field(default_factory=set)
    request: int = 0


STEPS = st.lists(
    st.builds(
        Step,
        st.dictionaries(st.integers(0, len(NAMES) - 1), st.none() | ROWS, max_size=3),
        st.sets(st.integers(0, 20), max_size=2),
        st.integers(0, 1),
    ),
    min_size=2,
    max_size=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, by=st.sampled_from(GroupBy), same_engine=st.booleans())
def test_every_run_equals_a_full_run(steps: list[Step], by: GroupBy, same_engine: bool) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        engine = incremental(folder, by=by)
        rows: dict[int, list[dict[str, object]]] = {}
        for step in [Step({4: [(0, "x")]}), *steps]:
            _apply(step, folder, rows)
            if not rows:
                continue
            request = REQUESTS[step.request]
            source = open_source(str(folder / "data"), LAYOUT, SALT)
            run = engine if same_engine else incremental(folder, by=by)
            found = EngineStatistics(run, source).aggregate(request).tolist()
            assert found == reference.answers(list(rows.values()), LAYOUT, SALT, request)
            assert found == EngineStatistics(LocalEngine(), source).aggregate(request).tolist()


def _apply(step: Step, folder: Path, rows: dict[int, list[dict[str, object]]]) -> None:
    for number, written in step.files.items():
        path = folder / "data" / f"{NAMES[number]}.parquet"
        if written is None:
            path.unlink(missing_ok=True)
            rows.pop(number, None)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        rows[number] = [{"u": None if unit is None else unit + 2 * number, "c": colour} for unit, colour in written]
        # Another file takes its place: within one tick of the clock, nothing tells two versions of a file apart.
        pq.write_table(pa.Table.from_pylist(rows[number], TYPES), path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)
    if (folder / "store").exists():
        for number, entry in enumerate(sorted(entries(folder / "store"))):
            if number in step.lost:
                entry.path.unlink()
