"""The audit knows every mechanism and every verb: one that is added without a row there fails here."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.sensitivity import PrivacyUnit
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.queries import Conjunctions, Itemsets
from dpcore.queries.ranges import prefix, range_marginals
from dpcore.testing.doubles import ADD_REMOVE
from dpcore.workload import Workload, conjunctive, explicit, frequent, linear
from tests.audit.mechanism_table import TABLES, VERBS, AuditRow, Kind
from tests.support.public_tables import Informed
from tests.support.recorder import COSTS

SAMPLERS = {
    "measure": "noise",
    "measure_rows": "noise",
    "measure_errors": "noise",
    "select": "argmax",
    "sample": "sample",
    "retain": "bits",
}
NOT_VERBS = {"terms", "remaining_share", "charges", "expect"}
DOMAIN, BITS = Domain.of({"x": 2, "y": 3}), Domain.of({"x": 2, "y": 2})


def some(view: BinaryView) -> Workload:
    return conjunctive(Conjunctions(view, np.array([[0, 2], [1, 3]]), np.zeros((2, 2), dtype=np.bool_)))


WORKLOADS = {
    Kind.MARGINALS: (explicit(DOMAIN, {("x", "y"): 1.0, ("x",): 1.0}), Shape.TABLE),
    Kind.CONJUNCTIONS: (some(BinaryView.one_hot(DOMAIN)), Shape.TABLE),
    Kind.BASKETS: (some(BinaryView(5)), Shape.BASKETS),
    Kind.RANGES: (linear(range_marginals(DOMAIN, [("x", "y")], {"y": prefix(3)})), Shape.TABLE),
    Kind.ITEMSETS: (frequent(Itemsets(BinaryView(5), 3, top=2)), Shape.BASKETS),
    Kind.BITS: (explicit(BITS, {("x", "y"): 1.0}), Shape.TABLE),
}


def test_every_mechanism_that_a_config_can_name_is_audited() -> None:
    assert [row.name for row in TABLES] == list(MECHANISMS)


@pytest.mark.parametrize("row", TABLES, ids=lambda row: row.name)
def test_a_row_runs_the_mechanism_that_it_names(row: AuditRow) -> None:
    mechanisms = [mechanism for some in row.small.values() for mechanism in some]
    assert mechanisms
    plain = [mechanism.mechanism if isinstance(mechanism, Informed) else mechanism for mechanism in mechanisms]
    assert {type(mechanism) for mechanism in plain} == {MECHANISMS[row.name]}
    assert row.release.keys() == row.small.keys()


def test_every_verb_of_the_kernel_is_audited() -> None:
    public = {name for name in vars(PrivateStatistics) if not name.startswith("_")}
    verbs = {row.name.split(",")[0] for row in VERBS}  # "measure, clipped" is a row of measure.
    assert verbs == public - NOT_VERBS
    assert verbs == SAMPLERS.keys()
    assert set(SAMPLERS.values()) == set(COSTS), "a verb draws from a sampler that the recorder does not watch"


@pytest.mark.parametrize("row", TABLES, ids=lambda row: row.name)
def test_a_row_names_the_workloads_and_currencies_that_the_mechanism_takes(row: AuditRow) -> None:
    for kind, (workload, shape) in WORKLOADS.items():
        if kind in (Kind.RANGES, Kind.BITS) and Kind.MARGINALS in row.small:
            continue
        for currency in Currency:
            terms = PrivacyTerms(PrivacyUnit(ADD_REMOVE, Contribution(shape, 1)), Budget(currency, Fraction(1)))
            mechanism = row.small[kind][0] if kind in row.small else MECHANISMS[row.name]()
            if kind in row.small and currency in row.currencies:
                assert mechanism.plan(terms, workload).steps
            else:
                with pytest.raises(ConfigError):
                    mechanism.plan(terms, workload)
