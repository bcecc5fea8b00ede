"""The annealing of AIM: the share of the budget that each round spends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final


@final
@dataclass(frozen=True)
class Annealing:
    """The shares of one round, from which those of the next round follow (thesis, Algorithm 8).

    select: Share of the whole budget that the selection of the round spends.
    measure: Share of the whole budget that the measurement of the round spends.
    growth: Factor by which both shares grow after a round that changed the model little. The thesis halves the noise,
        which is a factor of 4 under zCDP and Gaussian DP, and of 2 under pure DP.
    """

    select: Fraction
    measure: Fraction
    growth: Fraction

    @classmethod
    def planned(cls, share: Fraction, rounds: int, select_share: Fraction, growth: Fraction) -> Annealing:
        """The first of some equal rounds.

        share: Share of the whole budget that all rounds together spend.
        rounds: Number of rounds.
        select_share: Fraction of each round's share that the selection spends.
        growth: As in the class.
        """
        round_share = share / rounds
        return cls(round_share * select_share, round_share * (1 - select_share), growth)

    @property
    def round(self) -> Fraction:
        """Share of the whole budget that the round spends."""
        return self.select + self.measure

    def grown(self) -> Annealing:
        """The next round with less noise in the selection and the measurement (lines 2 and 3)."""
        return replace(self, select=self.select * self.growth, measure=self.measure * self.growth)

    def limited(self, remaining: Fraction) -> Annealing:
        """The same round if the remaining share pays for more than two of it, else a last round with all that remains
        (lines 8 to 10).
        """
        if remaining > 2 * self.round:
            return self
        select = remaining * self.select / self.round
        return replace(self, select=select, measure=remaining - select)
