"""Finds the files of a folder or glob. The folder of a table is refused, because it holds deleted rows too."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from pyarrow import fs

from dpcore.errors import InputError
from pipelines.source.file_format import FileFormat, format_of
from pipelines.source.stores import filesystem_of, reading, url_inside

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
# Folders that only a table of a format has, beside its data.
_LOGS = {"_delta_log": "Delta", ".hoodie": "Hudi"}
_ICEBERG_FOLDER = "metadata"
_ICEBERG_FILE = re.compile(r"(.*\.metadata\.json|.*\.metadata\.json\.gz|version-hint\.text)")


def find_files(path: str, kind: FileFormat | None = None) -> tuple[FileFormat, tuple[str, ...]]:
    """The files of ``path``, as sorted paths or URLs, and their format.

    path: A file, folder, glob or URL.
    kind: Format of the files; None for the one that their names tell. Without it, other files beside Parquet files are
        ignored in a folder, and names without a known ending are Parquet.

    Raises: InputError when there are none, or files of several formats, or when they belong to a table of Delta,
        Iceberg or Hudi.
    """
    filesystem, inner = reading(path, lambda: filesystem_of(path))
    kind, names = reading(path, lambda: _matching(filesystem, inner, path, kind))
    if not names:
        wanted = "Parquet" if kind is FileFormat.PARQUET else kind.value
        raise InputError(f"{path} matches no {wanted} file; want a {wanted} file, or a folder or glob with some")
    return kind, tuple(url_inside(path, name) for name in sorted(names))


def _only_format(path: str, names: Sequence[str]) -> FileFormat:
    """The format that the names of files tell."""
    kinds = {format_of(name) or FileFormat.PARQUET for name in names}
    if not kinds or FileFormat.PARQUET in kinds:
        return FileFormat.PARQUET
    if len(kinds) > 1:
        listed = " and ".join(sorted(kinds))
        raise InputError(f"{path} holds files of several formats ({listed}); want dataset.format, or a narrower path")
    return kinds.pop()


def partition_values(path: str) -> dict[str, str | None]:
    """The columns that names of folders give a value, as in ``region=north/part-0.parquet``; None stands for null.

    path: Local path or URL of a file.
    """
    folders = [folder.partition("=") for folder in path.split("/")[:-1]]
    values = {unquote(column): unquote(value) for column, equals, value in folders if column and equals}
    return {column: None if value == NULL_PARTITION else value for column, value in values.items()}


def _matching(
    filesystem: fs.FileSystem, inner: str, path: str, wanted_format: FileFormat | None
) -> tuple[FileFormat, list[str]]:
    kind = filesystem.get_file_info(inner).type
    if kind is fs.FileType.File:
        _refuse_tables_above(filesystem, inner.rpartition("/")[0], path, listed=False)
        _refuse_linked_tables(filesystem, [inner], path)
        return wanted_format or _only_format(path, [inner]), [inner]
    if kind is fs.FileType.Directory:
        base, pattern = inner.rstrip("/"), "**/*"
    else:
        fixed = re.match(r"[^*?\[]*(?=/)", inner)
        base = fixed.group() if fixed and re.search(r"[*?\[]", inner) else ""
        pattern = inner[len(base) + 1 :]
        if not base:
            raise FileNotFoundError(inner)
    _refuse_tables_above(filesystem, base, path, listed=True)
    deep = "/" in pattern or "**" in pattern
    listing = filesystem.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=deep))
    try:
        wanted = re.compile(_glob_expression(pattern))
    except re.error:
        raise InputError(f"{inner} is not a valid glob; want ranges such as [a-z]") from None
    # Some stores list names with a leading slash that the requested path does not have.
    start = len(base.lstrip("/")) + 1
    relative = [info.path.lstrip("/")[start:] for info in listing if info.type is fs.FileType.File]
    _refuse_tables_inside(base, relative, path)
    names = [f"{base}/{name}" for name in relative if wanted.fullmatch(name) and not _hidden(name)]
    if kind is fs.FileType.Directory:
        names = [name for name in names if format_of(name) is not None]
    known = wanted_format or _only_format(path, names)
    if kind is fs.FileType.Directory:
        names = [name for name in names if format_of(name) is known]
    _refuse_linked_tables(filesystem, names, path)
    return known, names


def _hidden(relative: str) -> bool:
    return any(part.startswith(("_", ".")) for part in relative.split("/"))


def _refuse_tables_above(filesystem: fs.FileSystem, folder: str, path: str, *, listed: bool) -> None:
    """Refuses a folder that is a table, or lies inside one.

    A folder that may not be listed is passed over, except ``folder`` itself if the data are ``listed`` from it.
    """
    parts = folder.split("/")
    for length in range(len(parts), 0, -1):
        above = "/".join(parts[:length])
        if not above.strip("/"):
            return
        marks = [f"{above}/{name}" for name in _LOGS]
        try:
            logs = [info for info in filesystem.get_file_info(marks) if info.type is fs.FileType.Directory]
            metadata = fs.FileSelector(f"{above}/{_ICEBERG_FOLDER}", allow_not_found=True)
            has_iceberg = any(_ICEBERG_FILE.fullmatch(info.base_name) for info in filesystem.get_file_info(metadata))
        except OSError:
            if listed and length == len(parts):
                raise
            continue
        for info in logs:
            raise _is_table(_LOGS[info.base_name], above, path)
        if has_iceberg:
            raise _is_table("Iceberg", above, path)


def _refuse_linked_tables(filesystem: fs.FileSystem, names: Iterable[str], path: str) -> None:
    """Refuses local files that are in a table once symbolic links are resolved."""
    if isinstance(filesystem, fs.LocalFileSystem):
        places = {(os.path.dirname(name), os.path.dirname(os.path.realpath(name))) for name in names}
        for folder in sorted({real for spelled, real in places if real != spelled}):
            _refuse_tables_above(filesystem, folder, path, listed=False)


def _refuse_tables_inside(base: str, files: Iterable[str], path: str) -> None:
    """Refuses a folder in which tables lie."""
    for file in files:
        *folders, name = file.split("/")
        for depth, folder in enumerate(folders):
            if folder in _LOGS:
                raise _is_table(_LOGS[folder], "/".join([base, *folders[:depth]]), path)
        if folders and folders[-1] == _ICEBERG_FOLDER and _ICEBERG_FILE.fullmatch(name):
            raise _is_table("Iceberg", "/".join([base, *folders[:-1]]), path)


def _is_table(name: str, folder: str, path: str) -> InputError:
    """The error for files of a table: some of them hold rows that the table has deleted."""
    uri = url_inside(path, folder)
    wanted = {
        "Delta": f"dataset.table: {{format: delta, uri: {uri}, version: N}} in place of dataset.path (marquee budget "
        "move: --table delta:N)",
        "Iceberg": f"dataset.table: {{format: iceberg, uri: {uri}, snapshot_id: N}} in place of dataset.path (marquee "
        "budget move: --table iceberg:N)",
        "Hudi": "a copy of the table's present rows as plain Parquet",
    }
    return InputError(
        f"{path} belongs to the {name} table in {uri}, whose files also hold rows that the table has deleted or "
        f"replaced; want {wanted[name]}"
    )


def _glob_expression(pattern: str) -> str:
    pieces = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]/]+\])", pattern)
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        wild.get(piece) or (_character_set(piece) if piece[:1] == "[" else re.escape(piece)) for piece in pieces
    )


def _character_set(piece: str) -> str:
    inside = piece[1:-1].replace("\\", "\\\\")
    return f"[^{inside[1:]}]" if inside[0] == "!" else f"[{inside}]"
