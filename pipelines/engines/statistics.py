"""The ``Engine`` interface, and the exact statistics of a source on an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.exact_statistics import Contribution, NamedSums, Request
from pipelines.aggregators import aggregator_for
from pipelines.aggregators.item_sums import AnyAggregator, ItemSums
from pipelines.engines.parts import parts_of
from pipelines.item_names import ItemNames
from pipelines.layout import BasketLayout
from pipelines.source import AnySource, FrameSource

PART_PAIRS: Final = 1 << 25
"""Pairs per part of the items: at most 34 million names, which take some GiB only if no two of them are equal."""


class Engine(Protocol):
    """Sums an aggregator over all units of a source.

    Contract, checked for every engine by tests/contract/test_engine_laws.py:
        * The result is the same, bit for bit, on every engine and for every distribution of the rows over files.
        * The engine may run a task more than once, but counts each unit once.
        * The engine raises InputError for files that cannot be read, and EngineError for its own failures. It raises
          IntegrityError when counts contradict the declared contribution. It raises no other exception.
    """

    @property
    def name(self) -> str:
        """Name of the engine, as in configs."""
        ...

    def reduce(self, source: AnySource, aggregator: AnyAggregator) -> NDArray[np.int64]:
        """The merged accumulator over all units, before ``extract``. SENSITIVE."""
        ...


class TaskEngine(Engine, Protocol):
    """An engine that also runs tasks which are no aggregation. The engines local, Spark and Beam all do."""

    def each(self, task: Callable[[Any], bytes], items: Sequence[Any]) -> list[bytes]:
        """The results of a task for all items, in the order of the items. SENSITIVE if the results are.

        task: A function of one item that can be pickled. It may run more than once for an item.
        items: Its arguments, which can be pickled as well.

        Raises: The exceptions of ``Engine``.
        """
        ...


@final
class EngineStatistics:
    """The exact statistics of a source on an engine. SENSITIVE: only for the kernel and for offline evaluation.

    engine: The engine that reads the data.
    source: The checked files or frame.
    """

    def __init__(self, engine: Engine, source: AnySource) -> None:
        self._engine = engine
        self._source = source

    @property
    def contribution(self) -> Contribution:
        """What one unit may contribute."""
        return self._source.layout.contribution

    @cached_property
    def item_parts(self) -> int:
        """Number of parts of the items, so that each fits in memory: one per ``PART_PAIRS`` rows."""
        source = self._source
        rows = source.rows if isinstance(source, FrameSource) else sum(part.rows for part in parts_of(source))
        return max(1, -(-(rows or 0) // PART_PAIRS))

    def item_sums(self, weights: NDArray[np.int64], part: int, excluded: tuple[bytes, ...] = ()) -> NamedSums:
        """The sums of the items of one part, as ``ItemStatistics`` defines them. SENSITIVE.

        Raises: The exceptions of the engine.
        """
        names = ItemNames.of_bytes(excluded) if excluded else None
        aggregator = ItemSums(weights, self._source.salt, part, self.item_parts, names)
        return aggregator.extract(self._engine.reduce(self._source, aggregator))  # SENSITIVE

    def named(self, layout: BasketLayout) -> EngineStatistics:
        """The statistics of the same rows whose items now have names.

        layout: The layout of the source, with names.
        """
        return EngineStatistics(self._engine, replace(self._source, layout=layout))

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        """Exact answers to a request, int64 [size of the request]. SENSITIVE.

        Raises: ConfigError when the request does not fit the dataset; the exceptions of the engine.
        """
        aggregator = aggregator_for(request, self._source.layout)
        return aggregator.extract(self._engine.reduce(self._source, aggregator))  # SENSITIVE
