"""marquee plan"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from jobs.options import AsJson, Settings, TimeBudget

if TYPE_CHECKING:
    from dpcore.mechanisms.recommendation import Recommendation
    from jobs.ledger.partitioning import Blocks
    from jobs.ledger.pricing import Price
    from jobs.outputs.plan_report import LedgerFacts
    from jobs.planning.comparison import Option
    from jobs.planning.job import Job

T = TypeVar("T")


def plan(
    config: Annotated[Path | None, typer.Argument(help="The release's YAML config.")] = None,
    settings: Settings = None,
    time_budget: TimeBudget = None,
    as_json: AsJson = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare all mechanisms for this workload: error, time and memory.")
    ] = False,
    errors: Annotated[
        bool, typer.Option("--errors", help="Plot the predicted error of the config's mechanism against epsilon.")
    ] = False,
    plan_seconds: Annotated[
        float, typer.Option(min=0.1, help="With --compare and --errors: skip a plan that takes longer.")
    ] = 20.0,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a config and exit.")] = False,
) -> None:
    """Show what a release would cost and do. It spends no budget and reads no private data, nor file footers.

    Examples:

        marquee plan adult.yaml

        marquee plan adult.yaml --set privacy.epsilon=0.5 --set mechanism.name=mst

        marquee plan adult.yaml --time-budget 2

        marquee plan adult.yaml --compare

        marquee plan adult.yaml --errors

        marquee plan --schema > marquee.schema.json
    """
    if schema:
        typer.echo(config_schema())
        return
    if config is None:
        raise typer.BadParameter("the config file is missing; want a config file, or --schema")
    from jobs.outputs.plan_report import nothing_spent, plan_facts, plan_pairs
    from jobs.planning.job import load_job
    from jobs.planning.time_budget import with_time_budget
    from jobs.release.signing import signer
    from jobs.tables import echo_facts

    job = load_job(config, with_time_budget(settings or (), time_budget))
    if compare or errors:
        _compare(job, compare, errors, as_json, plan_seconds)
        return
    key = signer(job.config.output.signing_key)
    facts = (job, ledger_facts(job), None if key is None else key.fingerprint)
    if as_json:
        typer.echo(json.dumps(plan_facts(*facts), indent=2))
        return
    echo_facts(plan_pairs(*facts), 11)
    typer.echo(nothing_spent(job))


def _compare(job: Job, compare: bool, errors: bool, as_json: bool, seconds: float) -> None:
    """Prints what ``--compare`` and ``--errors`` want."""
    from jobs.outputs.plan_comparison import error_facts, error_lines, option_facts
    from jobs.outputs.plan_report import nothing_spent
    from jobs.planning.comparison import compared, errors_at, recommended_for

    options = list(_shown(compared(job, seconds), "mechanisms")) if compare else []
    points = list(_shown(errors_at(job, seconds), "budgets")) if errors else []
    if as_json:
        facts = {"release_id": job.release_id, "mechanism": job.config.mechanism.name}
        advice = recommended_for(job)
        compared_facts = {
            "recommended": advice.name,
            "recommended_settings": dict(advice.settings),
            "mechanisms": option_facts(options),
        }
        shown = {**(compared_facts if compare else {}), **({"errors": error_facts(points)} if errors else {})}
        typer.echo(json.dumps({**facts, **shown}, indent=2))
        return
    if compare:
        _echo_options(options, job.config.mechanism.name, recommended_for(job), nothing_spent(job))
    if errors:
        typer.echo("\n".join(error_lines(points, job.config.mechanism.name, nothing_spent(job))))


def _echo_options(options: Sequence[Option], own: str, advice: Recommendation, last: str) -> None:
    from jobs.outputs.plan_comparison import COLUMNS, LEGEND, REASONS, RIGHT, option_rows, reason_rows
    from jobs.tables import echo_rows

    echo_rows(COLUMNS, option_rows(options, own, advice.name), right=RIGHT)
    if reasons := reason_rows(options):
        typer.echo("")
        echo_rows(REASONS, reasons)
    typer.echo("")
    for line in (f"recommended {advice.choice}: {advice.why}", *LEGEND, last):
        typer.echo(line)


def _shown(results: Iterator[T], label: str) -> Iterator[T]:
    """The results one by one, while a bar says that plans are being made."""
    from jobs.progress import bar

    with bar(f"plans of {label}"):
        yield from results


def ledger_facts(job: Job) -> LedgerFacts:
    """What the ledger says about the release. A plan can be made where there is no ledger, or none can be reached."""
    from dpcore.errors import (
        BudgetExceededError,
        ConfigError,
        EngineError,
        IntegrityError,
        LedgerUnavailableError,
        NoBudgetError,
    )
    from jobs.ledger import SqlLedger
    from jobs.ledger.connection import shown_ledger
    from jobs.ledger.partitioning import Blocks
    from jobs.ledger.pricing import Request
    from jobs.ledger.protection import described
    from jobs.ledger.records import State
    from jobs.outputs.plan_report import LedgerFacts
    from jobs.release.other_version import folder_of, refusal
    from jobs.release.run import protection_of
    from jobs.release.series import with_recorded_strategy

    privacy, dataset = job.config.privacy, job.config.dataset.name
    url, ledger_id = shown_ledger(privacy.ledger), None
    request = Request(
        job.budget,
        protection_of(job),
        privacy.consumer,
        (privacy.epsilon, privacy.delta),
        Blocks.of(job.layout.partition),
        threshold_delta=job.threshold_delta,
    )
    try:
        ledger = SqlLedger(privacy.ledger)
        ledger_id = ledger.ledger_id()
        ledger.dataset(dataset, privacy.epsilon, privacy.delta)  # Without one, the error has the command with figures.
        record = ledger.release(job.release_id)
        if record is not None and record.state is not State.PLANNED:
            return LedgerFacts(url, ledger_id, "none: this release was charged already")
        others = ledger.charged_by_others(job.identity)
        published = [(other, folder_of(other, job.output)) for other in others]
        for other, folder in published:
            if folder is not None:
                return LedgerFacts(url, ledger_id, f"none: already published by version {other.version}: {folder}")
        if others:
            return LedgerFacts(url, ledger_id, f"refused now: {refusal(others)}")
        paid_by = ledger.series.paid_by(with_recorded_strategy(job, ledger).series, job.release_id)
        if paid_by is not None:
            return LedgerFacts(url, ledger_id, f"none: release {paid_by[:12]} has paid for all steps of this series")
        price = ledger.price(dataset, request)
    except (BudgetExceededError, NoBudgetError) as error:
        return LedgerFacts(url, ledger_id, f"refused now: {error}")
    except (ConfigError, EngineError, IntegrityError, LedgerUnavailableError) as error:
        return LedgerFacts(url, ledger_id, f"unknown: {error}")
    charge = f"{price.currency.value} = {float(price.amount):.6g} {described(price.protection)}"
    if price.dataset.partitioning is not None:
        charge = f"{charge}; {_of_partitions(price, request.blocks)}"
    if price.replacing:
        charge = f"{charge}: the release is for add_remove_unit, so group privacy multiplies its charge"
    return LedgerFacts(url, ledger_id, charge)


def _of_partitions(price: Price, blocks: Blocks | None) -> str:
    """Which partitions are charged, and what remains."""
    assert price.dataset.partitioning is not None
    charged = "every partition" if blocks is None else blocks.described
    total = float(price.dataset.total or 0)
    return (
        f"charged to {charged}, where {price.currency.value} = {float(price.available):.6g} remains; a unit has then "
        f"lost at most {float(price.spent):.6g} of {total:.6g} ({price.dataset.partitioning.composition})"
    )


def config_schema() -> str:
    """The JSON Schema of a config."""
    from jobs.config import Config

    return json.dumps(Config.model_json_schema(), indent=2)
