"""The tables of a release against its certificate: answers.parquet, the synthetic rows, and the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.errors import MarqueeError
from dpcore.estimation.model import Model
from dpcore.mechanisms.baskets.basket_mixture import BasketMixture
from dpcore.mechanisms.registry import MECHANISMS
from jobs.outputs.answers_table import ESTIMATES, KINDS, fixed_schema
from jobs.outputs.certificate_format import Certificate
from jobs.outputs.model_file import BASKETS, MODEL, read_baskets, read_model
from jobs.verification.findings import Finding, Outcome, failed, not_checked, passed
from jobs.verification.itemset_tables import itemset_finding
from jobs.verification.recomputed import CHECKS as RECOMPUTED
from jobs.verification.recomputed import recomputed_findings
from jobs.wording import number_of
from pipelines.layout import BasketLayout, Layout, TableLayout

ANSWERS = "answers.parquet"
SYNTHETIC = "synthetic"
_PART = "part-*.parquet"
_UNREADABLE = (OSError, ValueError, pa.ArrowException)  # What pyarrow raises for a damaged file.


def table_findings(folder: Path, certificate: Certificate, layout: Layout) -> list[Finding]:
    """Checks every table of a release.

    folder: The folder of the release.
    certificate: Its certificate.
    layout: The public layout of its data.
    """
    answers = _answer_findings(folder / ANSWERS, certificate.workload.answers)
    model, read = _model_finding(folder, certificate.mechanism.name, layout)
    return [
        *answers,
        *(
            recomputed_findings(folder / ANSWERS, certificate, layout, read)
            if answers[0].outcome is Outcome.PASSED
            else [not_checked(check, "answers.parquet cannot be used") for check in RECOMPUTED]
        ),
        itemset_finding(folder, certificate, layout),
        *_row_findings(folder / SYNTHETIC, certificate.synthetic_rows, layout),
        model,
    ]


def _answer_findings(path: Path, answers: int) -> list[Finding]:
    """Checks columns, types, number and order of the answers, their error bars, and that they are finite."""
    try:
        # Without a dictionary, every row would hold its own copy of the kind.
        with pq.ParquetFile(path, read_dictionary=["kind"]) as file:
            columns = pq.read_schema(path)
            fixed = fixed_schema(columns.names)
            if not pa.schema(list(columns)[: len(fixed)]).equals(fixed) or not _are_attributes(columns):
                return [failed("answers", f"{path} has other columns or types than answers.parquet")]
            if file.metadata.num_rows != answers:
                text = f"{path} has {file.metadata.num_rows:,} rows, but the certificate says {answers:,} answers"
                return [failed("answers", text)]
            kinds: set[str] = set()
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=fixed.names)
                problem = _answer_problem(table)
                if problem:
                    return [failed("answers", f"{path} {problem}")]
                kinds |= set(pc.unique(table["kind"]).to_pylist())
    except _UNREADABLE as error:
        return [failed("answers", f"{path} cannot be read ({type(error).__name__})")]
    if len(kinds) > 1 or not kinds <= set(KINDS.values()):
        return [
            failed("answers", f"{path} has queries of kind {sorted(kinds)}; want one kind of {list(KINDS.values())}")
        ]
    return [passed("answers", f"{answers:,} finite answers, each within its interval")]


def _are_attributes(columns: pa.Schema) -> bool:
    """Whether the columns after the fixed ones may be those of attributes or items; ``queries`` checks their values."""
    kinds = {"items": (pa.list_(pa.int32()), pa.list_(pa.string())), "negated": (pa.list_(pa.bool_()),)}
    further = list(columns)[len(fixed_schema(columns.names)) :]
    return all(field.type in (pa.string(), *kinds.get(field.name, ())) for field in further)


def _answer_problem(table: pa.Table) -> str | None:
    """What is wrong with some of the answers; None if nothing is."""
    estimates = table.schema.names == ESTIMATES.names
    required = ("query", "kind", "answer") if estimates else ("query", "kind", "answer", "measured")
    if any(table[name].null_count for name in required):
        return "has a null where none is allowed"
    answer, stddev, lower, upper = (_numbers(table[name]) for name in ("answer", "stddev", "lower", "upper"))
    floats = [field.name for field in table.schema if field.type == pa.float64()]
    nan = [int(pc.sum(pc.is_nan(table[name])).as_py() or 0) for name in floats]
    if not np.isfinite(answer).all() or any(nan) or any(np.isinf(bar).any() for bar in (stddev, lower, upper)):
        return "has an answer or an error bar that is no finite number"
    if (stddev < 0).any():
        return "has a negative standard deviation"
    if (np.isnan(lower) != np.isnan(upper)).any():
        return "has an interval with one end"
    if (lower > answer).any() or (answer > upper).any():  # Comparisons with the NaN of a null are false.
        return "has an answer outside its interval"
    if estimates:
        return _estimation_problem(table)
    measured = np.asarray(table["measured"].to_numpy(), dtype=np.bool_)
    return "has a measured answer without a standard deviation" if np.isnan(stddev[measured]).any() else None


def _estimation_problem(table: pa.Table) -> str | None:
    """What is wrong with the columns that only estimates have; None if nothing is."""
    names = ("measured", "stddev", "q_value", "guaranteed_lower", "guaranteed_upper")
    measured, stddev, q_value, lower, upper = (_numbers(table[name]) for name in names)
    if (
        np.isinf(measured).any()
        or not np.isfinite(lower).all()
        or not np.isfinite(upper).all()
        or (lower > upper).any()
    ):
        return "has a measured value or a guaranteed interval that is none"
    if (np.isnan(measured) != np.isnan(stddev)).any() or (np.isnan(measured) != np.isnan(q_value)).any():
        return "has a measured value without a standard deviation and a q-value, or one of these alone"
    return "has a q-value outside [0, 1]" if ((q_value < 0) | (q_value > 1)).any() else None


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """The values of a column, with NaN for null."""
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _row_findings(folder: Path, units: int | None, layout: Layout) -> list[Finding]:
    """Checks columns, types and values of the synthetic rows, and the numbers of their units."""
    check = "synthetic rows"
    if units is None:
        there = folder.exists()
        return (
            [failed(check, f"{folder} exists, but the certificate has no synthetic rows")]
            if there
            else [not_checked(check, "the release has none")]
        )
    paths = sorted(folder.glob(_PART))
    if [path.name for path in paths] != [f"part-{number:05d}.parquet" for number in range(len(paths))] or not paths:
        return [failed(check, f"{folder} lacks a part; want part-00000.parquet and so on")]
    try:
        problem = next(_row_problems(paths, units, layout), None)
    except _UNREADABLE as error:
        problem = f"a file of {folder} cannot be read ({type(error).__name__})"
    if problem:
        return [failed(check, problem)]
    return [
        passed(
            check,
            f"{number_of(units, 'unit')} in {number_of(len(paths), 'file')}, with columns and values of the schema",
        )
    ]


def _row_problems(paths: list[Path], units: int, layout: Layout) -> Iterator[str]:
    """Yields what is wrong with the synthetic rows."""
    table = isinstance(layout, TableLayout)
    # A column that is both the unit's and an attribute's holds the attribute's values.
    attributes = layout.schema.attributes if isinstance(layout, TableLayout) else ()
    numbered = layout.unit not in {attribute.column for attribute in attributes}
    columns: list[str] = []
    next_unit = 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            allowed = _allowed_columns(layout, schema)
            if allowed is None or schema.names != (columns or schema.names):
                yield f"{path} has other columns or types than schema and config describe"
                return
            columns = schema.names
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group)
                for name, values in allowed.items():
                    if not _within(rows[name], values):
                        yield f"{path} has a value of column {name!r} outside the declared domain"
                if not numbered:
                    next_unit += rows.num_rows
                    continue
                last = _last_unit(rows[layout.unit], next_unit, table)
                if last is None:
                    yield f"{path} does not number its units one after another"
                    return
                next_unit = last + 1 if table else last
    if table and next_unit != units:
        yield f"there are {next_unit:,} synthetic rows, but the certificate says {units:,}"
    if not table and next_unit >= units:
        yield f"a synthetic unit has number {next_unit}, but the certificate says {units:,} units"


def _last_unit(column: pa.ChunkedArray, first: int, table: bool) -> int | None:
    """The last of some unit numbers: consecutive from ``first`` in a table, ascending from there in baskets.

    Returns: The number, or for no rows the one before them; None for other numbers.
    """
    if column.null_count:
        return None
    units = np.asarray(column.to_numpy())
    if table:
        return first + len(units) - 1 if np.array_equal(units, np.arange(first, first + len(units))) else None
    if not len(units):
        return first
    return int(units[-1]) if first <= units[0] and (np.diff(units) >= 0).all() else None


def _allowed_columns(layout: Layout, schema: pa.Schema) -> dict[str, pa.Array | range] | None:
    """The allowed values of every column but the unit's; None for a file with other columns or types."""
    if isinstance(layout, BasketLayout):
        wanted = [layout.unit, layout.item]
        types = [pa.int64(), pa.int32() if layout.names is None else pa.string()]
        allowed = range(layout.items) if layout.names is None else layout.names.array.cast(pa.string())
        return {layout.item: allowed} if (schema.names, schema.types) == (wanted, types) else None
    columns = {layout.unit: pa.int64()} | {
        attribute.column: attribute.arrow_type for attribute in layout.schema.attributes
    }
    order = [name for name in columns if name in schema.names]
    if schema.names != order or layout.unit not in order or len(order) < 2:
        return None
    if any(schema.field(name).type != columns[name] for name in order):
        return None
    return {
        attribute.column: attribute.decode(np.arange(attribute.size))
        for attribute in layout.schema.attributes
        if attribute.column in order
    }


def _within(column: pa.ChunkedArray, values: pa.Array | range) -> bool:
    """Whether all values of a column are allowed. Null is allowed if it is among the values."""
    if isinstance(values, range):
        if not len(column):
            return True
        ends = pc.min_max(column).as_py()
        return column.null_count == 0 and bool(ends["min"] >= values.start and ends["max"] < values.stop)
    return bool(pc.all(pc.is_in(column, value_set=values)).as_py() in (True, None))


def _model_finding(folder: Path, mechanism: str, layout: Layout) -> tuple[Finding, Model | None]:
    models: dict[str, Model | None] = {}
    for name, read in ((MODEL, read_model), (BASKETS, read_baskets)):
        try:
            models[name] = read(folder, layout)
        except MarqueeError as error:
            return failed("model", f"{folder / name}: {error}"), None
        except OSError as error:
            return failed("model", f"{folder / name} cannot be read: {error.strerror}"), None
    always = MODEL if mechanism in MECHANISMS and MECHANISMS[mechanism].traits.graphical else None
    always = BASKETS if mechanism == BasketMixture.traits.name else always
    if always is not None and models[always] is None:
        return failed("model", f"{folder / always} is missing; {mechanism} always fits a model"), None
    if models[BASKETS] is not None:
        return passed("model", "a model of baskets over the items of the data"), models[BASKETS]
    if models[MODEL] is None:
        return not_checked("model", "the release has none"), None
    return passed("model", "a graphical model over attributes of the schema"), models[MODEL]
