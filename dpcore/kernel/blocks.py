"""Work on a long vector, block by block on every core."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

BLOCK = 1 << 18

Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Progress that nobody watches."""


def in_blocks(work: Callable[[slice], None], size: int, progress: Progress = silent, workers: int = 0) -> None:
    """Calls ``work`` once for each block of ``size`` values, on ``workers`` threads (default: one for each core).

    ``work`` runs side by side when it holds no interpreter lock. ``progress(values done, size)`` is called after each
    block, from the calling thread. The first error of a block is raised; blocks not yet begun are then left out.
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
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
