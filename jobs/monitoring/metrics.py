"""A file of metrics for Prometheus, as its node exporter reads it. No figure in it is private.

Each run writes the file of its config anew, and carries on the counters that it finds there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from dpcore.errors import ConfigError, MarqueeError
from jobs import exit_codes, log
from jobs.budget_facts import epsilon_spent, not_negative
from jobs.ledger import SqlLedger
from jobs.outputs.certificate import CURRENCIES
from jobs.planning.job import Job

RELEASES: Final = "marquee_releases"
LAST_SUCCESS: Final = "marquee_last_success_timestamp_seconds"
_DRAWING_VERBS: Final = {"select", "sample"}


@dataclass(frozen=True)
class Run:
    """What metrics are told of one run. Public.

    config: Name of the config.
    job: The release; None if the config was refused.
    outcome: ``published``, ``already_published``, ``refused`` (by the budget) or ``failed``.
    code: Exit code of the run.
    stages: Duration of each stage, in seconds.
    certificate: The certificate of the published release; empty without one.
    """

    config: str
    job: Job | None
    outcome: str
    code: int
    stages: Mapping[str, float]
    certificate: Mapping[str, Any]


def check_metrics(path: Path) -> None:
    """Checks before a run that its metrics can be written.

    path: The new file, or that of an earlier run.

    Raises: ConfigError when the extra is not installed, or there is no such folder.
    """
    if find_spec("prometheus_client") is None:
        raise ConfigError("--metrics-file needs 'prometheus_client'; install marquee[metrics]")
    if not path.parent.is_dir() or path.is_dir():
        raise ConfigError(f"--metrics-file {path} cannot be written; want a file in an existing folder")


def write_metrics(path: Path, run: Run) -> None:
    """Writes the metrics of a run. A failure is one warning, because the release is already made or refused.

    path: The file.
    run: The run.
    """
    from prometheus_client import CollectorRegistry, disable_created_metrics, write_to_textfile

    without_times_of_creation: Any = disable_created_metrics  # It has no type information.
    without_times_of_creation()
    registry = CollectorRegistry()
    try:
        dataset = _carry_on(path, run, registry)
        for gauge in _gauges(run):
            _add(registry, gauge, {"config": run.config, "dataset": dataset})
        write_to_textfile(str(path), registry)
    except Exception as error:  # noqa: BLE001 - whatever the library raises on a file that it has not written
        log.warning(f"--metrics-file {path} was not written ({type(error).__name__}); the release is not affected")


@dataclass(frozen=True)
class _Gauge:
    name: str
    text: str
    values: Mapping[str, float]
    label: str | None = None


def _carry_on(path: Path, run: Run, registry: Any) -> str:
    """Adds what goes on from run to run: the counter, and the time of the last success. Returns the dataset's name.

    A run whose config was refused has no dataset of its own, so that of the file's last run stays.
    """
    from prometheus_client import Counter
    from prometheus_client.parser import text_string_to_metric_families

    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    earlier = [sample for sample in samples if sample.labels.get("config") == run.config]
    dataset = next((sample.labels["dataset"] for sample in earlier), "")
    if run.job is not None:
        dataset = run.job.config.dataset.name
    labels = ("config", "dataset", "outcome", "exit_code")
    counter = Counter(RELEASES, "Runs by outcome and exit code.", labels, registry=registry)
    for sample in earlier:
        if sample.name == f"{RELEASES}_total":
            counter.labels(**sample.labels).inc(sample.value)
    counter.labels(run.config, dataset, run.outcome, str(run.code)).inc()
    success = [sample.value for sample in earlier if sample.name == LAST_SUCCESS]
    if run.code == exit_codes.DONE:
        success = [time.time()]
    if success:
        text = "Time of the last run that ended with a published release."
        _add(registry, _Gauge(LAST_SUCCESS, text, {"": success[0]}), {"config": run.config, "dataset": dataset})
    return dataset


def _add(registry: Any, gauge: _Gauge, labels: Mapping[str, str]) -> None:
    from prometheus_client import Gauge

    names = [*labels, gauge.label] if gauge.label else list(labels)
    made = Gauge(gauge.name, gauge.text, names, registry=registry)
    for value_of_label, value in gauge.values.items():
        made.labels(*labels.values(), *([value_of_label] if gauge.label else [])).set(value)


def _gauges(run: Run) -> list[_Gauge]:
    found = [
        _Gauge("marquee_last_run_timestamp_seconds", "Time at which the last run ended.", {"": time.time()}),
        _Gauge("marquee_last_run_exit_code", "Exit code of the last run.", {"": run.code}),
        _Gauge("marquee_stage_seconds", "Duration of each stage of the last run.", run.stages, "stage"),
    ]
    if run.certificate:
        charges = run.certificate["charges"]
        draws = sum(charge.get("verb") in _DRAWING_VERBS for charge in charges)
        answers = run.certificate["workload"]["answers"]
        found += [
            _Gauge("marquee_release_answers", "Answers of the published release.", {"": answers}),
            _Gauge("marquee_release_kernel_calls", "Charged calls of the kernel.", {"": len(charges)}),
            _Gauge("marquee_release_rounds", "Charged selections and samples among them.", {"": draws}),
        ]
    return found + ([] if run.job is None else _budget_gauges(run.job))


def _budget_gauges(job: Job) -> list[_Gauge]:
    """What the ledger has granted and charged to the dataset; nothing if the ledger cannot say."""
    privacy = job.config.privacy
    try:
        budget = SqlLedger(privacy.ledger).dataset(job.config.dataset.name, privacy.epsilon, privacy.delta)
    except MarqueeError:
        return []
    if budget.currency is None or budget.total is None:
        return []
    unit = CURRENCIES[budget.currency]
    amounts = {"spent": budget.spent, "total": budget.total, "remaining": not_negative(budget.remaining)}
    found = [
        _Gauge(f"marquee_budget_{name}", f"Budget of the dataset: {name}.", {unit: float(amount)}, "currency")
        for name, amount in amounts.items()
    ]
    epsilons = {"spent": epsilon_spent(budget, budget.currency), "total": budget.epsilon}
    text = "Epsilon of these amounts at the delta of the total; epsilons do not add up."
    return [*found, _Gauge("marquee_budget_epsilon", text, epsilons, "part")]
