"""Where a release is kept: a folder on this machine, or one in an object store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpcore.errors import IntegrityError, MarqueeError
from jobs.objects.address import address_of, is_url, with_settings_of
from jobs.objects.folder import StoredFolder

Output = Path | StoredFolder
"""A folder. ``str`` of it is its path, or its URL without settings."""


def output_of(key: str, path: str) -> Output:
    """The folder that a path or URL names.

    key: The config key or argument that holds it, with which errors begin.
    path: A local path, or a URL as ``address_of`` accepts it.

    Raises: ConfigError when it is a URL of no known store.
    """
    return StoredFolder(address_of(key, path)) if is_url(path) else Path(path)


def recorded_output(path: str, known: Output) -> Output:
    """The folder that a ledger has recorded.

    path: What ``str`` of it was.
    known: Another folder, whose settings it has if it is in a store of the same kind: ledgers record no settings.
    """
    if is_url(path) and isinstance(known, StoredFolder):
        return StoredFolder(with_settings_of("the ledger's record", path, known.address))
    return output_of("the ledger's record", path)


def read_file(output: Output, name: str) -> bytes | None:
    """The content of a file in a folder; None if there is none. For files that fit in memory."""
    if isinstance(output, StoredFolder):
        return output.read(name)
    file = output / name
    return file.read_bytes() if file.is_file() else None


@contextmanager
def local_copy(output: Output, names: list[str]) -> Iterator[Path]:
    """A local folder with some files of a folder. That of a local folder is the folder itself.

    Only this user may open a copy, and it is deleted at the end. Errors raised inside name the folder, not the copy.

    output: The folder.
    names: The files. Those that are missing in a store are missing in the copy.
    """
    if isinstance(output, Path):
        yield output
        return
    with tempfile.TemporaryDirectory(prefix="marquee-") as name:
        copy = Path(name)
        for file in names:
            target = (copy / file).resolve()
            if not target.is_relative_to(copy.resolve()):
                raise IntegrityError(f"{output} holds a file named {file!r}, which leads out of the folder; delete it")
            target.parent.mkdir(parents=True, exist_ok=True)
            output.download(file, target)
        try:
            yield copy
        except MarqueeError as error:
            error.args = tuple(renamed(argument, copy, output) for argument in error.args)
            raise


def renamed(text: object, copy: Path, output: Output) -> object:
    """A text about a copy as a text about the folder that was copied."""
    return text.replace(str(copy), str(output)) if isinstance(text, str) else text
