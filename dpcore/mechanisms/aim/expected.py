"""The errors that AIM expects its measurements to leave: from noisy or public numbers alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcore.estimation.graphical.fitting.expected_error import expected_errors
from dpcore.estimation.graphical.fitting.fit import GraphicalFit
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.measurement import mean_absolute_part
from dpcore.mechanisms.aim.candidates import RoundCandidates
from dpcore.mechanisms.aim.profile import Penalty
from dpcore.strategies.allocation import split_by_size


def shares_by_size(candidates: RoundCandidates, share: Fraction) -> tuple[Fraction, ...]:
    """Splits a share of the budget between the candidates, each of which is measured once."""
    return split_by_size(candidates.total_noise, candidates.weights, share)


def candidate_at(candidates: RoundCandidates, index: int) -> RoundCandidates:
    """One of the candidates, alone."""
    return candidates.only(np.arange(len(candidates.cliques)) == index)


def answers_at(candidates: RoundCandidates, values: NDArray[np.float64], index: int) -> NDArray[np.float64]:
    """A copy of the values of one candidate's answers."""
    begin = int(candidates.sizes[:index].sum())
    return values[begin : begin + int(candidates.sizes[index])].copy()


def remaining_errors(
    terms: PrivacyTerms, answers: NDArray[np.float64], stddevs: NDArray[np.float64], penalty: Penalty
) -> NDArray[np.float64]:
    """Expected absolute error of each answer after a measurement with this noise, in counts."""
    if penalty == "noise":
        return np.broadcast_to(mean_absolute_part(terms.noise) * stddevs, answers.shape)
    return expected_errors(answers, stddevs)


def mean_error(
    terms: PrivacyTerms, candidates: RoundCandidates, fit: GraphicalFit, share: Fraction, penalty: Penalty
) -> float:
    """Mean expected L1 error of the candidates if a share measures all of them, as a fraction of the answers' sum."""
    errors = []
    all_answers = np.split(candidates.answers(fit), np.cumsum(candidates.sizes)[:-1])
    for index, (part, answers) in enumerate(zip(shares_by_size(candidates, share), all_answers, strict=True)):
        candidate = candidate_at(candidates, index)
        error = remaining_errors(terms, answers, candidate.stddevs(terms, part), penalty).sum()
        errors.append(float(error / max(fit.total, answers.sum())))
    return float(np.mean(errors))


def mean_error_of_one(
    terms: PrivacyTerms, candidates: RoundCandidates, fit: GraphicalFit, share: Fraction, penalty: Penalty
) -> float:
    """Mean expected L1 error of the candidates if the same share measures each one alone, as a fraction of the rows."""
    if not candidates.cliques:
        return float("inf")
    answers = candidates.answers(fit)
    errors = remaining_errors(terms, answers, candidates.stddevs(terms, share), penalty)
    return float(errors.sum() / (len(candidates.cliques) * fit.total))
