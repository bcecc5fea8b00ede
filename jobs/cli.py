"""The command line of Marquee. Start here for an overview of the commands.

The module of a command is imported only when that command is called, so that help is printed quickly.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, Final, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from dpcore.errors import ConfigError
from jobs import exit_codes, log
from jobs.log import LogFormat
from jobs.memory import give_back_large_arrays
from jobs.version import VERSION

_EXIT_CODES = (
    "Exit codes: 0 done or already done, 2 config, 3 input, 4 budget refused, 5 ledger unreachable (retry), "
    "6 engine failed (retry), 7 integrity, 70 unexpected. "
    "--debug, --quiet and --log-format may appear anywhere on the command line."
)

COMMANDS: Final = {
    "demo": "Generate two small datasets, release them, and compare the releases with the truth.",
    "schema": "Draft, check and describe schema files. Of data only names and types of columns are read.",
    "validate": "Check a config against its data, and report what a release would map, drop or truncate.",
    "plan": "Show what a release would cost and do. It spends no budget and reads no private data, nor file footers.",
    "run": "Make a release: check the config and the data, reserve the budget, answer the queries, publish.",
    "status": "Show how far the release of a config has progressed, as the ledger records it.",
    "verify": "Check a published release: its files, guarantee, charges and tables, and the ledger's records.",
    "table": "Show a marginal of a published release as a table, with margins and 95 % intervals.",
    "itemsets": "Show the most frequent itemsets of a published release, and their association rules.",
    "report": "Write a report of a published release: one HTML file for everyone, with charts and search.",
    "evaluate": "Compare a published release, and trivial baselines, with the exact answers.",
    "generate": "Generate example data, or more synthetic rows of a published release.",
    "budget": "Manage the privacy budgets of datasets, and the limits of the consumers that share them.",
    "store": "Show or clean the store of exact statistics that releases of engine.incremental keep.",
    "doctor": "Check whether this machine, and a config, are ready for a release, and say what to do next.",
    "warm": "Compile all numerical kernels now, so that no later release waits for compilation.",
}
"""Every command with the first line of its help. Each is a module of ``jobs.commands`` with the same name."""

# typer depends on click or contains a copy of it; this base class is the usage error of whichever it uses.
_UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)


class LazyGroup(TyperGroup):
    """Lists the commands with their summaries, and imports only the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, summary in COMMANDS.items():
            self.add_command(TyperCommand(name, help=summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the command's name, the command itself and the remaining arguments."""
        name, _, remaining = super().resolve_command(ctx, args)
        return name, _load_command(cast(str, name)), remaining


def _load_command(name: str) -> Any:
    """Imports a command from ``jobs.commands``: the group ``app`` of its module, or the function of its name."""
    module = import_module(f"jobs.commands.{name}")
    if isinstance(group := getattr(module, "app", None), typer.Typer):
        return get_command(group)
    command_app = typer.Typer(add_completion=False)
    command_app.command(name)(getattr(module, name))
    return get_command(command_app)


app = typer.Typer(
    cls=LazyGroup,
    pretty_exceptions_enable=False,
    help="Release statistics and synthetic data about large datasets under differential privacy.",
    epilog=_EXIT_CODES,
)


@app.callback(invoke_without_command=True)
def global_options(
    context: typer.Context,
    log_format: Annotated[
        LogFormat, typer.Option(help="Format of events on stderr: text for people, or one JSON object per line.")
    ] = LogFormat.TEXT,
    debug: Annotated[
        bool, typer.Option("--debug", help="Print the traceback of an error. SENSITIVE: a traceback may quote data.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Write nothing but warnings and failures on stderr: no events, no progress.")
    ] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    log.configure(log_format, only_warnings=quiet)
    if version:
        typer.echo(VERSION)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command and ends the process with its exit code.

    arguments: Command-line arguments; those of this process when None.
    """
    give_back_large_arrays()
    options, remaining = _split_global_options(sys.argv[1:] if arguments is None else arguments)
    log_format = LogFormat.JSON if f"--log-format={LogFormat.JSON}" in options else LogFormat.TEXT
    log.configure(log_format, only_warnings="--quiet" in options)
    say, debug = exit_codes.reporter(log_format), "--debug" in options
    sys.exit(exit_codes.guarded(lambda: _run_command(options + remaining), debug=debug, say=say))


def _run_command(arguments: list[str]) -> None:
    """Runs one command. A mistake on the command line becomes a ConfigError."""
    try:
        code = app(args=arguments, prog_name="marquee", standalone_mode=False)
    except typer.Abort as stop:
        raise KeyboardInterrupt from stop
    except _UsageError as error:
        raise ConfigError(error.format_message()) from error
    if code == exit_codes.INTERRUPTED:  # Some versions of typer catch an interruption and return its code.
        raise KeyboardInterrupt


def _split_global_options(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separates --debug, --quiet and --log-format, which may appear anywhere, from the remaining arguments."""
    options: list[str] = []
    remaining: list[str] = []
    for word in arguments:
        if remaining[-1:] == ["--log-format"]:
            options.append(f"{remaining.pop()}={word}")
        elif word in ("--debug", "--quiet") or word.startswith("--log-format="):
            options.append(word)
        else:
            remaining.append(word)
    return options, remaining
