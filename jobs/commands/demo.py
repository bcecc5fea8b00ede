"""marquee demo"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.ledger import SqlLedger
from jobs.options import AsJson
from jobs.planning.job import Job, load_job

if TYPE_CHECKING:
    from jobs.release.evaluation import Comparison

USERS, FILMS, PAIRS = 20_000, 2_000, 1_500_000
PEOPLE = 20_000
FILES = 2
EPSILON, DELTA = 1.0, 1e-6


Say = Callable[[str], None]


@dataclass(frozen=True)
class Example:
    """One release of the demo.

    name: Name of the dataset, from which the names of its config file and output folder follow.
    title: Heading in the terminal.
    make: Function that writes the data to a folder, with a fixed seed and fixed sizes.
    config: YAML template with placeholders for the sizes.
    """

    name: str
    title: str
    make: Callable[[Path], object]
    config: Template


def demo(
    folder: Annotated[Path, typer.Argument(help="Folder for the data, configs, ledger and releases.")] = Path(
        "out/demo"
    ),
    as_json: AsJson = False,
) -> None:
    """Generate two small datasets, release them, and compare the releases with the truth.

    The first release answers 3-way conjunctions about baskets of films with the mechanism clipped_gaussian. The second
    answers 3-way marginals of a census-like table with AIM, and includes synthetic rows. The demo prints exact errors,
    which is harmless because the data are generated; for real data they are SENSITIVE. A second run finds both releases
    published and spends nothing.

    Examples:

        marquee demo

        marquee demo /tmp/demo
    """
    folder.mkdir(parents=True, exist_ok=True)
    say = _silent if as_json else typer.echo
    results = []
    for number, example in enumerate(EXAMPLES, 1):
        say(f"\n{number}/{len(EXAMPLES)}  {example.title}")
        _generate_data(folder, example, say)
        results.append(_show(_make_release(folder, example, say), say))
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), "releases": results}, indent=2))


def _silent(line: str) -> None:
    """Prints nothing, because the result is printed as a whole."""


def _generate_data(folder: Path, example: Example, say: Say) -> None:
    """Writes the data unless they exist, to a temporary folder first, so that an interrupted demo starts anew."""
    target, partial = folder / example.name, folder / f"{example.name}.partial"
    if not target.exists():
        say("generating data ...")
        shutil.rmtree(partial, ignore_errors=True)
        schema = partial.with_name(f"{partial.name}.schema.yaml")
        schema.unlink(missing_ok=True)
        example.make(partial)
        if schema.exists():
            schema.replace(folder / f"{example.name}.schema.yaml")
        partial.rename(target)


def _make_release(folder: Path, example: Example, say: Say) -> Job:
    from jobs.release.run import release

    path = folder / f"{example.name}.yaml"
    sizes = {"epsilon": EPSILON, "delta": DELTA, "users": USERS, "films": FILMS, "people": PEOPLE}
    path.write_text(example.config.substitute(sizes), encoding="utf-8")
    job = load_job(path)
    SqlLedger(job.config.privacy.ledger).create_dataset(example.name, EPSILON, DELTA)
    say(f"marquee run {path}")
    release(job)
    return job


def _show(job: Job, say: Say) -> dict[str, object]:
    """Prints the errors of the release, a summary of its certificate, and its files; returns the same facts."""
    from jobs.objects.output import read_file
    from jobs.release.evaluation import evaluate, table_lines

    comparison = evaluate(job)
    certificate = json.loads(read_file(job.output, "certificate.json") or b"")
    guarantee = certificate["guarantee"]
    say(
        f"exact errors of {comparison.queries:,} answers, as fractions of the number of units (the data are generated, "
        "not real):"
    )
    for line in table_lines(comparison.truncated):
        say(f"  {line}")
    say(_advantage(comparison))
    say("certificate:")
    say(f"  {guarantee['promise']}")
    cost = f"{guarantee['currency']} {guarantee['reserved_in_the_ledger']['amount_as_number']:.6g}"
    say(f"  {cost} charged once to dataset {job.config.dataset.name!r}, for {len(certificate['charges'])} kernel calls")
    rows = certificate["synthetic_rows"]
    say(f"  mechanism {certificate['mechanism']['name']}, " + (f"{rows:,} synthetic rows" if rows else "answers only"))
    schema = ["schema.json"] if job.config.dataset.shape == "table" else []
    files = ["answers.parquet", *(["synthetic/"] if rows else []), "certificate.json", *schema, "manifest.json"]
    say(f"files: {job.config.output.path}/ ({', '.join(files)})")
    return {
        "dataset": job.config.dataset.name,
        "release_id": job.release_id,
        "output": job.config.output.path,
        "promise": guarantee["promise"],
        "errors": dataclasses.asdict(comparison.truncated),
    }


def _advantage(comparison: Comparison) -> str:
    """One sentence that compares the errors of the release with those of the best trivial baseline."""
    release, *trivial = (comparison.truncated.rows[name] for name in ("release", "zeros", "uniform", "product"))
    largest = min(answers.max for answers in trivial) / release.max
    mean = min(answers.mean for answers in trivial) / release.mean
    return (
        f"compared with the best trivial baseline, the maximum error is {largest:.1f} times smaller, and the mean "
        f"error {mean:.1f} times"
    )


def _make_films(folder: Path) -> None:
    from pipelines.generate.baskets import write_baskets

    write_baskets(folder, users=USERS, films=FILMS, pairs=PAIRS, files=FILES, seed=1)


def _make_people(folder: Path) -> None:
    from pipelines.generate.table import write_table

    write_table(folder, rows=PEOPLE, files=FILES, seed=1)


_FILMS_YAML = Template(
    """\
# Written by marquee demo. Paths are relative to the folder of this file.
version: 1
dataset:
  name: films
  snapshot: demo
  path: films
  shape: baskets
  unit: user_id
  item: movie_id
  items: $films
  max_items_per_unit: 200
  clustered_by_unit: true
privacy: {epsilon: $epsilon, delta: $delta, units: $users, ledger: sqlite:///marquee.db}
workload: {conjunctions: {count: 5000, order: 3, weights: noisy_popularity, seed: 7}}
mechanism: {name: clipped_gaussian}
output: {path: films-release}
"""
)
_PEOPLE_YAML = Template(
    """\
# Written by marquee demo. Paths are relative to the folder of this file.
version: 1
dataset:
  name: people
  snapshot: demo
  path: people
  shape: table
  unit: person_id
  schema: people.schema.yaml
privacy: {epsilon: $epsilon, delta: $delta, units: $people, ledger: sqlite:///marquee.db}
workload: {marginals: {order: 3, attributes: [age, sex, schooling, marital, occupation, children, owns_home]}}
mechanism: {name: aim}
output: {path: people-release}
"""
)

EXAMPLES = (
    Example(
        "films",
        f"{USERS:,} users x {FILMS:,} films: 3-way conjunctions with clipped_gaussian",
        _make_films,
        _FILMS_YAML,
    ),
    Example(
        "people",
        f"{PEOPLE:,} people in a census-like table: 3-way marginals and synthetic rows with AIM",
        _make_people,
        _PEOPLE_YAML,
    ),
)
