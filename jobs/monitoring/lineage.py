"""OpenLineage events of a run: START, then COMPLETE, FAIL or ABORT. A catalog learns what was released from what.

Events are sent if the client's own configuration says where (its variables or its file ``openlineage.yml``). They are
sent in the background. At its end, a run waits for them no longer than the client's timeout, and whatever goes wrong is
one warning.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from dpcore.errors import ConfigError
from jobs import exit_codes, log
from jobs.monitoring.facet import NAME, PRODUCER, privacy_facet
from jobs.planning.identity import bound_path, is_name

if TYPE_CHECKING:
    from jobs.planning.job import Job

DEFAULT_TIMEOUT: Final = 5.0
"""Seconds that a run waits for a transport that names no timeout."""

NAMESPACE: Final = "marquee"
_OBJECT_STORES: Final = {"s3", "gs", "abfss"}  # Names of objects do not begin with a slash.


class Lineage:
    """Sends the events of one run.

    job: The release.
    name: Name of its config, which is part of the name of the lineage job, so that all snapshots are runs of one job.
    """

    def __init__(self, job: Job, name: str) -> None:
        self._job = job
        self._name = f"{job.config.dataset.name}.{name}"
        self._sender = _Sender()
        self._send("START", {}, None)

    def complete(self, ledger_id: str | None) -> None:
        """Says that the release is published.

        ledger_id: Id of the ledger that was charged.
        """
        self._send("COMPLETE", {}, ledger_id)
        self._sender.finish()

    def fail(self, error: BaseException) -> None:
        """Says that the run has failed, or that it was interrupted. The message is the one that the user sees."""
        text = f"exit code {exit_codes.exit_code(error)}: {exit_codes.sentence(error)}"
        self._send("ABORT" if isinstance(error, KeyboardInterrupt) else "FAIL", {"message": text}, None)
        self._sender.finish()

    def _send(self, state: str, failure: Mapping[str, str], ledger_id: str | None) -> None:
        now = datetime.now(UTC).isoformat()
        self._sender.send(lambda run_id: _event(self._job, self._name, state, now, run_id, failure, ledger_id))


def open_lineage(job: Job, name: str) -> Lineage | None:
    """Begins the lineage of a run; None if OpenLineage is not configured, disabled, or its client is not installed.

    job: The release.
    name: Name of its config.
    """
    if not is_configured():
        return None
    if find_spec("openlineage") is None:
        log.warning("OpenLineage is configured, but its client is not installed; install marquee[lineage]")
        return None
    return Lineage(job, name)


def is_configured() -> bool:
    """Whether the client's own variables or files say where events go."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    named = {"OPENLINEAGE_URL", "OPENLINEAGE_CONFIG"} & os.environ.keys()
    transport = any(name.startswith("OPENLINEAGE__TRANSPORT") for name in os.environ)
    files = (Path("openlineage.yml"), Path("~/.openlineage/openlineage.yml").expanduser())
    return bool(named) or transport or any(file.is_file() for file in files)


def dataset_name(path: str) -> tuple[str, str]:
    """Namespace and name of data in OpenLineage, by its naming rules. A glob is named by the folder that is bound.

    path: ``dataset.path`` of a config. Credentials in a URL are left out.
    """
    bound = bound_path(path)
    if is_name(bound):
        kind, _, name = bound.partition(":")
        return kind, name
    scheme, is_url, rest = bound.partition("://")
    if not is_url:
        return "file", bound
    host, _, folder = rest.partition("/")
    return f"{scheme}://{host}", (folder if scheme in _OBJECT_STORES else f"/{folder}") or "/"


class _Sender:
    """A thread of its own sends the events in order, so that a slow receiver delays nothing but the end of the run."""

    def __init__(self) -> None:
        self._events: SimpleQueue[Callable[[str], Any] | None] = SimpleQueue()
        self._timeout = DEFAULT_TIMEOUT
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="openlineage", daemon=True)
        self._thread.start()

    def send(self, make: Callable[[str], Any]) -> None:
        """Sends an event, which is made from the id of the run."""
        self._events.put(make)

    def finish(self) -> None:
        """Waits until all events are sent, but no longer than the client's timeout. Warns once if one was not."""
        self._events.put(None)
        self._thread.join(self._timeout)
        if self._thread.is_alive():
            self._problem = f"no answer within {self._timeout:g} seconds"
        if self._problem is not None:
            log.warning(f"OpenLineage events were not all sent ({self._problem}); the release is not affected")

    def _run(self) -> None:
        try:
            client, run_id = self._connected()
            while (make := self._events.get()) is not None:
                try:
                    client.emit(make(run_id))
                except Exception as error:  # noqa: BLE001 - whatever a transport raises
                    self._problem = _described(error)
            client.close(self._timeout)
        except Exception as error:  # noqa: BLE001 - a wrong configuration of the client, in a thread of its own
            self._problem = _described(error)

    def _connected(self) -> tuple[Any, str]:
        """The client and the id of this run."""
        _quiet_loggers()
        from openlineage.client import OpenLineageClient
        from openlineage.client.uuid import generate_new_uuid

        client = OpenLineageClient()
        if client.transport.kind == "console" and (client.config.transport or {}).get("type") != "console":
            raise ConfigError("the client found no transport in its configuration")  # It would print the events.
        self._timeout = float(getattr(client.transport, "timeout", DEFAULT_TIMEOUT))
        return client, str(generate_new_uuid())


def _described(error: Exception) -> str:
    """What went wrong, without the message of a library, which may contain a key of the receiver."""
    return str(error) if isinstance(error, ConfigError) else type(error).__name__


def _quiet_loggers() -> None:
    """Keeps the client's own lines off stderr: one warning says what they would. Its variable brings them back."""
    if "OPENLINEAGE_CLIENT_LOGGING" in os.environ:
        return
    warnings.filterwarnings("ignore", module="urllib3")  # It warns of what it cannot do when it is imported.
    logging.getLogger("openlineage").addHandler(logging.NullHandler())
    logging.getLogger("openlineage").propagate = False
    sender = threading.get_ident()
    logging.getLogger("urllib3.connectionpool").addFilter(lambda record: record.thread != sender)


def _event(
    job: Job, name: str, state: str, now: str, run_id: str, failure: Mapping[str, str], ledger_id: str | None
) -> Any:
    from openlineage.client import event_v2
    from openlineage.client.facet_v2 import dataset_version_dataset, error_message_run, set_producer

    set_producer(PRODUCER)
    facet = privacy_facet(job, ledger_id)
    facets: dict[str, Any] = {NAME: facet}
    if failure:
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(programmingLanguage="python", **failure)
    version = dataset_version_dataset.DatasetVersionDatasetFacet
    read = event_v2.InputDataset(
        *dataset_name(job.config.dataset.root), facets={"version": version(job.config.dataset.snapshot)}
    )
    facets_of_output: dict[str, Any] = {"version": version(job.release_id), NAME: facet}
    made = event_v2.OutputDataset(*dataset_name(str(job.output)), facets=facets_of_output)
    return event_v2.RunEvent(
        eventType=event_v2.RunState[state],
        eventTime=now,
        producer=PRODUCER,
        run=event_v2.Run(runId=run_id, facets=facets),
        job=event_v2.Job(os.environ.get("OPENLINEAGE_NAMESPACE") or NAMESPACE, name),
        inputs=[read],
        outputs=[made],
    )
