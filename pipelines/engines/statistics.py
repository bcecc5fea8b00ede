"""The ``Engine`` interface, and the exact statistics of a source on an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.exact_statistics import Contribution, Request
from pipelines.aggregators import aggregator_for
from pipelines.aggregators.protocol import Aggregator
from pipelines.source import AnySource


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

    def reduce(self, source: AnySource, aggregator: Aggregator) -> NDArray[np.int64]:
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

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        """Exact answers to a request, int64 [size of the request]. SENSITIVE.

        Raises: ConfigError when the request does not fit the dataset; the exceptions of the engine.
        """
        aggregator = aggregator_for(request, self._source.layout)
        return aggregator.extract(self._engine.reduce(self._source, aggregator))  # SENSITIVE
