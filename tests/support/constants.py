"""Mechanisms with changed constants, which no config can set: for variants in tests, audits and benchmarks."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Protocol, TypeVar


class _HasConstants(Protocol):
    @property
    def constants(self) -> Any: ...


_Mechanism = TypeVar("_Mechanism", bound=_HasConstants)


def with_constants(mechanism: _Mechanism, **constants: Any) -> _Mechanism:
    """A copy of the mechanism that has these values in place of its constants."""
    changed = copy.copy(mechanism)
    object.__setattr__(changed, "constants", replace(mechanism.constants, **constants))  # The dataclass is frozen.
    return changed
