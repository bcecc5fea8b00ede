"""The config of a release: its YAML file, and every key with its type, range and default.

Open ``release`` first: the sections of a config, and ``load_config``. ``workload`` holds the section of the same name,
``section`` the base of all sections, and ``yaml_file`` the strict YAML reader. ``config.schema.json`` is the JSON
Schema of a config, which ``marquee plan --schema`` prints; its descriptions are those of the fields.
"""

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
