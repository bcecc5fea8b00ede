"""Checks that the real pipeline and the real ledger pass and that planted bugs must fail."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.errors import BudgetExceededError, IntegrityError
from dpcore.exact_statistics import QueryAnswers
from dpcore.kernel.budget import Budget
from dpcore.queries import Marginals, UnitCount
from jobs.ledger import SqlLedger
from jobs.ledger.windows import Window
from pipelines.aggregators import TableBlock, aggregator_for
from pipelines.attributes import Attribute, Kind
from pipelines.contribution import basket_block, table_block
from pipelines.encode import EncodedRows, encode_table
from pipelines.engines import local, parts
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import EngineStatistics
from pipelines.layout import BasketLayout, TableLayout
from pipelines.schema import Schema
from pipelines.source import open_source
from tests.support.ledgers import Clock, reserve

SALT = bytes(range(16))
SCHEMA = Schema(
    (
        Attribute("colour", Kind.CATEGORICAL, values=("red", "green", "blue"), other=True),
        Attribute("age", Kind.FLOAT, edges=(0.0, 20.0, 40.0, 60.0)),
    )
)
CODES = np.array([[0, 1, 2, 3, 0, 1, 2, 3], [0, 0, 1, 1, 2, 2, 3, 3]], dtype=np.uint8)
SIX_TENTHS = Budget.pure(Fraction(6, 10))


def a_row_is_encoded_alone() -> None:
    """A code is the same whatever rows come with it: bins are those of the schema, and sums those of the row."""
    summed = Attribute("summed", Kind.FLOAT, edges=(0.0, 50.0, 100.0), sum_of=(("age", 2.0),))
    schema = Schema((*SCHEMA.attributes, summed))
    rows = pa.record_batch(
        {
            "colour": pa.array(["blue", "pink", "red", None, "green"]),
            "age": pa.array([15.0, float("nan"), 59.0, -3.0, 1e9]),
        }
    )
    alone = [encode_table(rows.slice(place, 1), schema)[:, 0].tolist() for place in range(rows.num_rows)]
    assert encode_table(rows, schema).T.tolist() == alone
    assert [code[0] for code in alone] == [2, 3, 0, 4, 1]
    assert all(0 <= code < size for codes in alone for code, size in zip(codes, schema.domain.sizes, strict=True))


def kept_rows(order: np.ndarray, salt: bytes = SALT, bound: int = 3) -> list[list[int]]:
    units = pa.array(np.array([5, 5, 5, 5, 5, 5, 9, 9])[order])
    block = table_block(EncodedRows(units, CODES[:, order]), TableLayout("u", SCHEMA, bound), salt)
    return sorted(block.codes.T.tolist())


def truncation_reads_no_position() -> None:
    kept = kept_rows(np.arange(8))
    for seed in range(20):
        assert kept_rows(np.random.default_rng(seed).permutation(8)) == kept


def truncation_is_secret() -> None:
    assert len({str(kept_rows(np.arange(8), bytes([salt] * 16))) for salt in range(12)}) > 1


def truncation_keeps_its_bound() -> None:
    assert len(kept_rows(np.arange(8))) == 5
    rows = EncodedRows(pa.array([1] * 6), np.array([[0, 1, 2, 3, 4, 4]], dtype=np.int32))
    block = basket_block(rows, BasketLayout("u", "i", 9, max_items_per_unit=3), SALT)
    assert len(set(block.items.tolist())) == 3


def scattered_rows_are_one_unit() -> None:
    block = table_block(EncodedRows(pa.array([7, 8, 7, 8, 7]), CODES[:, :5]), TableLayout("u", SCHEMA, 2), SALT)
    assert (block.units, block.codes.shape[1]) == (2, 4)


def _statistics(folder: Path, *, clustered: bool) -> EngineStatistics:
    """Units 0 .. 59 with two rows each, but unit 7 in both files."""
    units = np.concatenate([np.repeat(np.arange(30), 2), [7], np.repeat(np.arange(30, 60), 2)])
    for number, part in enumerate((units[:60], units[60:])):
        columns = {"u": part, "colour": ["red"] * part.size, "age": np.full(part.size, 30.0)}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=16)
    layout = TableLayout("u", SCHEMA, 1, clustered_by_unit=clustered)
    return EngineStatistics(LocalEngine(2), open_source(str(folder), layout, SALT))


def a_unit_counts_once(clustered: bool) -> None:
    """In two files it is joined, or dropped where the layout claims that it cannot be."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_SHARD_ROWS", 20)
        patch.setattr(parts, "_PART_ROWS", 30)
        statistics = _statistics(Path(folder), clustered=clustered)
        wanted = 59 if clustered else 60
        assert statistics.aggregate(UnitCount()).tolist() == [wanted]
        rows = statistics.aggregate(QueryAnswers(Marginals(SCHEMA.domain, (("colour",),))))
        assert rows.tolist() == [wanted, 0, 0, 0, 0]


def blocks_over_the_bound_are_refused() -> None:
    for request in (UnitCount(), QueryAnswers(Marginals(SCHEMA.domain, (("age",),)))):
        aggregator = aggregator_for(request, TableLayout("u", SCHEMA, 2))
        with pytest.raises(IntegrityError):
            aggregator.add(aggregator.create(), TableBlock(CODES, 3))


def lost_and_doubled_slices_are_found() -> None:
    tables = QueryAnswers(Marginals(SCHEMA.domain, (("age",), ("colour",))))
    aggregator = aggregator_for(tables, TableLayout("u", SCHEMA, 2))
    counted = aggregator.add(aggregator.create(), TableBlock(CODES, 5))
    for wrong in (np.concatenate([counted[:4] * 2, counted[4:]]), np.concatenate([counted[:4] * 0, counted[4:]])):
        with pytest.raises(IntegrityError):
            aggregator.extract(wrong)
    with pytest.raises(IntegrityError):
        aggregator.merge(-counted[:4], np.zeros(4, dtype=np.int64))


def _with_ledger(work: Callable[[str, Clock], None]) -> None:
    with TemporaryDirectory() as folder:
        url, clock = f"sqlite:///{folder}/ledger.db", Clock()
        SqlLedger(url, clock=clock).create_dataset("adult", 1.0, 0.0)
        work(url, clock)


def a_crash_keeps_its_charge() -> None:
    """The process dies after its charge, is started again and charges again; then another release must not fit."""

    def work(url: str, clock: Clock) -> None:
        for _ in range(3):
            reserve(SqlLedger(url, clock=clock), "1" * 64, SIX_TENTHS)
        ledger = SqlLedger(url, clock=clock)
        assert [charge.amount for charge in ledger.history("adult")] == [SIX_TENTHS.amount]
        assert ledger.dataset("adult", 1, 0).spent == SIX_TENTHS.amount
        with pytest.raises(BudgetExceededError):
            reserve(SqlLedger(url, clock=clock), "2" * 64, SIX_TENTHS)

    _with_ledger(work)


def a_window_ends_with_its_month() -> None:
    """One release of 0.06 a month: not a second one in it, one more in the next, none when the clock goes back."""

    def work(url: str, clock: Clock) -> None:
        six = Budget.pure(Fraction(6, 100))
        SqlLedger(url, clock=clock).grant_consumer("adult", "team", 0.1, 0.0, Window.MONTH)
        reserve(SqlLedger(url, clock=clock), "1" * 64, six, consumer="team")
        for number, (day, fits) in enumerate(
            [((2026, 11, 30), False), ((2026, 12, 1), True), ((2026, 11, 20), False), ((2026, 12, 31), False)]
        ):
            clock.set(*day)
            if fits:
                reserve(SqlLedger(url, clock=clock), f"{number + 2}" * 64, six, consumer="team")
            else:
                with pytest.raises(BudgetExceededError):
                    reserve(SqlLedger(url, clock=clock), f"{number + 2}" * 64, six, consumer="team")

    _with_ledger(work)


CHECKS: dict[str, Callable[[], None]] = {
    "encoding": a_row_is_encoded_alone,
    "kept by hash": truncation_reads_no_position,
    "secret salt": truncation_is_secret,
    "bound kept": truncation_keeps_its_bound,
    "scattered rows": scattered_rows_are_one_unit,
    "split unit, clustered": lambda: a_unit_counts_once(clustered=True),
    "split unit, shuffled": lambda: a_unit_counts_once(clustered=False),
    "blocks": blocks_over_the_bound_are_refused,
    "slices": lost_and_doubled_slices_are_found,
    "crash": a_crash_keeps_its_charge,
    "windows": a_window_ends_with_its_month,
}
