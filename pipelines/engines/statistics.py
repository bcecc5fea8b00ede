"""The ``Engine`` interface, and exact statistics of a source computed by an engine."""

from __future__ import annotations

from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpcore.exact_statistics import Contribution, Request
from pipelines.aggregators import aggregator_for
from pipelines.aggregators.protocol import Aggregator
from pipelines.source import Source


class Engine(Protocol):
    """Sums an aggregator over all units of a source.

    Contract, checked for every engine by tests/contract/test_engine_laws.py:
        * The result has the same bits on every engine, and however the same rows are split into files.
        * The engine may run any task more than once, and counts each unit once.
        * The engine raises InputError for files that cannot be read, EngineError for its own failures, nothing else.
    """

    @property
    def name(self) -> str:
        """Name of the engine, as configs spell it."""
        ...

    def reduce(self, source: Source, aggregator: Aggregator) -> NDArray[np.int64]:
        """The merged accumulator over all units, before ``extract``. SENSITIVE."""
        ...


@final
class EngineStatistics:
    """The exact statistics of one source on one engine. SENSITIVE: for the kernel and offline evaluation.

    engine: The engine that reads the data.
    source: The checked files.
    """

    def __init__(self, engine: Engine, source: Source) -> None:
        self._engine = engine
        self._source = source

    @property
    def contribution(self) -> Contribution:
        """What one unit may contribute."""
        return self._source.layout.contribution

    def aggregate(self, request: Request) -> NDArray[np.int64]:
        """Exact answers to a request, int64 [size of the request]. SENSITIVE.

        Raises: ConfigError when the request does not fit the dataset; whatever the engine raises.
        """
        aggregator = aggregator_for(request, self._source.layout)
        return aggregator.extract(self._engine.reduce(self._source, aggregator))  # SENSITIVE
