"""An engine around another one that reads new and changed files alone. TRUSTED.

All aggregators are sums over units, and with files of whole units also sums over files. Each group's part of a sum
is kept in a store, so a later run adds up what is kept and counts the rest. Every sum is the one that the inner engine
gives when it reads all files, bit for bit, also when files come late, change or vanish, and when a unit has rows in
files that were read in different runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import ConfigError, EngineError
from pipelines.aggregators.item_sums import AnyAggregator, ItemSums
from pipelines.aggregators.protocol import Aggregator
from pipelines.engines.claim import UnitRange, line_of, range_from
from pipelines.engines.failures import without_values
from pipelines.engines.statistics import TaskEngine
from pipelines.source import AnySource, FrameSource, Source
from pipelines.statistics_store.claim import Halves, in_several_files, overlapping, with_repeated_halves
from pipelines.statistics_store.counting import (
    Counted,
    CountTask,
    Piece,
    UnitsTask,
    opened,
    packed,
    unpacked,
)
from pipelines.statistics_store.digests import code_digest, digest_of
from pipelines.statistics_store.file_groups import (
    FileGroup,
    GroupBy,
    KnownFile,
    groups_of,
    known_files,
    piece_of,
    view_digest,
)
from pipelines.statistics_store.store import StatisticsStore
from pipelines.statistics_store.unit_digests import Digests, digests_from

T = TypeVar("T")

_WAVE_BYTES: Final = 1 << 28  # Counts that go to the driver at once. What is counted is kept after each wave.
_WAVE_PIECES: Final = 1 << 10
_WAVE_LISTS: Final = 16  # Lists of units that go to the driver at once.
_NO_RANGE: Final = b"none"


@dataclass(eq=False)
class _Opened:
    """What is known about the last source. SENSITIVE.

    source: The source, recognised as an object.
    files: Its files. groups: Their groups.
    context: What all entries depend on: the layout, the salt and the code.
    ranges: The range of units of each file that is known by now.
    broken: The units with rows in several files, by the file; None before this is known.
    """

    source: Source
    files: tuple[KnownFile, ...]
    groups: tuple[FileGroup, ...]
    context: bytes
    ranges: dict[int, UnitRange | None]
    broken: dict[int, Digests] | None = None


@final
class IncrementalEngine:
    """Sums an aggregator over kept statistics and over the files for which none are kept.

    engine: The engine that counts new and changed files.
    store: Where statistics are kept.
    by: What one group of files is.
    quiet_seconds: A file that was changed in the last seconds is counted, and its statistics are not kept, because
        another change might leave no trace. Clocks of machines and stores should agree within this time.
    """

    def __init__(
        self,
        engine: TaskEngine,
        store: StatisticsStore,
        by: GroupBy = GroupBy.FILE,
        quiet_seconds: float = 2.0,
    ) -> None:
        self._engine = engine
        self._store = store
        self._by = by
        self._quiet_seconds = quiet_seconds
        keys = store.derived("units")
        self._unit_keys = (keys[:16], keys[16:])
        self._last: _Opened | None = None

    @property
    def name(self) -> str:
        """Name of the engine that counts."""
        return self._engine.name

    def reduce(self, source: AnySource, aggregator: AnyAggregator) -> NDArray[np.int64]:
        """The merged accumulator over all units, before ``extract``. SENSITIVE.

        Raises: ConfigError for a frame, or files that are not clustered by unit; the exceptions of ``Engine``.
        """
        if isinstance(aggregator, ItemSums):  # Names of items are not kept in a store.
            return self._engine.reduce(source, aggregator)
        with without_values("the statistics store"):
            return self._sum(self._open(source), aggregator)

    def each(self, task: Callable[[T], bytes], items: Sequence[T]) -> list[bytes]:
        """``TaskEngine.each`` of the inner engine."""
        return self._engine.each(task, items)

    def _open(self, source: AnySource) -> _Opened:
        if isinstance(source, FrameSource):
            raise ConfigError("the data are a frame, of which no part can be recognised; want files, or no store")
        if not source.layout.counted_by_file:
            raise ConfigError(
                "files whose units may have rows in others cannot be counted one by one; want files of whole units "
                "with dataset.clustered_by_unit: true, and no partition that needs all others, or no store"
            )
        if self._last is None or self._last.source is not source:
            files = known_files(source, time.time_ns(), self._quiet_seconds)
            context = view_digest(source) + code_digest()
            self._last = _Opened(source, files, groups_of(files, self._by), context, {})
            for number, known in enumerate(files):
                if (kept := self._store.get(self._name("range", self._last, [known]))) is not None:
                    self._last.ranges[number] = None if kept == _NO_RANGE else range_from(kept)
        return self._last

    def _sum(self, known: _Opened, aggregator: Aggregator) -> NDArray[np.int64]:
        request = digest_of(aggregator)
        counts, counted = aggregator.create(), set[FileGroup]()
        if known.broken is None:
            # Until the ranges of all files are known, nobody knows which units must be left out. It is hardly ever any.
            unknown = [part for part in known.groups if not known.ranges.keys() >= set(part.numbers)]
            for part, result in self._count(known, aggregator, request, unknown):
                counts = aggregator.merge(counts, result.counts)
                counted.add(part)
            known.broken = self._broken(known)
            if any(number in known.broken for part in counted for number in part.numbers):
                counts, counted = aggregator.create(), set()
        missing = []
        for part in known.groups:
            if part in counted:
                continue
            if (kept := self._store.get(self._counts_name(known, request, part))) is not None:
                counts = aggregator.merge(counts, unpacked(kept).counts)
            else:
                missing.append(part)
        for _, result in self._count(known, aggregator, request, missing):
            counts = aggregator.merge(counts, result.counts)
        return counts

    def _count(
        self, known: _Opened, aggregator: Aggregator, request: bytes, parts: Sequence[FileGroup]
    ) -> Iterator[tuple[FileGroup, Counted]]:
        """Counts groups without the units that are known to be broken, and keeps the counts and ranges."""
        task = CountTask(replace(known.source, files=()), aggregator, self._unit_keys)
        size = max(1, min(_WAVE_PIECES, _WAVE_BYTES // max(1, aggregator.create().nbytes)))
        for wave in _waves(parts, size):
            pieces = [piece_of(part, known.files, known.broken or {}) for part in wave]
            for part, result in zip(wave, self._engine.each(task, pieces), strict=True):
                steady, content = opened(result)
                counted = unpacked(content)
                known.ranges.update(zip(part.numbers, counted.ranges, strict=True))
                files = [known.files[number] for number in part.numbers]
                if steady and all(file.keepable for file in files):
                    self._store.put(self._counts_name(known, request, part), packed(counted))
                    for file, unit_range in zip(files, counted.ranges, strict=True):
                        line = _NO_RANGE if unit_range is None else line_of(unit_range)
                        self._store.put(self._name("range", known, [file]), line)
                yield part, counted

    def _broken(self, known: _Opened) -> dict[int, Digests]:
        """The units with rows in several files, by the number of the file."""
        broken: dict[int, Digests] = {}
        for group in overlapping(known.ranges):
            first = self._halves(known, group, 0)
            places = with_repeated_halves(first)
            second = self._halves(known, list(places), 1)
            if any(first[number].size != second[number].size for number in places):
                raise EngineError("a file was changed while its units were compared; want files that stay as they are")
            broken |= in_several_files(
                {number: np.stack([first[number][at], second[number][at]], axis=1) for number, at in places.items()}
            )
        return broken

    def _halves(self, known: _Opened, numbers: Sequence[int], half: int) -> dict[int, Halves]:
        """One half of the digests of some files, from the store or else from the files."""
        kept = {number: self._store.get(self._half_name(known, number, half)) for number in numbers}
        halves = {
            number: np.frombuffer(content, dtype="<u8") for number, content in kept.items() if content is not None
        }
        task = UnitsTask(replace(known.source, files=()), self._unit_keys)
        for wave in _waves([number for number in numbers if number not in halves], _WAVE_LISTS):
            pieces: list[Piece] = [piece_of(FileGroup((number,)), known.files, {}) for number in wave]
            for number, result in zip(wave, self._engine.each(task, pieces), strict=True):
                steady, content = opened(result)
                digests = digests_from(content)
                halves[number] = np.ascontiguousarray(digests[:, half])
                if steady and known.files[number].keepable:
                    for which in (0, 1):
                        column = digests[:, which].astype("<u8", copy=False)
                        self._store.put(self._half_name(known, number, which), column.tobytes())
        return halves

    def _half_name(self, known: _Opened, number: int, half: int) -> str:
        return self._name(f"units {half}", known, [known.files[number]])

    def _counts_name(self, known: _Opened, request: bytes, part: FileGroup) -> str:
        """The name of the counts of a group without its broken units."""
        files = [known.files[number] for number in part.numbers]
        broken = known.broken or {}
        dropped = [broken[number].tobytes() if number in broken else b"" for number in part.numbers]
        return self._name("counts", known, files, [request, *dropped])

    def _name(self, kind: str, known: _Opened, files: Sequence[KnownFile], more: Sequence[bytes] = ()) -> str:
        return self._store.name(kind, [known.context, *(file.key for file in files), *more])


def _waves(items: Iterable[T], size: int) -> Iterator[list[T]]:
    remaining = iter(items)
    while wave := list(islice(remaining, size)):
        yield wave
