"""An Airflow operator that makes one release, for Airflow 2.10 and 3.

It lies in the folder of the DAGs, or on PYTHONPATH.

    MarqueeReleaseOperator(
        task_id="release",
        config="/etc/marquee/configs/people.yaml",
        settings={"dataset.snapshot": "{{ ds }}", "dataset.path": "s3://lake/people/{{ ds_nodash }}"},
    )

Airflow needs an environment of its own, because its pinned packages conflict with Marquee's. The operator therefore
starts a release as a program and does not import Marquee.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

try:
    from airflow.sdk import BaseOperator
except ImportError:  # Airflow 2.10
    from airflow.models.baseoperator import BaseOperator
try:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
except ImportError:  # Before Airflow 3.2
    from airflow.exceptions import AirflowException, AirflowFailException

# After these errors the same command would fail again, so they must not be retried. All other codes (5 ledger,
# 6 engine, 70 unexpected, 137 and 143 killed) may be retried: the release continues where it stopped, and is charged
# once.
FINAL = {2: "config", 3: "input", 4: "budget refused", 7: "integrity"}
PUBLISHED = re.compile(r"(?:already )?published(?: by version \S+)?: (?P<path>.+)")
RELEASE = re.compile(r"release (?P<release_id>[0-9a-f]{64})")


class MarqueeReleaseOperator(BaseOperator):
    """Makes one release. Its XCom is the release's id and path: ``{"release_id": ..., "path": ...}``.

    Retries are safe, whatever killed a try: the release is charged once and its noise is drawn once, as long as the
    rendered config and settings are the same in every try. Use only values that belong to the DAG run in them (``ds``,
    ``data_interval_start``), and none of the try (``ti.try_number``) or of the clock.

    config: Path of the YAML config on the worker. Templated.
    settings: Keys of the config with the values that this run gives them. Each is passed as ``--set KEY=VALUE``.
        Templated.
    command: The program before the config, with its arguments; by default ``marquee run``. Templated. On Spark, in
        client deploy mode: ``["spark-submit", "--master", "yarn", "/opt/marquee/jobs/spark_release.py", "--config"]``.
    environment: Variables beside those of the worker, for example PGPASSWORD of the ledger. Not templated, because
        Airflow shows rendered templates to everyone who may see the DAG.
    folder: Working folder of the program; by default the folder of the config.
    seconds_to_stop: How long the program may take to end after SIGTERM, before it is killed.
    """

    template_fields: Sequence[str] = ("config", "settings", "command")
    template_fields_renderers = {"settings": "json"}  # noqa: RUF012 - Airflow wants a plain dict here.
    ui_color = "#f4e3c1"

    def __init__(
        self,
        *,
        config: str,
        settings: Mapping[str, str] | None = None,
        command: Sequence[str] = ("marquee", "run"),
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        seconds_to_stop: float = 30,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self.config = config
        self.settings = dict(settings or {})
        self.command = list(command)
        self.environment = dict(environment or {})
        self.folder = folder
        self.seconds_to_stop = seconds_to_stop
        self._program: subprocess.Popen[str] | None = None
        self._is_killed = False

    def execute(self, context: Any) -> dict[str, str]:
        """Runs the release, copies what it prints to the task's log, and returns its id and path."""
        facts: dict[str, str] = {}
        with self._start(self.arguments()) as program:
            self._program = program
            if self._is_killed:  # While the program started, when ``on_kill`` did not see it yet.
                self.on_kill()
            for line in program.stdout or ():
                self.log.info("%s", line.rstrip())
                if match := PUBLISHED.fullmatch(line.rstrip()) or RELEASE.fullmatch(line.rstrip()):
                    facts |= match.groupdict()
        # A program that a signal has ended has the code that a shell would give it.
        code = program.returncode if program.returncode >= 0 else 128 - program.returncode
        if code in FINAL:
            raise AirflowFailException(f"{self.config}: exit code {code} ({FINAL[code]}); it will not be retried")
        if code:
            raise AirflowException(f"{self.config}: exit code {code}; it may be retried")
        return facts

    def on_kill(self) -> None:
        """Ends the program, and what it has started, when the task is marked or cleared or its time is up."""
        self._is_killed = True
        program = self._program
        if program is None or program.poll() is not None:
            return
        self.log.info("ending the release; a later try continues it")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGTERM)
            try:
                program.wait(self.seconds_to_stop)
            except subprocess.TimeoutExpired:
                os.killpg(program.pid, signal.SIGKILL)

    def arguments(self) -> list[str]:
        """The whole command line."""
        changes = [part for key, value in self.settings.items() for part in ("--set", f"{key}={value}")]
        return [*self.command, self.config, *changes]

    def _start(self, arguments: list[str]) -> subprocess.Popen[str]:
        try:
            return subprocess.Popen(
                arguments,
                cwd=self.folder or Path(self.config).parent,
                env={**os.environ, **self.environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,  # A group of its own, so that on_kill reaches the JVM of spark-submit too.
            )
        except OSError as error:
            raise AirflowFailException(
                f"{arguments[0]} cannot be started on this worker ({error.strerror}); want the program that makes a "
                "release, and the folder of the config"
            ) from error
