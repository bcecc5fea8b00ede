"""The number of rows of a table, which is public or measured first."""

from __future__ import annotations

from fractions import Fraction

from dpcore.domain import Domain
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement
from dpcore.queries import Marginals


def total_share(terms: PrivacyTerms, share: Fraction) -> Fraction:
    """Share of the budget that measures the number of rows: 0 if that number is public, else ``share``.

    The number of rows is public if the number of units is public and each unit holds one row.
    """
    return Fraction(0) if _is_row_count_public(terms) else share


def row_total(private: PrivateStatistics, domain: Domain, share: Fraction) -> tuple[float, list[Measurement]]:
    """Number of rows of a table, at least 1, with its measurement: public, or a noisy count measured for ``share``."""
    public = public_total(private.terms)
    if public is not None:
        return public, []
    measured = private.measure(Marginals(domain, ((),)), share)
    return float(max(1, measured.values[0])), [measured]


def public_total(terms: PrivacyTerms) -> float | None:
    """Number of rows of a table if it is public, else None."""
    return float(terms.unit.units) if terms.unit.units is not None and _is_row_count_public(terms) else None


def _is_row_count_public(terms: PrivacyTerms) -> bool:
    return terms.unit.units is not None and terms.unit.contribution.bound == 1
