"""Query-game mechanisms with changed constants, for tests and benchmarks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, TypeVar

from dpcore.mechanisms.query_game.dqrs import Dqrs
from dpcore.mechanisms.query_game.dual_query import DualQuery
from dpcore.mechanisms.query_game.dual_query_pgm import DualQueryPgm
from dpcore.mechanisms.query_game.fem import Fem
from dpcore.mechanisms.query_game.profiles import DUAL_QUERY_PGM_PROFILES, DUAL_QUERY_PROFILES, FEM_PROFILES
from dpcore.mechanisms.query_game.sep_fem import SepFem

M = TypeVar("M", DualQuery, Dqrs, DualQueryPgm, Fem, SepFem)
PROFILES: Final[dict[type, dict[str, Any]]] = {
    DualQuery: DUAL_QUERY_PROFILES,
    Dqrs: DUAL_QUERY_PROFILES,
    DualQueryPgm: DUAL_QUERY_PGM_PROFILES,
    Fem: FEM_PROFILES,
    SepFem: FEM_PROFILES,
}


def query_game_with(mechanism: M, **constants: Any) -> M:
    """The mechanism with some constants of its profile changed; the changed profile is registered under a name."""
    profiles = PROFILES[type(mechanism)]
    name = f"{mechanism.profile} with {constants}"
    profiles[name] = replace(profiles[mechanism.profile], **constants)
    return replace(mechanism, profile=name)
