"""Mechanisms with changed constants, which no config can set: for variants in tests, audits and benchmarks."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, TypeVar

from dpcore.mechanisms import fourier
from dpcore.mechanisms.aim import profile as aim
from dpcore.mechanisms.aim.aim import Aim
from dpcore.mechanisms.fourier import Fourier
from dpcore.mechanisms.mwem import profile as mwem
from dpcore.mechanisms.mwem.mwem import Mwem
from dpcore.mechanisms.mwem.mwem_pgm import MwemPgm
from dpcore.mechanisms.mwem.mwem_queries import MwemQueries
from dpcore.mechanisms.query_game import profiles as query_game
from dpcore.mechanisms.query_game.dqrs import Dqrs
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.mechanisms.query_game.dual_query_pgm import DualQueryPgm
from dpcore.mechanisms.query_game.fem import Fem
from dpcore.mechanisms.query_game.sep_fem import SepFem

PROFILES: dict[type, dict[str, Any]] = {
    Aim: aim.PROFILES,
    Mwem: mwem.MWEM,
    MwemQueries: mwem.MWEM_QUERIES,
    MwemPgm: mwem.MWEM_PGM,
    Fourier: fourier.PROFILES,
    DualQuery: query_game.DUAL_QUERY_PROFILES,
    Dqrs: query_game.DUAL_QUERY_PROFILES,
    DualQueryPgm: query_game.DUAL_QUERY_PGM_PROFILES,
    Fem: query_game.FEM_PROFILES,
    SepFem: query_game.FEM_PROFILES,
}
"""The profiles of each mechanism that has a setting ``profile``."""

_Mechanism = TypeVar("_Mechanism")


def with_constants(mechanism: _Mechanism, **constants: Any) -> _Mechanism:
    """A copy of the mechanism that has these values in place of its constants.

    A mechanism with a setting ``profile`` gets a changed profile, registered under a name that says what changed.
    """
    changed: Any = copy.copy(mechanism)
    if type(mechanism) in PROFILES:
        profiles, name = PROFILES[type(mechanism)], f"{changed.profile} with {constants}"
        profiles[name] = replace(profiles[changed.profile], **constants)
        field, value = "profile", name
    else:
        field, value = "constants", replace(changed.constants, **constants)
    object.__setattr__(changed, field, value)  # The dataclass is frozen.
    return changed  # type: ignore[no-any-return]
