"""marquee budget create | show | history"""

from __future__ import annotations

from typing import Annotated

import typer

from dpcore.errors import ConfigError
from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import epsilon_of_zcdp
from jobs.config import LARGEST_EPSILON
from jobs.figures import exactly
from jobs.ledger import DEFAULT_LEDGER, SqlLedger
from jobs.ledger_records import DatasetBudget

app = typer.Typer(help="The privacy budget of datasets.")

LedgerUrl = Annotated[str, typer.Option("--ledger", help="Database URL of the ledger.")]
Name = Annotated[str, typer.Option("--dataset", help="The dataset's name, as configs spell it.")]


@app.command()
def create(
    dataset: Name,
    epsilon: Annotated[float, typer.Option(help="All that releases of the dataset may spend together.")],
    delta: Annotated[float, typer.Option(help="0 for pure differential privacy, else such as 1e-6.")],
    ledger: LedgerUrl = DEFAULT_LEDGER,
) -> None:
    """Give a dataset its budget, once; it cannot be raised later.

    Examples:

        marquee budget create --dataset adult --epsilon 3 --delta 1e-6

        marquee budget create --ledger sqlite:///marquee.db --dataset adult --epsilon 1 --delta 0
    """
    if not 0 < epsilon <= LARGEST_EPSILON:
        raise ConfigError(f"--epsilon is {epsilon:g}; want 0 < epsilon <= {LARGEST_EPSILON:g}")
    if not 0 <= delta < 1:
        raise ConfigError(f"--delta is {delta:g}; want 0 <= delta < 1")
    if not dataset:
        raise ConfigError("--dataset is empty; want the dataset's name")
    typer.echo(_line(SqlLedger(ledger).create_dataset(dataset, epsilon, delta)))


@app.command()
def show(
    ledger: LedgerUrl = DEFAULT_LEDGER,
    dataset: Annotated[str | None, typer.Option("--dataset", help="One dataset; all of them when left out.")] = None,
) -> None:
    """Say what datasets have spent and what is left.

    Examples:

        marquee budget show

        marquee budget show --ledger sqlite:///marquee.db --dataset adult
    """
    known = [one for one in SqlLedger(ledger).datasets() if dataset in (None, one.name)]
    if dataset is not None and not known:
        raise ConfigError(f"the ledger has no dataset {dataset!r}; want a dataset with a budget")
    for one in known:
        typer.echo(_line(one))


@app.command()
def history(dataset: Name, ledger: LedgerUrl = DEFAULT_LEDGER) -> None:
    """List every charge of a dataset, oldest first.

    Examples:

        marquee budget history --dataset adult
    """
    for charge in SqlLedger(ledger).history(dataset):
        amount = f"{float(charge.amount):.6g}"
        typer.echo(f"{charge.charged}  {charge.release_id[:12]}  {charge.state.value:<11}{amount:>12}  {charge.amount}")


def _line(dataset: DatasetBudget) -> str:
    currency = dataset.currency.value
    spent = f"{currency} {float(dataset.spent):.6g} of {float(dataset.total):.6g}"
    if dataset.currency is Currency.ZCDP and dataset.spent:
        spent += f" (epsilon {epsilon_of_zcdp(float(dataset.spent), dataset.delta):.4g} at delta {dataset.delta:g})"
    total = f"epsilon {exactly(dataset.epsilon)}, delta {exactly(dataset.delta)}"
    return f"{dataset.name}: {total}; spent {spent}; left {currency} {float(dataset.remaining):.6g}"
