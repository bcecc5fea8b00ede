"""Failures: the message of a failed task in the engine's logs, and the exception on the driver."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pyarrow as pa
import pytest

from dpcore.errors import EngineError, InputError, IntegrityError, MarqueeError
from pipelines.engines.failures import failure, guarded

SECRET = "patient-4711"


def _parse() -> Iterator[int]:
    yield 1
    pa.array([SECRET]).cast(pa.int64())


def _unreadable() -> Iterator[int]:
    try:
        yield from _parse()
    except pa.ArrowInvalid as error:
        raise InputError("a.parquet is damaged") from error


def test_results_pass_unchanged() -> None:
    assert list(guarded(iter([3, 1, 2]))) == [3, 1, 2]


@pytest.mark.parametrize(
    ("results", "kind", "said"),
    [
        (_parse, EngineError, "a task failed with ArrowInvalid at pipelines/engines/failures.py:"),
        (_unreadable, InputError, "a.parquet is damaged"),
        (
            lambda: (1 // x for x in [0]),
            EngineError,
            "a task failed with ZeroDivisionError at pipelines/engines/failures.py:",
        ),
    ],
)
def test_a_failed_task_prints_no_value(results, kind: type[MarqueeError], said: str) -> None:
    with pytest.raises(kind) as caught:
        list(guarded(results()))
    assert str(caught.value).startswith(said)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("report", "kind", "message"),
    [
        ("dpcore.errors.InputError: b.parquet is gone", InputError, "b.parquet is gone"),
        (
            "Failed\nTraceback:\n    raise InputError('x')\ndpcore.errors.InputError: b is gone; want: c\n",
            InputError,
            "b is gone; want: c",
        ),
        (
            "RuntimeError: Traceback\ndpcore.errors.InputError: b is gone [while running 'Count']\n",
            InputError,
            "b is gone",
        ),
        ("RuntimeError: dpcore.errors.EngineError: it broke", EngineError, "it broke"),
        ("Failed\ndpcore.errors.IntegrityError: want bounded units", IntegrityError, "want bounded units"),
        ("x\ndpcore.errors.ConfigError: an odd one\n", EngineError, "an odd one"),
        (f"ValueError: {SECRET}", EngineError, "Spark did not finish the aggregation; see its own log for the reason"),
        ("", EngineError, "Spark did not finish the aggregation; see its own log for the reason"),
    ],
)
def test_a_report_becomes_our_own_exception(report: str, kind: type[MarqueeError], message: str) -> None:
    error = failure("Spark", report)
    assert type(error) is kind
    assert str(error) == message
