"""marquee validate"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcore.errors import InputError
from jobs.options import AsJson, Settings, echo_result
from pipelines.unit_names import in_words

if TYPE_CHECKING:
    from jobs.planning.job import Job
    from pipelines.inspect import Findings

_TREATMENT = (
    "a release maps unknown values, drops rows without a unit, and truncates units over the contribution bound, as "
    "counted above"
)


def validate(
    config: Annotated[Path, typer.Argument(help="The release's YAML config.")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Check a config against its data, and report what a release would map, drop or truncate.

    All data are read once, and no budget is spent. The report is SENSITIVE: it contains exact counts and is for the
    operator only. A release never fails because of the values in a row, so unexpected values show only here. The exit
    code is 3 when a column is missing or has the wrong type, when the data contradict clustered_by_unit: true, or when
    most items of baskets are none of those that the config declares; it is SENSITIVE too, because it tells this of the
    exact data.

    Examples:

        marquee validate adult.yaml
    """
    from jobs import sensitive
    from jobs.planning.job import load_job
    from jobs.progress import bar
    from jobs.release.input import check_frame
    from jobs.release.inspection import inspected
    from pipelines.engines.progress import listening

    job = load_job(config, settings or ())
    check_frame(job, None)
    with bar("reading all data") as report, listening(report):
        findings = inspected(job)  # SENSITIVE
    content = f"exact counts of dataset {job.config.dataset.name!r}"
    sensitive.announce(content)
    text = "\n".join([sensitive.mark(content), *_report(job, findings)])  # SENSITIVE
    echo_result(as_json, {sensitive.FIRST_KEY: sensitive.mark(content), **_facts(job, findings)}, text)
    if findings.units_in_many_files:
        raise InputError(
            f"dataset {job.config.dataset.name!r} claims clustered_by_unit, but some units of "
            f"{in_words(job.config.dataset.unit)} have rows in more than one file; want all rows of a unit in one "
            "file, or clustered_by_unit: false"
        )
    _check_items(job, findings)


def _check_items(job: Job, findings: Findings) -> None:
    """Raises InputError when more than half of the items of baskets are dropped, because they are not declared."""
    items = findings.rows - findings.null_items
    if 2 * findings.items_out_of_range <= items:
        return
    if isinstance(job.config.dataset.items, int):
        declared = f"0 .. {job.config.dataset.items - 1:,}"
        advice = "want dataset.items above the largest item, or a list of the items: items: {file: items.csv}"
    else:
        declared, advice = "listed in dataset.items.file", "want the list of the items that the data have"
    raise InputError(
        f"more than half of the items in column {job.config.dataset.item!r} of dataset {job.config.dataset.name!r} are "
        f"not {declared}, and would be dropped; {advice}"
    )


def _facts(job: Job, findings: Findings) -> dict[str, object]:
    """The report as a JSON object. SENSITIVE: it contains exact counts."""
    return {
        "dataset": job.config.dataset.name,
        **dataclasses.asdict(findings),
        "clean": findings.clean,
    }


def _report(job: Job, findings: Findings) -> list[str]:
    """The lines of the report. SENSITIVE: they contain exact counts."""
    dataset = job.config.dataset
    lines = [
        f"rows                                {findings.rows:>14,}",
        f"units with a valid row              {findings.units:>14,}",
        f"rows without a unit (dropped)       {findings.null_units:>14,}",
        f"units over the bound (truncated)    {findings.units_over_bound:>14,}",
    ]
    if dataset.shape == "baskets":
        lines.append(f"pairs without an item (dropped)     {findings.null_items:>14,}")
        lines.append(f"items not declared (dropped)        {findings.items_out_of_range:>14,}")
    if dataset.clustered_by_unit:
        lines.append(f"units in several files (dropped)    {findings.units_in_many_files:>14,}")
    if dataset.partition is not None:
        lines.append(f"units in too many partitions        {findings.units_in_many_partitions:>14,}")
    if findings.columns:
        lines.append(f"{'attribute':<24}{'null':>12}{'NaN or inf':>12}{'unknown':>12}{'clamped':>12}")
    for column in findings.columns:
        counts = (column.nulls, column.not_finite, column.unknown, column.out_of_range)
        lines.append(f"{column.attribute:<24}" + "".join(f"{count:>12,}" for count in counts))
    verdict = "a release would count every row unchanged" if findings.clean else _TREATMENT
    return [*lines, f"config, schema and columns agree; {verdict}"]
