"""Mechanisms with changed constants, which no config can set: for variants in tests, audits and benchmarks."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, TypeVar

from dpcore.mechanisms import fourier
from dpcore.mechanisms.fourier import Fourier
from dpcore.mechanisms.mwem import profile as mwem
from dpcore.mechanisms.mwem.mwem import Mwem
from dpcore.mechanisms.mwem.mwem_pgm import MwemPgm
from dpcore.mechanisms.mwem.mwem_queries import MwemQueries

PROFILES: dict[type, dict[str, Any]] = {
    Mwem: mwem.MWEM,
    MwemQueries: mwem.MWEM_QUERIES,
    MwemPgm: mwem.MWEM_PGM,
    Fourier: fourier.PROFILES,
}
"""The profiles of each mechanism that has a setting ``profile``."""

_Mechanism = TypeVar("_Mechanism")


def with_constants(mechanism: _Mechanism, **constants: Any) -> _Mechanism:
    """A copy of the mechanism that has these values in place of its constants.

    A mechanism with a setting ``profile`` gets a changed profile, registered under a name that says what changed. A
    uniform start measures nothing, so that its share is 0.
    """
    changed: Any = copy.copy(mechanism)
    if type(mechanism) in PROFILES:
        if constants.get("start") == "uniform":
            constants["start_share"] = 0.0
        profiles, name = PROFILES[type(mechanism)], f"{changed.profile} with {constants}"
        profiles[name] = replace(profiles[changed.profile], **constants)
        field, value = "profile", name
    else:
        field, value = "constants", replace(changed.constants, **constants)
    object.__setattr__(changed, field, value)  # The dataclass is frozen.
    return changed  # type: ignore[no-any-return]
