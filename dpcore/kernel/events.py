"""Calls of the kernel whose every parameter is fixed in advance, as plans list them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction


class Loss(StrEnum):
    """What is known about the privacy loss of an event, and what its size means.

    GAUSSIAN: The loss of a Gaussian mechanism, or of any rho-zCDP one; the size is mu^2, or 2 rho.
    BOUNDED_RANGE: A selection; the size is the epsilon of its bounded range.
    PURE: Pure differential privacy; the size is epsilon.
    """

    GAUSSIAN = "gaussian"
    BOUNDED_RANGE = "bounded_range"
    PURE = "pure"


@dataclass(frozen=True)
class Event:
    """Mechanisms of one kind and size.

    loss: What is known about the privacy loss of each.
    size: The size of that loss, as ``Loss`` defines it.
    count: Number of mechanisms.
    charged: What all of them cost together, in the currency of the budget.
    calls: Number of kernel calls that they are made in, all of the same cost.
    """

    loss: Loss
    size: Fraction
    count: int
    charged: Fraction
    calls: int = 1
