"""One attempt at a release, and everybody who watches it: lineage, metrics, and the operator's log of exact figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcore.errors import BudgetExceededError, ChargedBeforeError, MarqueeError, NoBudgetError
from jobs import exit_codes, sensitive
from jobs.monitoring.lineage import Lineage, open_lineage
from jobs.monitoring.metrics import Run, check_metrics, write_metrics
from jobs.monitoring.stages import measured_stages
from jobs.objects.output import read_file
from jobs.planning.job import Job
from jobs.release.finished import Outcome
from jobs.release.run import release

_REFUSALS = (BudgetExceededError, ChargedBeforeError, NoBudgetError)


@dataclass(frozen=True)
class Watchers:
    """Where a run is reported besides its log.

    metrics_file: File for Prometheus; None without one.
    sensitive_log: File for exact figures, for the operator only; None without one.
    """

    metrics_file: Path | None = None
    sensitive_log: Path | None = None


@dataclass
class _Attempt:
    """What is known of the attempt so far."""

    job: Job | None = None
    lineage: Lineage | None = None
    outcome: Outcome | None = None


def attempt(
    load: Callable[[], Job], config: Path, *, again: bool = False, watchers: Watchers | None = None
) -> tuple[Job, Outcome]:
    """Makes a release as ``release`` does, and reports how it went.

    load: Reads the config.
    config: The config file, after which reports name the run.
    again: As for ``release``.
    watchers: Where the run is reported.

    Raises: The exceptions of ``load`` and ``release``; ConfigError when a report cannot be written.
    """
    watchers = watchers or Watchers()
    if watchers.metrics_file is not None:
        check_metrics(watchers.metrics_file)
    with _reported(config.stem, watchers) as current:
        current.job = job = load()
        content = f"exact sizes of dataset {job.config.dataset.name!r} and run times"
        with sensitive.logged_to(watchers.sensitive_log, content):
            current.lineage = open_lineage(job, config.stem)
            current.outcome = outcome = release(job, again=again)
    return job, outcome


@contextmanager
def _reported(name: str, watchers: Watchers) -> Iterator[_Attempt]:
    current = _Attempt()
    with measured_stages() as stages:
        try:
            yield current
        except BaseException as error:
            if current.lineage is not None:
                current.lineage.fail(error)
            _write(name, watchers, current, stages, error)
            raise
        if current.lineage is not None:
            current.lineage.complete(_certificate(current.outcome).get("ledger_id"))
        _write(name, watchers, current, stages, None)


def _write(
    name: str, watchers: Watchers, current: _Attempt, stages: Mapping[str, float], error: BaseException | None
) -> None:
    if watchers.metrics_file is None:
        return
    code = exit_codes.DONE if error is None else exit_codes.exit_code(error)
    outcome = "refused" if isinstance(error, _REFUSALS) else "failed"
    if error is None and current.outcome is not None:
        outcome = "already_published" if current.outcome.already else "published"
    run = Run(name, current.job, outcome, code, stages, _certificate(current.outcome))
    write_metrics(watchers.metrics_file, run)


def _certificate(outcome: Outcome | None) -> dict[str, Any]:
    """The certificate of a published release; empty if there is none that this version can read."""
    if outcome is None:
        return {}
    try:
        content = json.loads((read_file(outcome.output, "certificate.json") or b"{}").decode())
    except (OSError, ValueError, MarqueeError):
        return {}
    return content if isinstance(content, dict) else {}
