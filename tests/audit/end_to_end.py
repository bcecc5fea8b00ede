"""How much a run really loses: bounds from below, by the runs of what ships on the hardest neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpcore.kernel.budget import Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.sensitivity import Neighbours
from tests.audit.lower_bounds import Loss, approximate_loss, choose_event, epsilon_loss, mu_loss, rho_loss
from tests.audit.mechanism_table import STAGES, TABLES, VERBS, Audited, AuditRow
from tests.audit.section import Row, Size
from tests.audit.worst_pairs import Claim

FAMILY_ERROR = {Size.FAST: 1e-5, Size.FULL: 1e-3}  # Chance that any bound of the table lies above the true loss.
EPSILONS = {Size.FAST: (1.0, 4.0), Size.FULL: (0.1, 1.0, 4.0)}
# Sigma follows from the claim, whatever delta; at 1e-9 it is so large that no number of runs shows it.
DELTA = 1e-2
NAMES = tuple(row.name for row in (*TABLES, *VERBS, *STAGES))
_CHOOSING = 8  # One run of so many chooses the event.

TITLE = "End-to-end audit"
CLAIM = (
    "No run tells neighbours apart better than is claimed: each line bounds the loss from below (Clopper-Pearson on an "
    f"event chosen on other runs; family-wise error {FAMILY_ERROR[Size.FULL]:g}), and no bound lies above its claim. "
    "Where the worst case can be drawn often enough, the bound comes near: at least 0.8 of epsilon, 0.9 of mu. "
    'Runs are on each of two neighbours. "mechanism.run over copies" is one run over many copies of a query '
    'with as many times the budget, of which each answer alone makes the claim; "noisy_argmax" is what select draws '
    f"with, without its ledger and journal. Claims in rho and mu are those of (epsilon, {DELTA:g})."
)


@dataclass(frozen=True)
class Case:
    """One line: a worst case of one mechanism or verb under one claim."""

    name: str
    claim: Claim
    audited: Audited

    @property
    def in_mu(self) -> bool:
        return self.audited.in_mu or self.claim.budget.currency is Currency.GDP


def cases(size: Size, rows: Sequence[AuditRow] = (*TABLES, *VERBS, *STAGES)) -> Iterator[Case]:
    """Every row under every currency it has a proof for, each epsilon and both kinds of neighbours."""
    for row in rows:
        for currency in row.currencies:
            for epsilon in EPSILONS[size]:
                for neighbours in Neighbours:
                    claim = claim_of(currency, epsilon, neighbours)
                    yield from (Case(row.name, claim, audited) for audited in row.worst_cases(claim))


def claim_of(currency: Currency, epsilon: float, neighbours: Neighbours) -> Claim:
    """The claim of epsilon, with DELTA where it is not pure."""
    delta = 0.0 if currency is Currency.PURE else DELTA
    return Claim(budget_of(epsilon, delta, currency), epsilon, delta, neighbours)


def run(size: Size, names: Sequence[str] = NAMES) -> list[Row]:
    """The rows of some mechanisms and verbs, at the error that they have among all rows."""
    every = list(cases(size))
    return [audit(case, size, FAMILY_ERROR[size] / len(every)) for case in every if case.name in names]


def audit(case: Case, size: Size, error: float) -> Row:
    """Draws, chooses an event on the first runs and bounds the loss on the rest."""
    runs = case.audited.full if size is Size.FULL else case.audited.fast
    first, neighbour = (case.audited.trial.draw(which, runs) for which in (False, True))
    shown, claimed = _losses(case)[0]
    head = runs // _CHOOSING
    event = choose_event(shown, first[:head], neighbour[:head], runs - head, error)
    p, q = event.chances(first[head:], neighbour[head:], error)
    wanted = case.audited.wanted if size is Size.FULL else 0.0
    bound = shown(p, q)
    passed = all(loss(p, q) <= limit for loss, limit in _losses(case)) and bound >= wanted * claimed
    return Row(_cells(case, claimed, bound, wanted, runs), passed)


def _losses(case: Case) -> list[tuple[Loss, float]]:
    """What the two chances are held to; the first is the one that is shown."""
    claim, amount = case.claim, float(case.claim.budget.amount)
    if claim.budget.currency is Currency.PURE:
        return [(epsilon_loss, amount)]
    target = (approximate_loss(claim.delta), claim.epsilon)
    if claim.budget.currency is Currency.GDP:
        return [(mu_loss, math.sqrt(amount)), target]
    native = (rho_loss, amount)
    return [(mu_loss, math.sqrt(2 * amount)), native, target] if case.in_mu else [native, target]


def _cells(case: Case, claimed: float, bound: float, wanted: float, runs: int) -> dict[str, str | int | float]:
    pure = case.claim.budget.currency is Currency.PURE
    return {
        "mechanism": case.name,
        "through": case.audited.trial.through,
        "currency": case.claim.budget.currency.name,
        "neighbours": case.claim.neighbours.value,
        "epsilon": case.claim.epsilon,
        "measured in": "epsilon" if pure else "mu" if case.in_mu else "rho",
        "claimed": claimed,
        "lower bound": bound,
        "ratio": bound / claimed,
        "wanted": wanted,
        "runs": runs,
    }
