"""MWEM mechanisms and the Fourier baseline with some constants of their profiles changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar, cast

from dpcore.mechanisms import fourier
from dpcore.mechanisms.fourier import Fourier
from dpcore.mechanisms.mwem import profile
from dpcore.mechanisms.mwem.mwem import Mwem
from dpcore.mechanisms.mwem.mwem_pgm import MwemPgm
from dpcore.mechanisms.mwem.mwem_queries import MwemQueries

_Mechanism = TypeVar("_Mechanism", Mwem, MwemQueries, MwemPgm, Fourier)
PROFILES: dict[type, dict[str, Any]] = {
    Mwem: profile.MWEM,
    MwemQueries: profile.MWEM_QUERIES,
    MwemPgm: profile.MWEM_PGM,
    Fourier: fourier.PROFILES,
}


def with_constants(mechanism: _Mechanism, **constants: Any) -> _Mechanism:
    """The mechanism with a changed profile, which is registered under a name that says what changed.

    A uniform start measures nothing, so that its share is 0.
    """
    if constants.get("start") == "uniform":
        constants["start_share"] = 0.0
    profiles = PROFILES[type(mechanism)]
    name = f"{mechanism.profile} with {constants}"
    profiles[name] = replace(profiles[mechanism.profile], **constants)
    return replace(mechanism, profile=cast(Any, name))
