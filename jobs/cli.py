"""The command line of Marquee: start here to see what there is.

A command's module, with all that it needs, is imported when the command is called: help costs next to nothing.
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
    "--debug and --log-format may stand anywhere."
)

COMMANDS: Final = {
    "demo": "Generate two small datasets, release them, and compare the releases with the truth.",
    "validate": "Check a config and read all its data once; report what a release would fold, drop or bound.",
    "plan": "Say what a release would cost and do. Nothing is spent and no data are read, not even their footers.",
    "run": "Make a release: check everything, reserve its budget, answer, publish.",
    "status": "Say how far the release of a config has come. Reads the ledger alone.",
    "evaluate": "Compare a published release with the exact answers, beside trivial ones.",
    "generate": "Generated data, for trying things out and for benchmarks, and more rows of a release.",
    "budget": "The privacy budget of datasets, and of the consumers that share it.",
    "warm": "Compile all kernels now, so that no later release has to wait for them.",
}
"""Every command, a module of ``jobs.commands`` by the same name, and how its help begins."""

# Of the parser that typer brings along, whichever it is.
_UsageError = cast(type[typer.BadParameter], typer.BadParameter.__base__)


class LazyGroup(TyperGroup):
    """Lists the commands by their summaries, and imports the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, summary in COMMANDS.items():
            self.add_command(TyperCommand(name, help=summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name, the command from its own module, and the remaining arguments."""
        name, _, remaining = super().resolve_command(ctx, args)
        return name, _imported(cast(str, name)), remaining


def _imported(name: str) -> Any:
    """The command, or group of commands, that ``jobs.commands.<name>`` defines as ``app`` or as a function."""
    module = import_module(f"jobs.commands.{name}")
    if isinstance(group := getattr(module, "app", None), typer.Typer):
        return get_command(group)
    single = typer.Typer(add_completion=False)
    single.command(name)(getattr(module, name))
    return get_command(single)


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Answers and synthetic data about large datasets, under differential privacy.",
    epilog=_EXIT_CODES,
)


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
