"""The mark of exact figures: inside everything that contains them, and once on stderr; and a log for them alone."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from dpcore.errors import ConfigError
from jobs import log
from jobs.permissions import is_shared, private_opener

_RULE = "for the operator only; never publish it, and keep it out of shared logs"

FIRST_KEY: Final = "sensitive"
"""First key of a JSON object or a log with exact figures."""

_log: TextIO | None = None


def mark(content: str) -> str:
    """The sentence that an output with exact figures begins with.

    content: What the output contains, such as ``exact counts of dataset 'people'``.
    """
    return f"SENSITIVE: {content}, {_RULE}"


def announce(content: str) -> None:
    """Says once on stderr that stdout contains exact figures, because stdout may be redirected to a file."""
    log.warning(f"SENSITIVE: stdout contains {content}, {_RULE}")


@contextmanager
def logged_to(path: Path | None, content: str) -> Iterator[None]:
    """Within this context, ``record`` adds records to a file of JSON objects, one per line. SENSITIVE.

    The first record is the mark. Records of further runs are added to an existing file, with a mark of their own.

    path: The file, which only its owner may open, or the group of a shared folder; None for no file.
    content: What it contains.

    Raises: ConfigError when the file cannot be written, or others may open it.
    """
    global _log
    if path is None:
        yield
        return
    with _opened(path) as file:
        before, _log = _log, file
        try:
            _write({FIRST_KEY: mark(content)})
            yield
        finally:
            _log = before


def record(event: str, **facts: str | int | float | bool | None) -> None:
    """Adds exact figures to the operator's log if there is one, and otherwise does nothing. SENSITIVE.

    event: What happened.
    facts: Figures about it, which may be private.
    """
    if _log is not None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        _write({"event": event, **facts, "timestamp": now})


def is_logging() -> bool:
    """Whether there is an operator's log, so that figures for it are worth computing."""
    return _log is not None


def _write(content: dict[str, str | int | float | bool | None]) -> None:
    if _log is not None:
        _log.write(json.dumps(content) + "\n")
        _log.flush()


def _opened(path: Path) -> TextIO:
    """The file, at its end."""
    try:
        file = open(path, "a", encoding="utf-8", opener=private_opener)  # noqa: SIM115 - the caller closes it
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigError(f"--log-sensitive {path} cannot be written ({error.strerror}); want another file") from error
    allowed = 0o770 if is_shared(path.parent) else 0o700
    if stat.S_ISREG(mode) and stat.S_IMODE(mode) & 0o777 & ~allowed:
        file.close()
        raise ConfigError(
            f"--log-sensitive {path} may be opened by other users (mode {stat.S_IMODE(mode):04o}); want chmod 600"
        )
    return file
