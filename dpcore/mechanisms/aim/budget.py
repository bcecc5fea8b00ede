"""How AIM spends its budget: the shares of its rounds, which grow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final


@final
@dataclass(frozen=True)
class Annealing:
    """How the budget of a round follows from that of the round before (thesis, Algorithm 8).

    select: Share of the whole budget that the selection of a round spends.
    measure: Share of the whole budget that its measurement spends.
    growth: Factor of both shares after a round that changed the model little. Halving the noise, as printed, is a
        factor of 4 under zCDP and Gaussian DP, and of 2 under pure DP.
    """

    select: Fraction
    measure: Fraction
    growth: Fraction

    @classmethod
    def planned(cls, share: Fraction, rounds: int, select_share: Fraction, growth: Fraction) -> Annealing:
        """Equal rounds.

        share: Share of the whole budget that all rounds have together.
        rounds: How many there are.
        select_share: Part of each round's share that selects.
        growth: As of the class.
        """
        a_round = share / rounds
        return cls(a_round * select_share, a_round * (1 - select_share), growth)

    @property
    def round(self) -> Fraction:
        """Share of the whole budget that a round spends."""
        return self.select + self.measure

    def grown(self) -> Annealing:
        """Less noise, in selection and measurement (lines 2 and 3)."""
        return replace(self, select=self.select * self.growth, measure=self.measure * self.growth)

    def limited(self, remaining: Fraction) -> Annealing:
        """The same shares, or all that remains where it is not enough for two such rounds (lines 8 to 10)."""
        if remaining > 2 * self.round:
            return self
        select = remaining * self.select / self.round
        return replace(self, select=select, measure=remaining - select)
