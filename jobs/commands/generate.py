"""marquee generate baskets | table | rows"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from jobs.options import AsJson, Settings, echo_result
from jobs.progress import bar
from jobs.wording import number_of

app = typer.Typer(help="Generate example data, or more synthetic rows of a published release.")

Folder = Annotated[Path, typer.Argument(help="A new or empty folder.")]
Files = Annotated[int, typer.Option(help="Number of Parquet files.")]
Seed = Annotated[int, typer.Option(help="Public seed; the same sizes and seed give the same data.")]


@app.command()
def baskets(
    out: Folder,
    users: Annotated[int, typer.Option(help="Number of users.")] = 20_000,
    films: Annotated[int, typer.Option(help="Number of films.")] = 2_000,
    pairs: Annotated[int, typer.Option(help="Approximate number of (user, film) pairs.")] = 1_000_000,
    files: Files = 4,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Generate Netflix-like baskets: pairs of user_id and movie_id, with all pairs of a user in one file.

    Examples:

        marquee generate baskets data/small

        marquee generate baskets data/netflix --users 480189 --films 17770 --pairs 100480507 --files 64
    """
    from pipelines.generate.baskets import write_baskets

    threads = len(os.sched_getaffinity(0))
    with bar("users") as report:
        done = 0

        def count_written(count: int) -> None:
            nonlocal done
            done += count
            report(done, users)

        paths = write_baskets(
            out, users=users, films=films, pairs=pairs, files=files, seed=seed, threads=threads, progress=count_written
        )
    what = f"baskets of {number_of(users, 'user')}"
    echo_result(as_json, {**_written(out, paths), "users": users}, _wrote(what, out, len(paths)))


@app.command()
def table(
    out: Annotated[Path, typer.Argument(help="A new or empty folder, or the name of a CSV file.")],
    rows: Annotated[int, typer.Option(help="Number of people, one row each.")] = 50_000,
    files: Annotated[
        int | None, typer.Option(help="Number of Parquet files; two by default, or one for few rows.")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Generate a census-like table, and its schema OUT.schema.yaml.

    Examples:

        marquee generate table data/census --rows 50000

        marquee generate table census.csv
    """
    from pipelines.generate.table import write_table

    schema = write_table(out, rows=rows, files=files, seed=seed)
    facts = {"rows": rows, "schema": str(schema)}
    if out.is_file():
        echo_result(
            as_json, {"file": str(out), **facts}, f"Wrote {number_of(rows, 'row')} to {out}. The schema is {schema}."
        )
        return
    written = len(list(out.glob("*.parquet")))
    facts = {"folder": str(out), "files": written, **facts}
    echo_result(as_json, facts, f"{_wrote(number_of(rows, 'row'), out, written)} The schema is {schema}.")


@app.command()
def rows(
    config: Annotated[Path, typer.Argument(help="The YAML config of a published release.")],
    out: Folder,
    rows: Annotated[int, typer.Option(help="Number of synthetic rows; any number costs no budget.")],
    seed: Annotated[int, typer.Option(help="Public seed; the same release, rows and seed give the same rows.")] = 0,
    engine: Annotated[
        Literal["local", "spark", "beam"] | None,
        typer.Option(help="Engine that draws the rows, which are the same on all; the config's engine by default."),
    ] = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Draw more synthetic rows from the model of a published release, of a table or of baskets. This costs no budget.

    Up to 10 million rows are drawn by threads of this process, whatever the engine.

    Examples:

        marquee generate rows adult.yaml data/adult-synthetic --rows 10000000

        marquee generate rows adult.yaml data/adult-synthetic --rows 500000000 --engine spark
    """
    from dpcore.errors import ConfigError
    from jobs.config import EngineChoice
    from jobs.planning.job import load_job
    from jobs.release.more_rows import write_more_rows

    if (scheme := re.match(r"[a-z0-9]{2,}:/", str(out))) is not None:
        raise ConfigError(
            f"OUT is in a store {scheme[0]}/; want a local folder, whose files a store's own tools can copy"
        )
    job = load_job(config, settings or ())
    own = job.config.engine
    choice = own if engine in (None, own.name) else EngineChoice(name=engine)
    with bar("synthetic rows") as report:
        paths = write_more_rows(job, out, rows, seed, report, choice)
    echo_result(as_json, {**_written(out, paths), "rows": rows}, _wrote(number_of(rows, "row"), out, len(paths)))


def _wrote(what: str, folder: Path, files: int) -> str:
    return f"Wrote {what} to {folder}/ ({number_of(files, 'file')})."


def _written(folder: Path, paths: Sequence[Path]) -> dict[str, object]:
    return {"folder": str(folder), "files": len(paths)}
