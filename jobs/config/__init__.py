"""The config of a release: its YAML file, and every key with its type, range and default.

Open ``release`` first: it defines the sections of a config, and ``load_config``. ``dataset``, ``partition``,
``workload`` and ``incremental`` define the sections of the same names, and ``section`` the base class of all sections.
``config.schema.json`` is the JSON Schema of a config, which ``marquee plan --schema`` prints. It is generated from the
fields and their descriptions.
"""

from __future__ import annotations

from jobs.config.dataset import Dataset
from jobs.config.release import (
    LARGEST_EPSILON,
    LARGEST_QUIET_DELTA,
    Config,
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
