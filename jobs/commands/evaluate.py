"""marquee evaluate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    config: Annotated[Path, typer.Argument(help="The release's YAML config.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare a published release, and trivial baselines, with the exact answers. SENSITIVE: for the operator only.

    The baselines are all zeros, uniform records, and the product of the exact one-way marginals. Errors are fractions
    of the number of rows (tables) or units (baskets). "workload" is the workload error: the mean over all marginals of
    weight times L1 distance. "normalised", for linear queries only, is the mean of the L1 distance divided by twice the
    L1 norm of the exact answers.

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
    typer.echo(f"SENSITIVE: compared with the exact answers, for the operator only ({comparison.queries:,} queries)")
    typer.echo("\n".join(comparison_lines(comparison)))
