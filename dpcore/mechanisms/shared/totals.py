"""The number of units or rows: public, or measured first."""

from __future__ import annotations

from fractions import Fraction

from dpcore.domain import Domain
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.queries import Marginals


def total_share(terms: PrivacyTerms, share: Fraction) -> Fraction:
    """What the row total costs: nothing where the number of units is public and each holds one row."""
    return Fraction(0) if _is_public(terms) else share


def row_total(private: PrivateStatistics, domain: Domain, share: Fraction) -> tuple[float, list[Measurement]]:
    """Rows of a table, at least 1: the public number of units, or a noisy count measured for ``share``."""
    public = public_total(private.terms)
    if public is not None:
        return public, []
    measured = private.measure(Marginals(domain, ((),)), share)
    return float(max(1, measured.values[0])), [measured]


def public_total(terms: PrivacyTerms) -> float | None:
    """Rows of a table where that number is public, else None."""
    return float(terms.unit.units) if terms.unit.units is not None and _is_public(terms) else None


def _is_public(terms: PrivacyTerms) -> bool:
    return terms.unit.units is not None and terms.unit.contribution.bound == 1
