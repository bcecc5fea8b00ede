"""marquee itemsets"""

from __future__ import annotations

import json
from typing import Annotated

import typer


def itemsets(
    folder: Annotated[str, typer.Argument(help="The folder of a published release of itemsets, or its URL.")],
    top: Annotated[int, typer.Option("--top", min=1, help="Number of itemsets of each size, and of rules.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the most frequent itemsets of a published release, and their association rules.

    The first rules have the largest lower bound of lift.

    All intervals of the release hold together with probability 95 %: lower ends of counts for any data, the other ends
    if clipping removes at most twice the expected loss plus one standard deviation. No data are read, and no budget is
    spent.

    Examples:

        marquee itemsets out/baskets

        marquee itemsets out/baskets --top 50
    """
    from jobs.objects.output import local_copy, output_of
    from jobs.reading.itemset_tables import LEFT, itemsets_of_each_size, titled_tables
    from jobs.reading.release_folder import ReleaseFolder
    from jobs.tables import echo_rows

    names = ["_SUCCESS", "certificate.json", "items.parquet", "itemsets.parquet", "rules.parquet"]
    with local_copy(output_of("FOLDER", folder), names) as local:
        release = ReleaseFolder.open(local)
        if as_json:
            rules = release.rules.slice(0, top).to_pylist()
            typer.echo(json.dumps({"itemsets": itemsets_of_each_size(release, top), "rules": rules}, indent=2))
            return
        for title, header, rows in titled_tables(release, top):
            typer.echo(f"{title}:")
            echo_rows(header, rows, right=[name for name in header if name not in LEFT])
