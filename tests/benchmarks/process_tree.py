"""CPU time and memory of a process and of every process that it started."""

from __future__ import annotations

import resource
from pathlib import Path

import psutil


def cpu_seconds(pid: int | None = None) -> float:
    """User and system seconds of a process (by default this one) and of all that it started, alive or waited for."""
    this = psutil.Process(pid)
    return _with_finished_children(this) + sum(
        _with_finished_children(child) for child in this.children(recursive=True)
    )


def resident_mb(pid: int) -> float:
    """Resident memory of a process tree now, shared pages counted once for each process; 0 when it is gone."""
    try:
        root = psutil.Process(pid)
        return sum(_resident_bytes(process) for process in [root, *root.children(recursive=True)]) / 2**20
    except psutil.NoSuchProcess:
        return 0.0


def own_peak_mb() -> float:
    """Peak resident memory of this program. Unlike getrusage, it forgets what the process was before it became it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    (peak,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 2**10


def _with_finished_children(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
