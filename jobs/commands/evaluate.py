"""marquee evaluate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    config: Annotated[Path, typer.Argument(help="The release's YAML config.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare a published release with the exact answers, beside trivial ones. SENSITIVE: for the operator alone.

    The baselines are all zeros, uniform records, and the product of exact one-way marginals. Errors are fractions of
    the number of rows or units. "workload" is the mean over marginals of the weight times the L1 distance.
    "normalised", for linear queries, is the mean of the L1 distance over twice the norm of the exact answers.

    Examples:

        marquee evaluate adult.yaml
    """
    from jobs.planning.job import load_job
    from jobs.release.evaluation import comparison_json, comparison_lines
    from jobs.release.evaluation import evaluate as compare

    comparison = compare(load_job(config))
    if as_json:
        typer.echo(comparison_json(comparison))
        return
    typer.echo(f"SENSITIVE: measured against exact answers, for the operator alone ({comparison.queries:,} queries)")
    typer.echo("\n".join(comparison_lines(comparison)))
