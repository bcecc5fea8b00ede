"""Charges recomputed from a certificate: right ones pass, and wrong ones name what they cost."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Bound, Budget, Charge, CostBasis, Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.gaussian_dp import gdp_of_bounded_range
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.scales import noise_of, noise_scale, selection_scale
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from jobs.config import parse_config
from jobs.outputs.certificate import KernelRecord, certificate
from jobs.outputs.certificate_format import Certificate, parse_certificate
from jobs.planning.job import job_of
from jobs.verification.charges import charge_findings, cost_findings, sum_findings
from jobs.verification.findings import Outcome
from tests.support.releases import SCHEMA, TABLE

CURRENCIES = {
    Currency.PURE: {"delta": 0.0},
    Currency.ZCDP: {"delta": 1e-6, "accounting": "zcdp"},
    Currency.GDP: {"delta": 1e-6, "accounting": "gdp"},
}
ONE_ROW = Contribution(Shape.TABLE, 1)
every_currency = pytest.mark.parametrize("currency", CURRENCIES, ids=lambda currency: currency.name)


def read(folder: Path, currency: Currency, *charges: Charge) -> Certificate:
    """A certificate with these charges, as a reader gets it."""
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    document = {**TABLE, "privacy": {"epsilon": 1.0, **CURRENCIES[currency]}}
    made = job_of(parse_config(document), folder)
    record = KernelRecord(charges, len(charges), "c0ffee")
    return parse_certificate(json.dumps(certificate(made, made.stand_in, record, None)))[0]


def noise(currency: Currency, amount: Fraction, sensitivity: int = 9, scale: float | None = None) -> Charge:
    """A measurement that is charged ``amount``, with the scale that this pays for unless another is given."""
    bound = Bound.L1 if currency is Currency.PURE else Bound.SQUARED_L2
    paid = noise_scale(currency, amount, sensitivity, sensitivity) if scale is None else scale
    law = noise_of(currency).value
    return Charge("noise", amount, CostBasis("measure", law, bound, Fraction(sensitivity), "counts", paid))


def selection(currency: Currency, amount: Fraction) -> Charge:
    law = "permute_and_flip" if currency is Currency.PURE else "exponential_mechanism"
    scale = selection_scale(currency, amount, 256)
    return Charge("pick", amount, CostBasis("select", law, Bound.SCORE, Fraction(256), "steps of the score", scale))


def draws(amount: Fraction, width: Fraction, count: int) -> Charge:
    basis = CostBasis("sample", "exponential_mechanism", Bound.RANGE, width, "nats", draws=count)
    return Charge("draw", amount, basis)


def outcomes(found: Any) -> dict[str, Outcome]:
    return {finding.check: finding.outcome for finding in found}


@every_currency
@pytest.mark.parametrize("amount", [Fraction(1, 3), Fraction(1, 10**6), Fraction(7, 10**10)])
def test_what_the_kernel_charges_follows(tmp_path: Path, currency: Currency, amount: Fraction) -> None:
    width = Fraction(1, 30)
    one = {Currency.PURE: width, Currency.ZCDP: width**2 / 8, Currency.GDP: gdp_of_bounded_range(width)}[currency]
    certified = read(tmp_path, currency, noise(currency, amount), selection(currency, amount), draws(5 * one, width, 5))
    assert outcomes(charge_findings(certified)) == {"charges": Outcome.PASSED}


@every_currency
@pytest.mark.parametrize("factor", [Fraction(99, 100), Fraction(101, 100), Fraction(1000001, 1000000)])
def test_another_amount_is_seen(tmp_path: Path, currency: Currency, factor: Fraction) -> None:
    amount = Fraction(1, 300)
    for charge in (noise(currency, amount), selection(currency, amount)):
        wrong = Charge(charge.label, factor * amount, charge.basis)
        (finding,) = charge_findings(read(tmp_path, currency, wrong))
        assert finding.outcome is Outcome.FAILED
        assert "its sensitivity and scale cost 0.0033333333" in finding.text


@every_currency
def test_the_smallest_scale_may_cost_less_than_was_charged(tmp_path: Path, currency: Currency) -> None:
    huge = Fraction(10) ** 14
    charge = noise(currency, huge)
    assert charge.scale == 2.0**-20
    assert outcomes(charge_findings(read(tmp_path, currency, charge))) == {"charges": Outcome.PASSED}
    raised = noise(currency, huge, scale=2.0**-19)
    assert outcomes(charge_findings(read(tmp_path, currency, raised))) == {"charges": Outcome.FAILED}


@every_currency
def test_free_calls_move_nothing(tmp_path: Path, currency: Currency) -> None:
    free = draws(Fraction(0), Fraction(0), 9)
    assert outcomes(charge_findings(read(tmp_path, currency, free))) == {"charges": Outcome.PASSED}
    for wrong in (draws(Fraction(0), Fraction(1, 9), 9), draws(Fraction(1, 9), Fraction(0), 9)):
        assert outcomes(charge_findings(read(tmp_path, currency, wrong))) == {"charges": Outcome.FAILED}


GAPS = {Fraction(1, 1 << 20): 2, Fraction(1, 3): 5, Fraction(7): 20, Fraction(2000): 3}


def bits(currency: Currency, slope: Fraction = Fraction(1, 2)) -> Charge:
    """Acceptance bits as the kernel charges them."""
    terms = PrivacyTerms(PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, ONE_ROW, None), Budget(currency, Fraction(1)))
    return Charge("bits", terms.retain_amount(slope, 50, GAPS), terms.retain_basis(slope, 50, GAPS))


@every_currency
def test_acceptance_bits_are_recomputed_from_their_gaps(tmp_path: Path, currency: Currency) -> None:
    right = bits(currency)
    assert outcomes(charge_findings(read(tmp_path, currency, right))) == {"charges": Outcome.PASSED}
    assert right.basis is not None
    (first, *others), fewer = right.basis.gaps, replace(right.basis, draws=29)
    wrong = [
        replace(right, amount=right.amount * Fraction(99, 100)),
        replace(right, amount=right.amount * Fraction(101, 100)),
        replace(right, amount=Fraction(0)),
        replace(right, basis=fewer),
        replace(right, basis=replace(right.basis, gaps=())),
        replace(right, basis=replace(right.basis, gaps=((first[0] * 2, 2), *others))),
        replace(right, basis=replace(right.basis, gaps=((Fraction(0), 2), *others))),
        replace(right, basis=replace(right.basis, sensitivity=right.basis.sensitivity * Fraction(99, 100))),
        Charge("noise", right.amount, replace(noise(currency, right.amount).basis or fewer, gaps=right.basis.gaps)),
    ]
    for charge in wrong:
        assert outcomes(charge_findings(read(tmp_path, currency, charge))) == {"charges": Outcome.FAILED}


@every_currency
def test_bits_that_do_not_depend_on_data_are_free(tmp_path: Path, currency: Currency) -> None:
    free = bits(currency, Fraction(0))
    assert free.amount == 0
    assert outcomes(charge_findings(read(tmp_path, currency, free))) == {"charges": Outcome.PASSED}


@every_currency
def test_the_whole_budget_is_enough_and_no_more(tmp_path: Path, currency: Currency) -> None:
    amount = budget_of(1.0, CURRENCIES[currency]["delta"], currency).amount  # type: ignore[arg-type]
    found = outcomes(cost_findings(read(tmp_path, currency, noise(currency, amount))))
    assert (found["sum of charges"], found["epsilon"]) == (Outcome.PASSED, Outcome.PASSED)
    more = read(tmp_path, currency, noise(currency, amount), draws(Fraction(1, 2**80), Fraction(0), 1))
    (finding,) = sum_findings(more)
    assert "more than the reserved" in finding.text
