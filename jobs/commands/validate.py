"""marquee validate"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcore.errors import InputError

if TYPE_CHECKING:
    from jobs.planning.job import Job
    from pipelines.inspect import Findings

_TREATMENT = (
    "a release maps unknown values, drops rows without a unit, and truncates units over their bound, as counted above"
)


def validate(config: Annotated[Path, typer.Argument(help="The release's YAML config.")]) -> None:
    """Check a config and read all its data once; report what a release would fold, drop or bound.

    The report is SENSITIVE: it holds exact counts, for the operator alone. A release never fails because of the values
    in a row, so this command is where unexpected values are found. The exit code is 3 when the claim clustered_by_unit
    is broken, or a column is missing or has a wrong type. Nothing is spent.

    Examples:

        marquee validate adult.yaml
    """
    from jobs.planning.job import load_job
    from pipelines.inspect import inspect_source
    from pipelines.source import SALT_BYTES, open_source

    job = load_job(config)
    source = open_source(job.config.dataset.path, job.layout, bytes(SALT_BYTES))  # No row is bounded: any salt will do.
    findings = inspect_source(source)  # SENSITIVE
    typer.echo("\n".join(_report(job, findings)))
    if findings.units_in_many_files:
        raise InputError(
            f"dataset {job.config.dataset.name!r} claims clustered_by_unit, but units of column "
            f"{job.config.dataset.unit!r} lie in more than one file; want whole units in each file, or no such claim"
        )


def _report(job: Job, findings: Findings) -> list[str]:
    """Exact counts. SENSITIVE."""
    dataset = job.config.dataset
    lines = [
        f"SENSITIVE: exact counts of dataset {dataset.name!r}, for the operator alone",
        f"rows                                {findings.rows:>14,}",
        f"units with a valid row              {findings.units:>14,}",
        f"rows without a unit (dropped)       {findings.null_units:>14,}",
        f"units over their bound (truncated)  {findings.units_over_bound:>14,}",
    ]
    if dataset.shape == "baskets":
        lines.append(f"pairs without an item (dropped)     {findings.null_items:>14,}")
        lines.append(f"items out of range (dropped)        {findings.items_out_of_range:>14,}")
    if dataset.clustered_by_unit:
        lines.append(f"units in several files (dropped)    {findings.units_in_many_files:>14,}")
    if findings.columns:
        lines.append(f"{'attribute':<24}{'null':>12}{'NaN or inf':>12}{'unknown':>12}{'clamped':>12}")
    for column in findings.columns:
        counts = (column.nulls, column.not_finite, column.unknown, column.out_of_range)
        lines.append(f"{column.attribute:<24}" + "".join(f"{count:>12,}" for count in counts))
    verdict = "every row counts exactly as it is" if findings.clean else _TREATMENT
    return [*lines, f"config, schema and columns fit; {verdict}"]
