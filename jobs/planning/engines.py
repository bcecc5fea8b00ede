"""Builds the engine of a config, and the workers that make its synthetic rows.

Spark and Beam are imported only when the config names them.
"""

from __future__ import annotations

from typing import Any, Final

from dpcore.errors import ConfigError
from jobs.config import EngineChoice
from jobs.config.section import check_key
from jobs.planning.statistics_store import open_store, with_store
from pipelines.engines.local import LocalEngine
from pipelines.engines.statistics import Engine, TaskEngine
from pipelines.generate.parallel_rows import LocalRowWorkers, RowWorkers
from pipelines.source.frames import is_spark_frame
from pipelines.statistics_store.store import StatisticsStore

_OPTIONS = {"local": ["threads", "rows_in_memory"], "spark": ["partitions", "settings"], "beam": ["arguments"]}
FEW_ROWS: Final = 10_000_000
"""Up to this many synthetic rows are made by threads of the driver, because workers would not be faster."""

_COUNTS = {"threads", "rows_in_memory", "partitions"}


def check_engine(choice: EngineChoice) -> None:
    """Checks the options of an engine without starting it.

    choice: The section ``engine`` of a config.

    Raises: ConfigError that names the first option that is unknown or invalid.
    """
    for key, value in choice.options.items():
        try:
            check_key(key, _OPTIONS[choice.name], f"option of engine {choice.name}")
        except ValueError as error:
            raise ConfigError(f"engine: {error}") from error
        if key in _COUNTS and (type(value) is not int or value < 1):
            raise ConfigError(f"engine.options.{key} is {value!r}; want an integer >= 1")
        if key == "settings" and not _is_text_mapping(value):
            raise ConfigError("engine.options.settings is not a mapping of strings to strings; want Spark settings")
        if key == "arguments" and not (isinstance(value, list) and all(isinstance(text, str) for text in value)):
            raise ConfigError("engine.options.arguments is not a list of strings; want Beam's command-line options")


def open_engine(choice: EngineChoice, frame: Any = None, store: StatisticsStore | None = None) -> Engine:
    """Opens the engine of a config, and the store of exact statistics if the config names one.

    choice: The section ``engine`` of a config.
    frame: The frame that will be counted, if there is one. Spark counts a DataFrame in the DataFrame's own session.
    store: The store, if it was opened already.

    Raises: ConfigError when an option is invalid, the engine's extra is not installed, or the store or its key cannot
        be used; EngineError when the engine does not start, or the command for the key fails.
    """
    check_engine(choice)
    if choice.incremental is None:
        return _open_engine(choice, frame)
    store = store or open_store(choice)  # A store that cannot be used is refused before the engine starts.
    engine = _open_engine(choice, frame)
    return engine if store is None else with_store(engine, choice.incremental, store)


def _open_engine(choice: EngineChoice, frame: Any) -> TaskEngine:
    options = choice.options
    if choice.name == "local":
        return LocalEngine(**options)
    try:
        if choice.name == "spark":
            from pipelines.engines.spark import SparkEngine, open_session

            session = frame.sparkSession if is_spark_frame(frame) else open_session(options.get("settings"))
            return SparkEngine(session, options.get("partitions"))
        from pipelines.engines.beam import BeamEngine

        return BeamEngine(options.get("arguments", ()))
    except ModuleNotFoundError as error:
        raise ConfigError(f"engine {choice.name} needs {error.name!r}; install marquee[{choice.name}]") from error


def open_row_workers(choice: EngineChoice, rows: int) -> RowWorkers:
    """Opens the workers of an engine for synthetic rows. They affect the speed and never the rows.

    choice: The section ``engine`` of a config.
    rows: Number of rows. Up to ``FEW_ROWS`` are made by threads of this process, whatever the engine.

    Raises: ConfigError when an option is invalid or the engine's extra is not installed; EngineError when the engine
        does not start.
    """
    check_engine(choice)
    options = choice.options
    if choice.name == "local" or rows <= FEW_ROWS:
        return LocalRowWorkers(options.get("threads"))
    try:
        if choice.name == "spark":
            from pipelines.engines.spark import open_session
            from pipelines.generate.spark_rows import SparkRowWorkers

            return SparkRowWorkers(open_session(options.get("settings")))
        from pipelines.generate.beam_rows import BeamRowWorkers

        return BeamRowWorkers(options.get("arguments", ()))
    except ModuleNotFoundError as error:
        raise ConfigError(f"engine {choice.name} needs {error.name!r}; install marquee[{choice.name}]") from error


def _is_text_mapping(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for pair in value.items() for text in pair)
