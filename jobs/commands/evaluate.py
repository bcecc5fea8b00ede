"""marquee evaluate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobs import log
from jobs.options import AsJson, Settings


def evaluate(
    config: Annotated[Path, typer.Argument(help="The release's YAML config.")],
    settings: Settings = None,
    as_json: AsJson = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            help="Also write an HTML file, SENSITIVE as well: errors by number of attributes, marginal and answer, and "
            "scores of the synthetic rows by classifiers (extra [report]).",
        ),
    ] = None,
) -> None:
    """Compare a published release, and trivial baselines, with the exact answers. SENSITIVE: for the operator only.

    The baselines are all zeros, uniform records, and the product of the exact one-way marginals. Errors are fractions
    of the number of rows (tables) or units (baskets). "workload" is the workload error: the mean over all marginals of
    weight times L1 distance. "normalised", for linear queries only, is the mean of the L1 distance divided by twice the
    L1 norm of the exact answers.

    A release measures data that are truncated to the contribution bound. If the bound has dropped anything, the errors
    are given against the truncated data, which shows the noise, and against the whole data, which adds what was
    dropped. Rows that are invalid or contradict clustered_by_unit are in neither; marquee validate counts them.

    Examples:

        marquee evaluate adult.yaml

        marquee evaluate adult.yaml --report adult-evaluation.html
    """
    from jobs.planning.job import load_job
    from jobs.progress import bar
    from jobs.release.evaluation import comparison_json, comparison_lines, content_of
    from jobs.release.evaluation import evaluate as compare
    from jobs.sensitive import announce

    job = load_job(config, settings or ())
    if report is not None:
        from jobs.evaluation_report import write_evaluation_report

        with bar("report"):
            write_evaluation_report(job, report)
        log.warning(f"SENSITIVE: {report} contains {content_of(job)}; only its owner may read it")
    with bar("reading all data"):  # Several times, so that no part of one reading is a part of the whole.
        comparison = compare(job)
    announce(content_of(job))
    typer.echo(comparison_json(comparison) if as_json else "\n".join(comparison_lines(comparison)))
