"""The certificate: what is promised, in words and exact figures, from public facts alone."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpcore.kernel.budget import Bound, Budget, Charge, CostBasis
from dpcore.kernel.conversion import epsilon_of_gdp, epsilon_of_zcdp, gdp_of, zcdp_of
from jobs.config import parse_config
from jobs.outputs.certificate import KernelRecord, certificate, numerical_bound, promise, write_certificate
from jobs.planning.identity import id_of
from jobs.planning.job import Job, job_of
from tests.support.releases import BASKETS, SCHEMA, TABLE

DRAW = CostBasis("sample", "exponential_mechanism", Bound.RANGE, Fraction(1, 3), "nats", draws=4)
NOISE = CostBasis("measure", "discrete_gaussian", Bound.SQUARED_L2, Fraction(9), "integer answers", 50.0, 4)
CHARGES = (Charge("draw 0", Fraction(1, 3), DRAW), Charge("measure 1", Fraction(2, 3), NOISE))
DRAWN = KernelRecord(CHARGES, 2, "c0ffee")


def job(folder: Path, mechanism: dict[str, object] | None = None, **privacy: object) -> Job:
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    document = {**TABLE, "privacy": {"epsilon": 1.0, "delta": 1e-6, **privacy}}
    if not document["privacy"]["delta"]:
        document["mechanism"] = {"name": "laplace"}
    document["mechanism"] = mechanism or document["mechanism"]
    return job_of(parse_config(document), folder)


def content(made: Job) -> dict[str, Any]:
    return json.loads(json.dumps(certificate(made, made.stand_in, DRAWN, 300)))


def test_the_guarantee_is_in_words_and_in_exact_figures(tmp_path: Path) -> None:
    made = content(job(tmp_path))
    guarantee = made["guarantee"]
    assert (guarantee["epsilon"], guarantee["delta"], guarantee["neighbours"]) == (1.0, 1e-6, "add_remove_unit")
    reserved = guarantee["reserved_in_the_ledger"]
    assert Fraction(reserved["amount"]) == zcdp_of(1.0, 1e-6)
    assert reserved["amount_as_number"] == float(zcdp_of(1.0, 1e-6))
    assert guarantee["currency"] == "zCDP rho"
    assert guarantee["epsilon_at_other_deltas"]["1e-09"] == epsilon_of_zcdp(reserved["amount_as_number"], 1e-9)
    assert made["charges"] == [
        {
            "label": "draw 0", "verb": "sample", "amount": "1/3", "amount_as_number": 1 / 3,
            "law": "exponential_mechanism", "sensitivity_bounds": "bounded range of one draw", "sensitivity": "1/3",
            "noise_scale": None, "unit": "nats", "units_per_answer": 1, "draws": 4, "gaps": None,
        },
        {
            "label": "measure 1", "verb": "measure", "amount": "2/3", "amount_as_number": 2 / 3,
            "law": "discrete_gaussian", "sensitivity_bounds": "squared L2", "sensitivity": "9", "noise_scale": 50.0,
            "unit": "integer answers", "units_per_answer": 4, "draws": 1, "gaps": None,
        },
    ]  # fmt: skip


def test_the_guarantee_comes_first_and_the_charges_last(tmp_path: Path) -> None:
    keys = list(content(job(tmp_path)))
    assert (keys[:2], keys[-1]) == (["guarantee", "limits"], "charges")


@pytest.mark.parametrize("privacy", [{"delta": 0}, {"accounting": "zcdp"}, {"accounting": "gdp"}], ids=str)
def test_a_reader_finds_the_formulas_of_the_currency(tmp_path: Path, privacy: dict[str, object]) -> None:
    made = content(job(tmp_path, **privacy))
    symbol = {"pure epsilon": "epsilon", "zCDP rho": "rho", "Gaussian DP mu^2": "mu^2"}[made["guarantee"]["currency"]]
    assert f"Each amount is a{'n' * (symbol == 'epsilon')} {symbol}." in made["formulas"]["amounts"]


def test_a_charge_without_a_basis_is_not_certified(tmp_path: Path) -> None:
    made = job(tmp_path)
    with pytest.raises(ValueError, match="charge 'late' has no basis"):
        certificate(made, made.stand_in, KernelRecord((Charge("late", Fraction(1)),), 1, "f0"), None)


def test_the_release_id_follows_from_the_certificate_alone(tmp_path: Path) -> None:
    said = content(job(tmp_path))
    assert said["release_id"] == id_of(
        said["config"], said["schema"], said["hashes"]["public_files"], said["versions"]["marquee"]
    )
    assert said["config"]["workload"]["marginals"]["order"] == 2
    assert [attribute["values"] for attribute in said["schema"]["attributes"]][:1] == [["female", "male"]]
    assert not {"path", "table_schema"} & said["config"]["dataset"].keys()
    assert "ledger" not in said["config"]["privacy"]


PROMISES: list[tuple[dict[str, object], str]] = [
    ({}, "(1, 1e-06)-differential privacy for the units of column 'person' (add_remove_unit): two datasets are "
         "neighbours when one has one unit more than the other."),
    ({"neighbours": "replace_one_unit", "units": 300},
     "(1, 1e-06)-differential privacy for the units of column 'person' (replace_one_unit): two datasets are "
     "neighbours when they differ in the data of one unit; the number of units is public."),
    ({"epsilon": 1.0000001}, "(1.0000001, 1e-06)-differential privacy"),
    ({"delta": 0, "epsilon": 0.5}, "0.5-differential privacy for the units of column 'person' (add_remove_unit)"),
]  # fmt: skip


@pytest.mark.parametrize(("privacy", "says"), PROMISES)
def test_neighbours_stand_beside_epsilon(tmp_path: Path, privacy: dict[str, object], says: str) -> None:
    assert promise(job(tmp_path, **privacy)).startswith(says)


def test_gaussian_dp_is_named_and_converted(tmp_path: Path) -> None:
    guarantee = content(job(tmp_path, accounting="gdp"))["guarantee"]
    assert guarantee["currency"] == "Gaussian DP mu^2"
    reserved = guarantee["reserved_in_the_ledger"]
    assert Fraction(reserved["amount"]) == gdp_of(1.0, 1e-6)
    others = guarantee["epsilon_at_other_deltas"]
    assert others["1e-06"] == pytest.approx(1.0)
    assert others["1e-09"] == epsilon_of_gdp(reserved["amount_as_number"], 1e-9)


def test_a_run_whose_steps_are_all_fixed_has_a_numerical_bound(tmp_path: Path) -> None:
    """Pure MWEM: its many small charges are worth far less than their sum at a delta above 0."""
    made = job(tmp_path, mechanism={"name": "mwem", "rounds": 50}, delta=0)
    bound = numerical_bound(made)
    assert set(bound) == {"1e-06", "1e-09", "1e-12"}
    assert 0.1 < bound["1e-06"] < bound["1e-09"] < bound["1e-12"] < 1.0
    charges = [
        Charge("a call", event.charged / event.calls, DRAW) for event in made.plan.events for _ in range(event.calls)
    ]
    said: Any = certificate(made, made.stand_in, KernelRecord(tuple(charges), 1, "f0"), 300)["numerical_bound"]
    assert said["epsilon_at_delta"] == bound
    assert said["note"].startswith("epsilon_at_delta gives the epsilon of all kernel calls together at each delta")
    assert numerical_bound(made, charges[:-1]) == bound
    # One call instead of many, or a call more, is not what was fixed in advance.
    assert numerical_bound(made, [Charge("all", sum((charge.amount for charge in charges), Fraction(0)))]) == {}
    assert numerical_bound(made, [*charges, charges[0]]) == {}


def test_no_numerical_bound_is_said_in_words(tmp_path: Path) -> None:
    said = content(job(tmp_path, mechanism={"name": "gaussian"}))["numerical_bound"]
    assert said["epsilon_at_delta"] == {}
    assert said["note"] == "No numerical bound is given, because not every kernel call was fixed in advance."


def test_gaussians_alone_have_no_better_bound_than_their_own(tmp_path: Path) -> None:
    assert numerical_bound(job(tmp_path, mechanism={"name": "gaussian"})) == {}
    few = numerical_bound(job(tmp_path, mechanism={"name": "mwem", "rounds": 1}))
    assert 0.85 < few["1e-06"] < 0.999


def test_a_pure_budget_has_one_figure(tmp_path: Path) -> None:
    made = job(tmp_path, delta=0)
    assert made.budget == Budget.pure(1)
    guarantee = content(made)["guarantee"]
    assert (guarantee["currency"], guarantee["epsilon_at_other_deltas"]) == ("pure epsilon", {})
    assert guarantee["reserved_in_the_ledger"] == {"amount": "1", "amount_as_number": 1.0}


def test_public_facts_mechanism_and_workload_are_named(tmp_path: Path) -> None:
    made = job(tmp_path)
    said = content(made)
    assert said["public_facts"] == {
        "shape": "table",
        "unit": "person",
        "units": "private",
        "max_rows_per_unit": 1,
        "columns": ["person", "sex", "work", "age", "home"],
        "clustered_by_unit": False,
        "accounting": "auto",
        "consumer": None,
        "attributes": [
            {"name": "sex", "type": "categorical", "values": 2, "codes": 2},
            {"name": "work", "type": "categorical", "values": 3, "codes": 5},
            {"name": "age", "type": "integer", "bins": 4, "codes": 4},
            {"name": "home", "type": "boolean", "values": 2, "codes": 3},
        ],
    }
    assert said["mechanism"]["name"] == "mwem"
    assert said["mechanism"]["settings"]["rounds"] == 3
    assert said["hashes"]["workload"] == made.stand_in.queries.digest()
    assert said["workload"]["answers"] == made.stand_in.queries.size
    assert said["synthetic_rows"] == 300
    assert len(said["limits"]) >= 3


def test_consumer_and_accounting_are_named(tmp_path: Path) -> None:
    facts = content(job(tmp_path, accounting="gdp", consumer="statistics"))["public_facts"]
    assert (facts["accounting"], facts["consumer"]) == ("gdp", "statistics")


def test_baskets_have_items_and_no_schema(tmp_path: Path) -> None:
    made = job_of(parse_config(BASKETS), tmp_path)
    said = content(made)
    assert said["public_facts"]["items"] == 40
    assert "attributes" not in said["public_facts"]
    assert said["hashes"]["schema"] is None


def test_the_hash_of_the_schema_covers_its_values_and_not_its_spelling(tmp_path: Path) -> None:
    first, other, spelled = (copy.deepcopy(SCHEMA) for _ in range(3))
    other["attributes"][2]["edges"][1] = 21
    spelled["attributes"][3]["column"] = "home"  # What it is called anyway.
    hashes = []
    for schema in (first, other, spelled):
        (tmp_path / "people.schema.yaml").write_text(yaml.safe_dump(schema))
        hashes.append(content(job_of(parse_config(TABLE), tmp_path))["hashes"]["schema"])
    assert hashes[0] == hashes[2] != hashes[1]
    assert len(bytes.fromhex(hashes[0])) == 32


def test_equal_releases_give_equal_bytes_without_a_clock(tmp_path: Path) -> None:
    for name in ("one.json", "two.json"):
        made = job(tmp_path)
        write_certificate(tmp_path / name, made, made.stand_in, DRAWN, None)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_versions_total_and_hashes_are_named(tmp_path: Path) -> None:
    made = job(tmp_path)
    said = content(made)
    assert set(said["versions"]) >= {"marquee", "python", "numpy", "numba"}
    assert said["hashes"]["config_schema_and_version"] == made.release_id
    assert said["hashes"]["kernel_answers"] == {"answers": 2, "chain": "c0ffee"}
    assert said["used_by_kernel_calls"] == {"amount": "1", "amount_as_number": 1.0}
    assert said["guarantee"]["additive_noise"] == "discrete_gaussian"
