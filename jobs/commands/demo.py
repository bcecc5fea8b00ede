"""marquee demo"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Sequence
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
FILMS_EPSILON = 1.5  # Of all releases of the films: two of EPSILON compose to less.


Say = Callable[[str], None]
Table = tuple[Sequence[str], Sequence[Sequence[str]], Sequence[str]]
"""Headings, rows, and the headings that are aligned to the right."""


@dataclass(frozen=True)
class Example:
    """One release of the demo.

    name: Name of the release, from which the names of its config file and output folder follow.
    dataset: Name of the dataset, and of the folder of its data.
    title: Heading in the terminal.
    make: Function that writes the data to a folder, with a fixed seed and fixed sizes.
    config: YAML template with placeholders for the sizes.
    epsilon: The whole budget of the dataset.
    table: What is shown of the release, with its heading; None for nothing.
    """

    name: str
    dataset: str
    title: str
    make: Callable[[Path], object]
    config: Template
    epsilon: float = EPSILON
    table: tuple[str, Callable[[Path], Table]] | None = None


def demo(
    folder: Annotated[Path, typer.Argument(help="Folder for the data, configs, ledger and releases.")] = Path(
        "out/demo"
    ),
    as_json: AsJson = False,
) -> None:
    """Generate two small datasets, release them, and compare the releases with the truth.

    The first release answers which pairs of films many users have, with the mechanism clipped_gaussian. The second has
    synthetic baskets of the same users. The third answers 3-way marginals of a census-like table with AIM, and includes
    synthetic rows. The demo prints exact errors, which is harmless because the data are generated; for real data they
    are SENSITIVE. A second run finds all releases published and spends nothing.

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
        job = _make_release(folder, example, say)
        if example.table is not None and not as_json:
            _show_table(folder, *example.table)
        results.append(_show(job, say))
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), "releases": results}, indent=2))


def _silent(line: str) -> None:
    """Prints nothing, because the result is printed as a whole."""


def _generate_data(folder: Path, example: Example, say: Say) -> None:
    """Writes the data unless they exist, to a temporary folder first, so that an interrupted demo starts anew."""
    target, partial = folder / example.dataset, folder / f"{example.dataset}.partial"
    if not target.exists():
        say("generating data ...")
        shutil.rmtree(partial, ignore_errors=True)
        schema = partial.with_name(f"{partial.name}.schema.yaml")
        schema.unlink(missing_ok=True)
        example.make(partial)
        if schema.exists():
            schema.replace(folder / f"{example.dataset}.schema.yaml")
        partial.rename(target)


def _make_release(folder: Path, example: Example, say: Say) -> Job:
    from jobs.release.run import release

    path = folder / f"{example.name}.yaml"
    sizes = {"epsilon": EPSILON, "delta": DELTA, "users": USERS, "films": FILMS, "people": PEOPLE}
    path.write_text(example.config.substitute(sizes), encoding="utf-8")
    job = load_job(path)
    SqlLedger(job.config.privacy.ledger).create_dataset(example.dataset, example.epsilon, DELTA)
    say(f"marquee run {path}")
    release(job)
    return job


def _show_table(folder: Path, heading: str, table: Callable[[Path], Table]) -> None:
    from jobs.tables import echo_rows

    typer.echo(heading)
    columns, rows, right = table(folder)
    echo_rows(columns, rows, right=right)


def _top_pairs(folder: Path) -> Table:
    from jobs.showcase.pairs import COLUMNS, RIGHT, top_pairs

    answers = folder / "pairs-release" / "answers.parquet"
    return COLUMNS, top_pairs(answers, folder / "films", "user_id", "movie_id"), RIGHT


def _synthetic_baskets(folder: Path) -> Table:
    from jobs.showcase.baskets import COLUMNS, RIGHT, compared_with_truth

    synthetic = folder / "baskets-release" / "synthetic"
    return COLUMNS, compared_with_truth(synthetic, folder / "films", "user_id", "movie_id"), RIGHT


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
    if comparison.truncated.rows["product"].max > 1e-9:  # Single items are their own product.
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


_FILMS = """\
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
  max_items_per_unit: 600
  clustered_by_unit: true
privacy: {epsilon: $epsilon, delta: $delta, units: $users, ledger: sqlite:///marquee.db}
"""
_PAIRS_YAML = Template(
    f"""\
{_FILMS}\
workload: {{conjunctions: {{count: 5000, order: 2, weights: noisy_popularity, seed: 7}}}}
mechanism: {{name: clipped_gaussian}}
output: {{path: pairs-release}}
"""
)
_BASKETS_YAML = Template(
    f"""\
{_FILMS}\
workload: {{conjunctions: {{count: $films, order: 1}}}}
mechanism: {{name: basket_mixture}}
output: {{path: baskets-release}}
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
        "pairs",
        "films",
        f"{USERS:,} users x {FILMS:,} films: which pairs of films many users have, with clipped_gaussian",
        _make_films,
        _PAIRS_YAML,
        FILMS_EPSILON,
        ("the most frequent of 5,000 pairs of popular films:", _top_pairs),
    ),
    Example(
        "baskets",
        "films",
        f"the same {USERS:,} users: synthetic baskets",
        _make_films,
        _BASKETS_YAML,
        FILMS_EPSILON,
        ("synthetic baskets beside the truth, shares of the users:", _synthetic_baskets),
    ),
    Example(
        "people",
        "people",
        f"{PEOPLE:,} people in a census-like table: 3-way marginals and synthetic rows with AIM",
        _make_people,
        _PEOPLE_YAML,
    ),
)
