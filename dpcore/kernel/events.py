"""Kernel calls whose parameters are all fixed before a run, as a plan lists them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction


class Loss(StrEnum):
    """The kind of bound on the privacy loss of a mechanism, which also defines the meaning of its size.

    GAUSSIAN: A Gaussian mechanism, whose size is mu^2, or any rho-zCDP mechanism, whose size is 2 rho.
    BOUNDED_RANGE: A mechanism of bounded range epsilon, such as a selection; its size is epsilon.
    PURE: An epsilon-DP mechanism; its size is epsilon.
    """

    GAUSSIAN = "gaussian"
    BOUNDED_RANGE = "bounded_range"
    PURE = "pure"


@dataclass(frozen=True)
class Event:
    """A number of mechanisms with the same bound on their privacy loss.

    loss: The kind of bound on the privacy loss of each mechanism.
    size: The size of the bound for each mechanism, as ``Loss`` defines it.
    count: Number of mechanisms.
    charged: Total cost of all mechanisms, in the currency of the budget.
    calls: Number of kernel calls that run these mechanisms; every call has the same cost.
    """

    loss: Loss
    size: Fraction
    count: int
    charged: Fraction
    calls: int = 1
