"""The command line of Marquee."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, cast

import typer

from dpcore.errors import ConfigError
from jobs import exit_codes, log
from jobs.commands import budget, generate
from jobs.commands.demo import demo
from jobs.commands.evaluate import evaluate
from jobs.commands.plan import plan
from jobs.commands.run import run
from jobs.commands.status import status
from jobs.commands.validate import validate
from jobs.log import LogFormat
from jobs.memory import give_back_large_arrays
from jobs.version import VERSION

_EXIT_CODES = (
    "Exit codes: 0 done or already done, 2 config, 3 input, 4 budget refused, 5 ledger unreachable (retry), "
    "6 engine failed (retry), 7 integrity, 70 unexpected. "
    "--debug and --log-format may stand anywhere."
)

# Of the parser that typer brings along, whichever it is.
_UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Answers and synthetic data about large datasets, under differential privacy.",
    epilog=_EXIT_CODES,
)
for command in (demo, validate, plan, run, status, evaluate):
    app.command()(command)
app.add_typer(generate.app, name="generate")
app.add_typer(budget.app, name="budget")


@app.callback(invoke_without_command=True)
def everywhere(
    context: typer.Context,
    log_format: Annotated[LogFormat, typer.Option(help="Events on stderr: for people, or one object a line.")] = (
        LogFormat.TEXT
    ),
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from. The trace may hold data.")] = (
        False
    ),
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    log.configure(log_format)
    if version:
        typer.echo(VERSION)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command and ends the process with its exit code."""
    give_back_large_arrays()
    front, rest = _global_first(sys.argv[1:] if arguments is None else arguments)
    as_json = f"--log-format={LogFormat.JSON}" in front
    log.configure(LogFormat.JSON if as_json else LogFormat.TEXT)
    say = log.failure if as_json else exit_codes.to_stderr
    sys.exit(exit_codes.guarded(lambda: _command(front + rest), debug="--debug" in front, say=say))


def _command(arguments: list[str]) -> None:
    """One command; a misspelled one is a config error like any other."""
    try:
        code = app(args=arguments, prog_name="marquee", standalone_mode=False)
    except typer.Abort as stop:
        raise KeyboardInterrupt from stop
    except _UsageError as error:
        raise ConfigError(error.format_message()) from error
    if code == exit_codes.INTERRUPTED:  # Some versions of typer catch an interruption and return its code.
        raise KeyboardInterrupt


def _global_first(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of every command, which may stand anywhere, and the rest."""
    front: list[str] = []
    rest: list[str] = []
    for word in arguments:
        if rest[-1:] == ["--log-format"]:
            front.append(f"{rest.pop()}={word}")
        elif word == "--debug" or word.startswith("--log-format="):
            front.append(word)
        else:
            rest.append(word)
    return front, rest
