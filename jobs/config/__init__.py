"""The config of a release: its YAML, every key, its type and its range."""

from __future__ import annotations

from jobs.config.release import (
    LARGEST_EPSILON,
    LARGEST_QUIET_DELTA,
    Config,
    Dataset,
    EngineChoice,
    MechanismChoice,
    Privacy,
    error_text,
    load_config,
    parse_config,
)

__all__ = [
    "LARGEST_EPSILON",
    "LARGEST_QUIET_DELTA",
    "Config",
    "Dataset",
    "EngineChoice",
    "MechanismChoice",
    "Privacy",
    "error_text",
    "load_config",
    "parse_config",
]
