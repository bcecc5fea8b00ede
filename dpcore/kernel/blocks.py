"""Parallel work on a long vector, one block per task."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

BLOCK = 1 << 18  # Values per block.

Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """A progress callback that does nothing."""


def in_blocks(work: Callable[[slice], None], size: int, progress: Progress = silent, workers: int = 0) -> None:
    """Calls ``work`` once for each block of a vector of ``size`` values.

    work: Takes the slice of one block. Blocks run in parallel as far as ``work`` releases the interpreter lock.
    size: Number of values.
    progress: Called with (values done, size) after each block, from the calling thread.
    workers: Number of threads; 0 stands for one thread per core.

    Raises the first error of a block. Blocks that have not started by then are skipped.
    """
    blocks = [slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK)]
    workers = min(workers or _cores(), len(blocks))
    if workers <= 1:
        for block in blocks:
            work(block)
            progress(block.stop, size)
        return
    done = 0
    with ThreadPoolExecutor(workers) as pool:
        running = {pool.submit(work, block): block for block in blocks}
        try:
            for finished in as_completed(running):
                finished.result()
                done += running[finished].stop - running[finished].start
                progress(done, size)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
