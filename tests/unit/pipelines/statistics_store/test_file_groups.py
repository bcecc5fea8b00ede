"""What identifies a file's content: everything that may go with a change of its rows must change its key."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from dpcore.errors import InputError
from pipelines.layout import BasketLayout
from pipelines.source import DataFile, Source, open_source
from pipelines.source.versions import version_of
from pipelines.statistics_store.file_groups import (
    GroupBy,
    KnownFile,
    groups_of,
    known_files,
    view_digest,
)
from tests.support.engine_cases import SALT

LAYOUT = BasketLayout("user", "item", 10, clustered_by_unit=True)
LATER = 1 << 62


def _write(path: Path | str, items: list[int], **options: object) -> None:
    pq.write_table(pa.table({"user": list(range(len(items))), "item": items}), path, **options)


def _known(folder: Path, now_ns: int = LATER, quiet_seconds: float = 2.0) -> KnownFile:
    (known,) = known_files(open_source(str(folder), LAYOUT, SALT), now_ns, quiet_seconds)
    return known


def _same_footer(path: Path) -> None:
    """Other items in the same bytes of footer: plain pages without statistics, of the same size."""
    content = path.read_bytes()
    place = content.index((1).to_bytes(8, "little") + (2).to_bytes(8, "little"))
    path.write_bytes(content[:place] + (7).to_bytes(8, "little") + content[place + 8 :])


def _replaced(path: Path) -> None:
    """Another file with the size, footer and time of modification of the first, as a copy with its times has."""
    found = path.stat()
    copy = path.with_suffix(".copy")
    copy.write_bytes(path.read_bytes())
    _same_footer(copy)
    os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))
    copy.replace(path)


@pytest.mark.parametrize("change", [
    pytest.param(lambda path: _write(path, [1, 2, 4]), id="other rows"),
    pytest.param(_same_footer, id="other rows, same size and footer"),
    pytest.param(_replaced, id="other rows, same size, footer and time of modification"),
    pytest.param(lambda path: os.utime(path), id="touched"),
    pytest.param(lambda path: path.rename(path.with_name("other.parquet")), id="renamed"),
])  # fmt: skip
def test_a_change_gives_another_key(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "part.parquet"
    options = {"use_dictionary": False, "compression": "none", "write_statistics": False}
    _write(path, [1, 2, 3], **options)
    before = _known(tmp_path)
    assert _known(tmp_path).key == before.key
    time.sleep(0.02)  # More than a tick of the clock that stamps files.
    change(path)
    assert _known(tmp_path).key != before.key


def test_what_a_table_says_about_rows_is_part_of_the_key(tmp_path: Path) -> None:
    _write(tmp_path / "part.parquet", [1, 2, 3])
    source = open_source(str(tmp_path), LAYOUT, SALT)
    (file,) = source.files
    files: tuple[DataFile, ...] = (file, replace(file, constants=(("day", "1"),)), replace(file, absent=("day",)))
    keys = {known.key for known in known_files(replace(source, files=files), LATER, 2.0)}
    assert len(keys) == len(files)


def test_a_file_of_this_moment_is_not_kept(tmp_path: Path) -> None:
    _write(tmp_path / "part.parquet", [1, 2, 3])
    now = time.time_ns()
    assert not _known(tmp_path, now).keepable
    assert not _known(tmp_path, now + 1_000_000_000).keepable
    assert _known(tmp_path, now + 3_000_000_000).keepable
    os.utime(tmp_path / "part.parquet", (0, 0))  # Its content may be as new as before.
    assert not _known(tmp_path, now).keepable


def test_a_store_without_versions_keeps_nothing(tmp_path: Path) -> None:
    with fsspec.filesystem("memory").open("/versions/part.parquet", "wb") as file:
        _write(file, [1, 2, 3])
    source = open_source("memory://versions/part.parquet", LAYOUT, SALT)
    (known,) = known_files(source, LATER, 2.0)
    assert known.version is None
    assert not known.keepable


class RemembersListings(MemoryFileSystem):
    """A driver that answers from what it has listed before, as those of S3, Google and Azure do."""

    protocol = "remembers"
    known: ClassVar[dict[str, dict[str, object]]] = {}

    def info(self, path: str, **options: object) -> dict[str, object]:
        if path not in self.known:
            with self.open(path, "rb") as file:
                tag = hashlib.md5(file.read()).hexdigest()
            self.known[path] = {**super().info(path, **options), "ETag": tag}
        return self.known[path]

    def invalidate_cache(self, path: str | None = None) -> None:
        self.known.clear()


def test_a_version_is_asked_for_again() -> None:
    fsspec.register_implementation("remembers", RemembersListings, clobber=True)
    versions = []
    for items in ([1, 2], [7, 8]):
        with fsspec.filesystem("remembers").open("/again/part.parquet", "wb") as file:
            _write(file, items)
        versions.append(version_of("remembers://again/part.parquet"))
    assert versions[0] is not None
    assert versions[0] != versions[1]


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.parquet does not exist"):
        version_of(str(tmp_path / "gone.parquet"))
    with pytest.raises(InputError, match="does not exist"):
        version_of("memory://gone.parquet")


def test_partitions_are_files_or_folders(tmp_path: Path) -> None:
    for name in ("day=1/a", "day=1/b", "day=2/a", "c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        _write(tmp_path / f"{name}.parquet", [1])
    source = open_source(str(tmp_path), LAYOUT, SALT)
    names = [str(Path(path).relative_to(tmp_path)) for path in source.paths]
    assert names == ["c.parquet", "day=1/a.parquet", "day=1/b.parquet", "day=2/a.parquet"]
    files = known_files(source, LATER, 2.0)
    by_file, by_folder = (groups_of(files, by) for by in GroupBy)
    assert [part.numbers for part in by_file] == [(0,), (1,), (2,), (3,)]
    assert [part.numbers for part in by_folder] == [(0,), (1, 2), (3,)]


def test_a_view_depends_on_layout_and_salt_and_not_on_files(tmp_path: Path) -> None:
    _write(tmp_path / "part.parquet", [1, 2, 3])
    source = open_source(str(tmp_path), LAYOUT, SALT)
    assert view_digest(source) == view_digest(replace(source, files=()))
    others = [replace(source, salt=bytes(16)), replace(source, layout=replace(LAYOUT, items=11))]
    assert len({view_digest(view) for view in (source, *others)}) == 3
    assert view_digest(Source((), LAYOUT, SALT)) == view_digest(source)


class _TaggedStore(MemoryFileSystem):  # type: ignore[misc]
    """An object store in memory, whose objects have tags and no times."""

    protocol = "tagged"

    def info(self, path: str, **_: object) -> dict[str, object]:
        found = super().info(path)
        content = self.cat_file(path) if found["type"] == "file" else b""
        return {**found, "ETag": hashlib.md5(content).hexdigest(), "created": None}


def test_the_tag_of_an_object_is_its_version_at_once() -> None:
    fsspec.register_implementation("tagged", _TaggedStore, clobber=True)
    store = fsspec.filesystem("tagged")
    versions = []
    for items in ([1, 2, 3], [3, 2, 1], [1, 2, 3]):
        with store.open("/bucket/part.parquet", "wb") as file:
            _write(file, items)
        source = open_source("tagged://bucket/part.parquet", LAYOUT, SALT)
        (known,) = known_files(source, 0, 2.0)  # Before all times: a tag needs no clock.
        assert known.keepable
        versions.append(known.key)
    assert versions[0] == versions[2] != versions[1]
