"""Step size, samples and rounds of DualQuery, from public facts only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpcore.kernel.budget import Currency
from dpcore.kernel.terms import Terms
from dpcore.kernel.weighted_sampler import LARGEST_SCORE

SAMPLES_A_ROUND = 4
ETA = 1.0

@dataclass(frozen=True)
class Schedule:
    eta: float
    samples: int
    rounds: int


def schedule_for(terms, share, total, *, eta=None, samples=None, rounds=None):
    amount = share * terms.budget.amount
    eta = eta or ETA
    samples = samples or 100
    limit = rounds or 10**9
    limit = min(limit, 1 + int(LARGEST_SCORE * math.log(2.0) / eta))
    return Schedule(eta, samples, affordable_rounds(terms, amount, total, eta, samples, limit))


def affordable_rounds(terms, amount, total, eta, samples, limit):
    done, spent = 0, Fraction(0)
    while done < limit:
        spent += terms.draws_amount(Fraction(eta) * done, total, samples)
        if spent > amount:
            break
        done += 1
    return done
