"""marquee budget create | grant | move | show | history"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import accumulate
from typing import Annotated

import typer

from dpcore.errors import ConfigError
from dpcore.kernel.budget import Currency
from dpcore.kernel.sensitivity import Neighbours
from jobs import log
from jobs.arguments import check_line, check_name, table_version
from jobs.budget_facts import consumer_facts, dataset_facts, history_facts, ledger_facts
from jobs.budget_lines import (
    BUDGET_COLUMNS,
    HOW_TO_ADD,
    block_lines,
    budget_row,
    charge_line,
    consumer_line,
    dataset_line,
    grant_line,
)
from jobs.config import LARGEST_EPSILON, LARGEST_QUIET_DELTA
from jobs.ledger import DEFAULT_LEDGER, SqlLedger
from jobs.ledger.partitioning import Partitioning
from jobs.ledger.protection import protection_of_bounds
from jobs.ledger.records import Accounting, DatasetBudget
from jobs.ledger.windows import Window
from jobs.options import AsJson, echo_result
from jobs.tables import echo_rows, is_for_people
from pipelines.partition import UnitsIn

app = typer.Typer(help="Manage the privacy budgets of datasets, and the limits of the consumers that share them.")

LedgerUrl = Annotated[
    str,
    typer.Option(
        "--ledger", help="Database URL of the ledger. The path of a SQLite file may be relative to the working folder."
    ),
]
Name = Annotated[str, typer.Option("--dataset", help="Name of the dataset, as in dataset.name of configs.")]
Delta = Annotated[
    float, typer.Option(help="Delta of the guarantee: 0 for pure differential privacy, otherwise a value such as 1e-6.")
]


@app.command()
def create(
    dataset: Name,
    epsilon: Annotated[float, typer.Option(help="Total epsilon that all releases of the dataset may ever spend.")],
    delta: Delta,
    accounting: Annotated[
        Accounting,
        typer.Option(
            help="Accounting of a budget with delta > 0. zcdp accepts every release. gdp accepts only pure and "
            "Gaussian-DP releases, and charges them less. With auto, the first release fixes the accounting (zCDP or "
            "Gaussian DP)."
        ),
    ] = Accounting.AUTO,
    consumers_only: Annotated[
        bool, typer.Option("--consumers-only", help="Refuse releases that name no privacy.consumer.")
    ] = False,
    unit: Annotated[
        str | None,
        typer.Option(
            help="Column whose units the total protects, as in dataset.unit; for several columns their JSON "
            'list, such as ["household", "person"], in any order. Releases for units of another column are refused, '
            "because losses of different units do not add up. Without it, the first release binds its column."
        ),
    ] = None,
    rows_per_unit: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1 << 53,
            help="Maximum number of rows of a unit, for the record. Releases may use another bound: the total protects "
            "a unit with all its rows.",
        ),
    ] = None,
    items_per_unit: Annotated[
        int | None, typer.Option(min=1, max=1 << 53, help="As --rows-per-unit, for the items of baskets.")
    ] = None,
    neighbours: Annotated[
        Neighbours | None,
        typer.Option(
            help="Neighbouring relation of the total, as in privacy.neighbours. In a replace_one_unit total, a release "
            "for add_remove_unit costs 2 epsilon, 4 rho or 4 mu^2; the reverse is refused. Without it, the first "
            "release binds its relation."
        ),
    ] = None,
    shares_with: Annotated[
        str | None,
        typer.Option(
            help="Another dataset whose data this dataset may use too. Nothing then bounds what a person loses through "
            "both; needs --reason."
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="Reason for --shares-with, which is recorded.")] = "",
    partitioned_by: Annotated[
        str | None,
        typer.Option(
            help="Column that divides the dataset into partitions for ever, as in dataset.partition. A release of some "
            "partitions is charged to these alone, and the dataset shows what a unit can have lost."
        ),
    ] = None,
    units_in: Annotated[
        UnitsIn | None,
        typer.Option(
            help="one_partition: releases of partitions count no unit with rows in several, and the dataset has spent "
            "the largest sum of a partition. many_partitions: units return, and the charges of partitions add up."
        ),
    ] = None,
    max_partitions_per_unit: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1 << 53,
            help="With many_partitions: a unit is counted in its first K partitions, and the dataset has spent the K "
            "largest sums of partitions.",
        ),
    ] = None,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """Create the budget of a dataset.

    For an existing budget, the same command may bind --unit, --neighbours and --partitioned-by while they are open.

    Examples:

        marquee budget create --dataset adult --epsilon 3 --delta 1e-6

        marquee budget create --dataset adult --epsilon 3 --delta 1e-6 --accounting gdp --consumers-only

        marquee budget create --dataset adult --epsilon 3 --delta 1e-6 --unit person_id --neighbours add_remove_unit

        marquee budget create --ledger sqlite:///marquee.db --dataset adult --epsilon 1 --delta 0

        marquee budget create --dataset shops --epsilon 1 --delta 0 --partitioned-by region --units-in one_partition
    """
    _check(dataset, epsilon, delta)
    check_line("--reason", reason)
    for option, name in (("--unit", unit), ("--shares-with", shares_with), ("--partitioned-by", partitioned_by)):
        if name is not None:
            check_name(option, name)
    sql_ledger = SqlLedger(ledger)
    if delta > LARGEST_QUIET_DELTA:
        log.warning("--delta is large; want at most 1e-5, and far less than 1 / number of units")
    created = sql_ledger.create_dataset(
        dataset,
        epsilon,
        delta,
        accounting=accounting,
        consumers_only=consumers_only,
        protection=protection_of_bounds(unit, rows_per_unit, items_per_unit, neighbours, _option),
        shares_with=shares_with,
        reason=reason,
        partitioning=_partitioning(partitioned_by, units_in, max_partitions_per_unit),
    )
    _echo_dataset(as_json, sql_ledger, created)


def _partitioning(column: str | None, units_in: UnitsIn | None, limit: int | None) -> Partitioning | None:
    if column is None:
        if units_in is not None or limit is not None:
            raise ConfigError(
                "--units-in and --max-partitions-per-unit need the partition column; want --partitioned-by"
            )
        return None
    if units_in is None and limit is None:
        raise ConfigError(
            "--units-in is missing; want one_partition if no unit has rows in two partitions, or many_partitions"
        )
    if units_in is UnitsIn.ONE and limit is not None:
        raise ConfigError("--max-partitions-per-unit is for units in many partitions; want --units-in many_partitions")
    return Partitioning(column, units_in or UnitsIn.MANY, limit)


def _option(name: str) -> str:
    """How the command line writes the name of an argument."""
    return f"--{name.replace('_', '-')}"


@app.command()
def grant(
    dataset: Name,
    epsilon: Annotated[
        float,
        typer.Option(help="New total of the dataset or, with --consumer, the consumer's limit per window."),
    ],
    delta: Delta,
    consumer: Annotated[
        str | None,
        typer.Option(help="Consumer whose limit is set, as in privacy.consumer. Without it, the total is raised."),
    ] = None,
    window: Annotated[
        Window,
        typer.Option(
            help="Calendar window (UTC) in which the consumer's limit applies; it cannot be changed later. With none, "
            "the limit applies for all time. A window limits the rate of spending; it never restores budget, and "
            "the dataset's total bounds all consumers together."
        ),
    ] = Window.NONE,
    reason: Annotated[
        str, typer.Option(help="Reason for the grant, which is recorded; required to raise a dataset's total.")
    ] = "",
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """Set the limit of a consumer, or raise the total of a dataset.

    A total can never be lowered. Every grant is recorded.

    Examples:

        marquee budget grant --dataset adult --consumer research --epsilon 0.5 --delta 1e-6 --window month

        marquee budget grant --dataset adult --epsilon 4 --delta 1e-6 --reason "decision 12 of the privacy board"
    """
    _check(dataset, epsilon, delta)
    check_line("--reason", reason)
    sql_ledger = SqlLedger(ledger)
    if consumer is not None:
        check_name("--consumer", consumer)
        granted = sql_ledger.grant_consumer(dataset, consumer, epsilon, delta, window, reason)
        facts = {"ledger": sql_ledger.shown_url, "dataset": dataset, "consumer": consumer_facts(granted, None)}
        echo_result(as_json, facts, f"{consumer_line(granted, None)}\nledger {sql_ledger.shown_url}")
        return
    if window is not Window.NONE:
        raise ConfigError(
            "--window needs --consumer, because a dataset's total is for all time; want --consumer, or no --window"
        )
    if not reason.strip():
        raise ConfigError("--reason is missing; want the reason why the dataset's total is raised")
    _echo_dataset(as_json, sql_ledger, sql_ledger.raise_total(dataset, epsilon, delta, reason))


@app.command()
def move(
    dataset: Name,
    path: Annotated[
        str,
        typer.Option(
            help="New path of the data, as in dataset.path or dataset.table.uri of configs; catalog:NAME or "
            "frame:NAME for data that have a name instead."
        ),
    ],
    reason: Annotated[str, typer.Option(help="Reason for the move, which is recorded.")],
    table: Annotated[
        str | None,
        typer.Option(
            help="Version whose files are compared if the path is a table: delta:VERSION or iceberg:SNAPSHOT."
        ),
    ] = None,
    new_content: Annotated[
        bool,
        typer.Option(
            "--new-content",
            help="Move although no file at the new path is known, because the data were rewritten or replaced on the "
            "way. The files are not read, and the decision is recorded with the reason.",
        ),
    ] = False,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    as_json: AsJson = False,
) -> None:
    """Bind a dataset to the new path of its data. Its budget does not change, and the move is recorded.

    The footers of the files at the new path are compared with those that runs have read. No rows are read.

    Examples:

        marquee budget move --dataset adult --path /archive/adult.parquet --reason "new disk"

        marquee budget move --dataset adult --path /archive/adult.delta --table delta:12 --reason "new disk"

        marquee budget move --dataset adult --path /archive/adult --reason "split by year" --new-content
    """
    from jobs.planning.places import new_place

    check_name("--dataset", dataset)
    version = None if table is None else table_version(table)
    for option, text in (("--path", path), ("--reason", reason)):
        check_line(option, text)
        if not text.strip():
            raise ConfigError(f"{option} is empty; want the new path of the data, and the reason for the move")
    sql_ledger = SqlLedger(ledger)
    root, contents_there = new_place(path, version)
    compared = not new_content and sql_ledger.is_content_known(dataset)
    contents = contents_there() if compared else None
    moved = sql_ledger.move(dataset, root, reason, contents, new_content=new_content)
    remark = "the files at the new path were not compared, because no run has recorded the content of the data"
    _echo_dataset(as_json, sql_ledger, moved, "" if compared or new_content else remark)


@app.command()
def show(
    ledger: LedgerUrl = DEFAULT_LEDGER,
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="Name of one dataset; all datasets when left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what datasets, partitions and consumers have spent, what remains, whom it protects, and every grant.

    All sums are checked against the recorded charges and grants; the exit code is 7 if they differ.

    Examples:

        marquee budget show

        marquee budget show --ledger sqlite:///marquee.db --dataset adult
    """
    sql_ledger = SqlLedger(ledger)
    sql_ledger.check_there()
    datasets = sql_ledger.datasets() if dataset is None else [sql_ledger.verified(dataset)]
    if as_json:
        echo_result(as_json, ledger_facts(sql_ledger, datasets), "")
        return
    typer.echo(f"ledger {sql_ledger.ledger_id()} at {sql_ledger.shown_url}")
    if is_for_people():
        echo_rows(BUDGET_COLUMNS, [budget_row(budget) for budget in datasets], right=BUDGET_COLUMNS[2:])
    for budget in datasets:
        typer.echo(dataset_line(budget))
        for line in block_lines(budget, sql_ledger.block_sums(budget.name)) if budget.partitioning else ():
            typer.echo(f"  {line}")
        for consumer in sql_ledger.consumers(budget.name):
            typer.echo(f"  {consumer_line(consumer, budget.currency)}")
        for granted in sql_ledger.grants(budget.name):
            typer.echo(f"  {granted.granted}  {grant_line(granted)}")
    if any(budget.currency is not Currency.PURE for budget in datasets):
        typer.echo(HOW_TO_ADD)


@app.command()
def history(dataset: Name, ledger: LedgerUrl = DEFAULT_LEDGER, as_json: AsJson = False) -> None:
    """List every grant and every charge of a dataset, oldest first. The exit code is 7 if the recorded sums differ.

    Examples:

        marquee budget history --dataset adult
    """
    sql_ledger = SqlLedger(ledger)
    if as_json:
        echo_result(as_json, history_facts(sql_ledger, dataset), "")
        return
    charges = sql_ledger.history(dataset)
    budget = sql_ledger.verified(dataset)
    grant_lines = _with_sorted_times(
        (grant.granted, f"{grant.granted}  {grant_line(grant)}") for grant in sql_ledger.grants(dataset)
    )
    charge_lines = _with_sorted_times(
        (charge.charged, f"{charge.charged}  {charge_line(charge, budget)}") for charge in charges
    )
    # Within one second, grants come before charges.
    for _, line in merge(grant_lines, charge_lines, key=lambda dated_line: dated_line[0]):
        typer.echo(line)
    if budget.currency is not Currency.PURE:
        typer.echo(HOW_TO_ADD)
    _echo_ledger(sql_ledger)


def _echo_ledger(sql_ledger: SqlLedger) -> None:
    """Says which ledger the figures come from, because a relative URL names another file in every working folder."""
    typer.echo(f"ledger {sql_ledger.shown_url}")


def _echo_dataset(as_json: bool, sql_ledger: SqlLedger, budget: DatasetBudget, remark: str = "") -> None:
    """Prints a dataset whose budget was created or changed, and the ledger that says so."""
    facts = {"ledger": sql_ledger.shown_url, "dataset": dataset_facts(budget), "remark": remark or None}
    lines = [dataset_line(budget), *([remark] if remark else []), f"ledger {sql_ledger.shown_url}"]
    echo_result(as_json, facts, "\n".join(lines))


def _with_sorted_times(dated_lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Replaces each time by the latest one so far, because the clock may have been set back between two records."""
    return accumulate(dated_lines, lambda last, line: (max(last[0], line[0]), line[1]))


def _check(dataset: str, epsilon: float, delta: float) -> None:
    if not 0 < epsilon <= LARGEST_EPSILON:
        raise ConfigError(f"--epsilon is {epsilon:g}; want 0 < epsilon <= {LARGEST_EPSILON:g}")
    if not 0 <= delta < 1:
        raise ConfigError(f"--delta is {delta:g}; want 0 <= delta < 1")
    check_name("--dataset", dataset)
