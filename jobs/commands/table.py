"""marquee table"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def table(
    folder: Annotated[str, typer.Argument(help="The folder of a published release of a table, or its URL.")],
    attributes: Annotated[
        list[str] | None, typer.Argument(help="Attributes of the marginal; the last one runs across the columns.")
    ] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the counts to a CSV file, one line each.")] = None,
    xlsx: Annotated[
        Path | None, typer.Option("--xlsx", help="Write the counts to a spreadsheet (extra [xlsx]), one row each.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show a marginal of a published release as a table, with margins and 95 % intervals.

    Without attributes, it lists the marginals that the release answers. A marginal that is not among them comes from
    the release's graphical model, if there is one. No data are read, and no budget is spent.

    Examples:

        marquee table out/people

        marquee table out/people sex owns_home

        marquee table out/people region sex --csv region-sex.csv
    """
    from jobs.objects.output import local_copy, output_of
    from jobs.reading.release_folder import ReleaseFolder

    names = ["_SUCCESS", "certificate.json", "answers.parquet", "model.npz"]
    with local_copy(output_of("FOLDER", folder), names) as local:
        release = ReleaseFolder.open(local)
        if attributes:
            _show(release, attributes, csv, xlsx, as_json=as_json)
        else:
            _list(release, as_json=as_json)


def _show(release: object, attributes: list[str], csv: Path | None, xlsx: Path | None, *, as_json: bool) -> None:
    from jobs.reading.cross_table import CrossTable
    from jobs.reading.release_folder import ReleaseFolder

    assert isinstance(release, ReleaseFolder)
    made = CrossTable.of(release, attributes)
    if csv is not None:
        csv.write_text(made.to_csv(), encoding="utf-8")
    if xlsx is not None:
        made.write_xlsx(xlsx)
    if as_json:
        records = [dict(zip(made.columns, record, strict=True)) for record in made.records()]
        typer.echo(json.dumps({"source": made.whole.source, "counts": records}, indent=2))
    elif csv is None and xlsx is None:
        typer.echo(made.to_text())
    for path in (csv, xlsx):
        if path is not None and not as_json:
            typer.echo(f"Wrote {sum(1 for _ in made.records()):,} counts to {path}.")


def _list(release: object, *, as_json: bool) -> None:
    from jobs.reading.marginals import published_marginals
    from jobs.reading.release_folder import ReleaseFolder

    assert isinstance(release, ReleaseFolder)
    marginals = published_marginals(release)
    if as_json:
        typer.echo(json.dumps({"marginals": marginals}, indent=2))
        return
    for names in marginals:
        typer.echo(" ".join(names) or "(the number of rows)")
    if release.model is not None:
        typer.echo("The release has a graphical model, which answers every other marginal of its attributes too.")
