"""Every failure ends in one sentence and its number; a library's message never gets out."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import re
import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore import errors
from jobs import log
from jobs.exit_codes import guarded


def raising(error: BaseException) -> Callable[[], None]:
    def action() -> None:
        raise error

    return action


CASES: list[tuple[BaseException, int]] = [
    (errors.ConfigError("said"), 2),
    (errors.DomainTooLargeError("said", 10, 5, "less"), 2),
    (errors.InputError("said"), 3),
    (errors.NoBudgetError("said"), 4),
    (errors.BudgetExceededError("said", Fraction(2), Fraction(1), "rho"), 4),
    (errors.ChargedBeforeError("said"), 4),
    (errors.LedgerUnavailableError("said"), 5),
    (errors.EngineError("said"), 6),
    (errors.UnprovedError("said"), 2),
    (errors.CutOffError("said"), 2),
    (errors.ScaleError("said"), 2),
    (errors.IntegrityError("said"), 7),
    (errors.MarqueeError("said"), 70),
]


@pytest.mark.parametrize(("error", "code"), CASES, ids=lambda part: type(part).__name__)
def test_a_deliberate_error_speaks_for_itself(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    assert guarded(raising(error)) == code
    said = capsys.readouterr().err
    assert said == f"marquee: {error}\n"


def test_every_deliberate_error_has_a_row() -> None:
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.MarqueeError)}
    assert kinds == {type(error) for error, _ in CASES}


@pytest.mark.parametrize("error", [ValueError("secret 42"), KeyError("secret 42"), MemoryError("secret 42")])
def test_an_unexpected_error_is_named_by_its_type_alone(capsys: pytest.CaptureFixture[str], error: Exception) -> None:
    assert guarded(raising(error)) == 70
    said = capsys.readouterr().err
    assert "secret" not in said
    assert said.count("\n") == 1
    assert type(error).__name__ in said or "memory" in said


def test_a_failure_of_the_system_is_said_in_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(raising(OSError(errno.EIO, "secret 42", "secret 42"))) == 70
    said = capsys.readouterr().err
    assert re.search(r"unexpected OSError \(Input/output error\) at jobs/exit_codes\.py:\d+; run again", said)
    assert "secret" not in said


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_may_be_tried_again(capsys: pytest.CaptureFixture[str], number: int) -> None:
    assert guarded(raising(OSError(number, "secret 42", "secret 42"))) == 6
    said = capsys.readouterr().err
    assert said == "marquee: a disk is full; free some space and run the same command again to continue the release\n"


@pytest.mark.parametrize(("number", "code", "advice"), [
    (errno.EFBIG, 6, "a file would be larger than this process may write; raise its limit (ulimit -f) and run"),
    (errno.EACCES, 2, "a file or a folder may not be read or written; give this user permission"),
    (errno.EPERM, 2, "give this user permission for all that the config names and run the same command again"),
    (errno.EROFS, 2, "give this user permission"),
])  # fmt: skip
def test_storage_that_refuses_is_said_with_advice(
    capsys: pytest.CaptureFixture[str], number: int, code: int, advice: str
) -> None:
    assert guarded(raising(OSError(number, "secret 42", "secret 42"))) == code
    said = capsys.readouterr().err
    assert advice in said
    assert "secret" not in said


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is always full")
def test_so_it_is_when_a_library_finds_it_full(capsys: pytest.CaptureFixture[str]) -> None:
    def write() -> None:
        # By its handle: given the path, the library would remove what it failed to write, which is the device.
        with pa.OSFile("/dev/full", "wb") as file:
            pq.write_table(pa.table({"x": range(10**5)}), file)

    assert guarded(write) == 6
    assert os.path.exists("/dev/full")
    assert "a disk is full" in capsys.readouterr().err


def test_an_interrupt_is_no_failure_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(raising(KeyboardInterrupt())) == 130
    assert "run the same command again" in capsys.readouterr().err


def test_a_trace_is_shown_on_request_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(raising(ValueError("x")), debug=True) == 70
    assert "Traceback" in capsys.readouterr().err


class Panic(BaseException):
    """Like a panic of a library in Rust, which is no Exception."""


def test_a_panic_is_an_unexpected_error_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(raising(Panic("secret 42"))) == 70
    said = capsys.readouterr().err
    assert said.startswith("marquee: unexpected Panic at jobs/exit_codes.py:")
    assert "secret" not in said


class Closing:
    """An object that cannot be closed."""

    def __del__(self) -> None:
        raise ValueError("secret 42")


def in_a_finalizer() -> None:
    Closing()
    gc.collect()


def in_a_thread() -> None:
    thread = threading.Thread(target=raising(ValueError("secret 42")))
    thread.start()
    thread.join()


@pytest.mark.parametrize("fail", [in_a_finalizer, in_a_thread])
def test_what_python_prints_by_itself_is_a_type_alone(
    capsys: pytest.CaptureFixture[str], fail: Callable[[], None]
) -> None:
    log.configure(log.LogFormat.TEXT)
    before = threading.excepthook, sys.unraisablehook
    assert guarded(fail) == 0
    said = capsys.readouterr().err
    assert "ignored an unexpected ValueError" in said
    assert "secret" not in said
    assert (threading.excepthook, sys.unraisablehook) == before


def test_events_follow_a_stderr_that_was_replaced(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with open(tmp_path / "closed", "w", encoding="utf-8") as replaced, contextlib.redirect_stderr(replaced):
        log.configure(log.LogFormat.TEXT)
        log.info("first")
    log.info("second")
    assert "second" in capsys.readouterr().err


def test_success_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(lambda: None) == 0
    assert capsys.readouterr() == ("", "")
