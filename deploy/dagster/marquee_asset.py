"""A Dagster asset that makes one release; its partitions are the days of the data.

Dagster runs in an environment of its own, as any scheduler of Marquee. Give the asset to ``Definitions``:

    defs = Definitions(assets=[release_asset("people_release", "/etc/marquee/people.yaml", deps=["people"])])
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dagster import (
    AssetsDefinition,
    Backoff,
    Failure,
    Jitter,
    MaterializeResult,
    PartitionsDefinition,
    RetryPolicy,
    asset,
)

# After these errors the same command would fail again. All others may be retried: the release continues where it
# stopped, and is charged once.
FINAL = {2: "config", 3: "input", 4: "budget refused", 7: "integrity"}
RETRIES = RetryPolicy(max_retries=5, delay=120, backoff=Backoff.EXPONENTIAL, jitter=Jitter.PLUS_MINUS)
PUBLISHED = re.compile(r"(?:already )?published(?: by version \S+)?: (?P<path>.+)")
RELEASE = re.compile(r"release (?P<release_id>[0-9a-f]{64})")


def release_asset(
    name: str,
    config: str,
    *,
    command: Sequence[str] = ("marquee", "run"),
    settings: Mapping[str, str] | None = None,
    deps: Iterable[str] = (),
    partitions: PartitionsDefinition | None = None,
    retries: RetryPolicy = RETRIES,
) -> AssetsDefinition:
    """An asset whose materialization is one release. Its metadata are the release's id and path.

    name: Of the asset.
    config: Path of the YAML config.
    command: The program before the config, with its arguments.
    settings: Keys of the config with their values, each passed as ``--set KEY=VALUE``; ``{partition}`` in a value is
        the key of the partition, for example ``{"dataset.snapshot": "{partition}"}``.
    deps: The assets that hold the data.
    partitions: Of the asset. Each partition is a release of its own, with a charge of its own.
    retries: How errors that may pass are tried again.
    """

    @asset(name=name, deps=list(deps), partitions_def=partitions, retry_policy=retries, compute_kind="marquee")
    def release(context) -> MaterializeResult:  # Dagster reads no annotation that is not evaluated.
        key = context.partition_key if context.has_partition_key else ""
        filled = {setting: value.replace("{partition}", key) for setting, value in (settings or {}).items()}
        changes = [part for setting, value in filled.items() for part in ("--set", f"{setting}={value}")]
        facts: dict[str, str] = {}
        with subprocess.Popen(
            [*command, config, *changes], cwd=Path(config).parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace",
        ) as program:  # fmt: skip
            for line in map(str.rstrip, program.stdout or ()):
                context.log.info(line)
                if match := PUBLISHED.fullmatch(line) or RELEASE.fullmatch(line):
                    facts |= match.groupdict()
        code = program.returncode if program.returncode >= 0 else 128 - program.returncode
        if code:
            why = FINAL.get(code, "may be retried")
            raise Failure(f"{config}: exit code {code} ({why})", allow_retries=code not in FINAL)
        return MaterializeResult(metadata=facts)

    return release
