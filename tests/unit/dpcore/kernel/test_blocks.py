"""Every value is worked on once, progress adds up, and an error stops the rest."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from dpcore.kernel import blocks
from dpcore.kernel.blocks import in_blocks


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 10)


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("size", [0, 1, 10, 11, 95])
def test_each_value_once_and_progress_to_the_end(size: int, workers: int) -> None:
    visits = np.zeros(size, dtype=np.int64)
    reports: list[tuple[int, int]] = []

    def work(block: slice) -> None:
        visits[block] += 1

    in_blocks(work, size, lambda done, total: reports.append((done, total)), workers)
    assert (visits == 1).all()
    done = [report[0] for report in reports]
    assert len(reports) == -(-size // 10)
    assert done == sorted(done)
    assert all(total == size for _, total in reports)
    assert not reports or done[-1] == size


def test_blocks_run_side_by_side_and_progress_in_the_calling_thread() -> None:
    meet = threading.Barrier(2, timeout=60)
    threads: set[int] = set()
    in_blocks(lambda block: meet.wait() and None, 20, lambda *_: threads.add(threading.get_ident()), workers=2)
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_is_raised_and_leaves_the_rest_out(workers: int) -> None:
    begun: list[int] = []

    def work(block: slice) -> None:
        begun.append(block.start)
        if not block.start:
            raise OverflowError("block")
        time.sleep(0.02)  # All of them would take 10 seconds, in which the caller learns of the error.

    with pytest.raises(OverflowError, match="block"):
        in_blocks(work, 10_000, workers=workers)
    assert len(begun) < 1000
