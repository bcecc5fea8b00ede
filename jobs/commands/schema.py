"""marquee schema draft | check | json"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobs.options import AsJson, echo_result

app = typer.Typer(help="Draft, check and describe schema files. Of data only names and types of columns are read.")

Unit = Annotated[str | None, typer.Option(help="Column that identifies the unit, which is no attribute.")]
Delimiter = Annotated[str, typer.Option(help="What stands between the cells of a CSV file.")]


@app.command()
def draft(
    data: Annotated[
        Path | None, typer.Argument(help="CSV, JSON lines, Parquet, ORC or Feather; or a folder of such files.")
    ] = None,
    codebook: Annotated[
        Path | None,
        typer.Option(help="Codebook: CSV (attribute, value, label), DDI (.xml) or Frictionless table schema (.json)."),
    ] = None,
    unit: Unit = None,
    out: Annotated[Path | None, typer.Option(help="New file for the draft; by default it is printed.")] = None,
    delimiter: Delimiter = ",",
) -> None:
    """Write a commented draft of a schema from names and types of columns, a codebook, or both.

    No value is read, and nothing is inferred: the draft asks for what only a person may declare. Of a CSV file the
    first line is read, which must hold the names of the columns; of JSON lines the keys of the first line.

    Examples:

        marquee schema draft people.csv --unit person --out people.schema.yaml

        marquee schema draft --codebook people-codebook.csv

        marquee schema draft people.parquet --codebook survey.xml
    """
    from dpcore.errors import ConfigError
    from jobs.drafting.codebooks import joined, read_codebook
    from jobs.drafting.columns import read_columns
    from jobs.drafting.draft import draft as draft_of
    from jobs.drafting.draft import variables_of

    if data is None and codebook is None:
        raise ConfigError("neither data nor --codebook is given; want a file of data, a codebook, or both")
    described = () if codebook is None else read_codebook(codebook)
    columns = described if data is None else joined(variables_of(read_columns(data, delimiter)), described)
    _write(draft_of(columns, unit), out)


def _write(text: str, out: Path | None) -> None:
    from dpcore.errors import ConfigError

    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        with open(out, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{out} exists; want a new file, so that nothing you wrote is lost") from error
    except OSError as error:
        raise ConfigError(f"{out} cannot be written ({error.strerror}); want a new file in a folder") from error
    typer.echo(f"Wrote {out}. Fill in what it asks for, then run: marquee schema check {out}")


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The schema file.")],
    data: Annotated[Path | None, typer.Option(help="Data whose names and types of columns must fit.")] = None,
    unit: Unit = None,
    delimiter: Delimiter = ",",
    as_json: AsJson = False,
) -> None:
    """Check a schema file, and show the codes that each attribute has in full.

    With --data, also check that the data have every column in a type that fits. No value is read. The exit code is 2
    when the schema is unfinished or wrong, and 3 when the data do not fit.

    Examples:

        marquee schema check people.schema.yaml

        marquee schema check people.schema.yaml --data people.csv --unit person
    """
    from jobs.drafting.checking import check_columns, checked_schema, domain_lines
    from jobs.drafting.columns import read_columns

    schema = checked_schema(file)
    remarks: list[str] = []
    if data is not None:
        remarks = [f"{data} has every column of the schema, in types that fit"]
        remarks += check_columns(schema, read_columns(data, delimiter), unit, str(data))
    codes = {attribute.name: attribute.labels for attribute in schema.attributes}
    lines = [*domain_lines(schema), *remarks]
    echo_result(as_json, {"schema": str(file), "codes": codes, "remarks": remarks}, "\n".join(lines))


@app.command("json")
def json_schema() -> None:
    """Print the JSON Schema of schema files, by which editors complete and explain keys.

    Examples:

        marquee schema json > marquee.schema.json
    """
    from jobs.drafting.json_schema import schema_of_schemas

    typer.echo(schema_of_schemas())
