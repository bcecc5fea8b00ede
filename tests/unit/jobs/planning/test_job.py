"""Jobs: from a config to everything public about a release."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpcore.errors import ConfigError
from dpcore.exact_statistics import Contribution, Shape
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of, gdp_of, zcdp_of
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from jobs.config import parse_config
from jobs.planning.job import Job, job_of, load_job
from pipelines.layout import BasketLayout, TableLayout
from tests.support.releases import BASKETS, SCHEMA, TABLE


def job(folder: Path, document: dict[str, Any], **changes: dict[str, Any]) -> Job:
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    merged = {name: {**section, **changes.get(name, {})} for name, section in document.items()}
    return job_of(parse_config(merged), folder)


def test_a_table_has_one_row_a_unit_unless_it_says_more(tmp_path: Path) -> None:
    made = job(tmp_path, TABLE)
    assert isinstance(made.layout, TableLayout)
    assert made.layout.schema.domain.names == ("sex", "work", "age", "home")
    assert made.unit == PrivacyUnit(Neighbours.ADD_REMOVE_UNIT, Contribution(Shape.TABLE, 1), None)
    assert job(tmp_path, TABLE, dataset={"max_rows_per_unit": 3}).unit.contribution.bound == 3


def test_baskets_are_bounded_by_their_items_unless_they_say_less(tmp_path: Path) -> None:
    made = job(tmp_path, BASKETS, privacy={"units": 200, "neighbours": "replace_one_unit"})
    assert made.layout == BasketLayout("user", "item", 40, 10)
    assert made.unit == PrivacyUnit(Neighbours.REPLACE_ONE_UNIT, Contribution(Shape.BASKETS, 10), 200)
    assert job(tmp_path, BASKETS, dataset={"max_items_per_unit": None}).unit.contribution.bound == 40


def test_popularity_and_the_rest_add_up_to_the_budget(tmp_path: Path) -> None:
    made = job(tmp_path, BASKETS)
    assert made.popularity is not None
    assert made.budget == Budget.gdp(gdp_of(20.0, 1e-6))
    assert made.popularity.amount == made.budget.amount / 10
    assert made.popularity.amount + made.rest.amount == made.budget.amount


@pytest.mark.parametrize("items", [10, 200], ids=["measured", "clipped and measured"])
def test_popularity_that_cannot_be_measured_is_refused_with_the_smallest_epsilon(tmp_path: Path, items: int) -> None:
    workload = {"conjunctions": {"count": 30, "order": 2, "weights": "noisy_popularity", "popularity_share": 1e-6}}
    document = {**BASKETS, "mechanism": {"name": "laplace"}, "workload": workload}
    dataset = {"items": 300, "max_items_per_unit": items}
    with pytest.raises(
        ConfigError, match=r"privacy\.epsilon is 1e-08, which is too small .*; want at least "
    ) as refused:
        job(tmp_path, document, dataset=dataset, privacy={"delta": 0, "epsilon": 1e-8})
    smallest = float(str(refused.value).rpartition(" ")[2])
    made = job(tmp_path, document, dataset=dataset, privacy={"delta": 0, "epsilon": smallest})
    assert made.popularity is not None
    # The mechanism alone would have been content with less.
    assert job(tmp_path, {**document, "workload": {"conjunctions": {"count": 30, "order": 2}}}, dataset=dataset,
               privacy={"delta": 0, "epsilon": smallest / 1000}).popularity is None  # fmt: skip


AUTO = {
    "laplace": (0.0, Currency.PURE), "gaussian": (1e-6, Currency.GDP), "independent": (1e-6, Currency.GDP),
    "mwem": (1e-6, Currency.ZCDP),
}  # fmt: skip


@pytest.mark.parametrize("name", AUTO)
def test_auto_is_gaussian_dp_for_gaussian_noise_alone(tmp_path: Path, name: str) -> None:
    delta, currency = AUTO[name]
    made = job(tmp_path, {**TABLE, "mechanism": {"name": name}}, privacy={"delta": delta})
    assert made.budget == budget_of(made.config.privacy.epsilon, delta, currency)


def test_accounting_is_what_the_config_asks_for_and_part_of_the_id(tmp_path: Path) -> None:
    made = {
        asked: job(tmp_path, {**TABLE, "mechanism": {"name": "mwem"}}, privacy={"accounting": asked})
        for asked in ("auto", "zcdp", "gdp")
    }
    epsilon = made["zcdp"].config.privacy.epsilon
    assert made["zcdp"].budget == made["auto"].budget == Budget.zcdp(zcdp_of(epsilon, 1e-6))
    assert made["gdp"].budget == Budget.gdp(gdp_of(epsilon, 1e-6))
    assert len({one.release_id for one in made.values()}) == 3


@pytest.mark.parametrize(
    ("name", "delta", "says"),
    [("laplace", 1e-6, "laplace gives pure epsilon-DP"), ("gaussian", 0, "gaussian has privacy.delta 0")],
)
def test_a_mechanism_without_a_proof_is_refused(tmp_path: Path, name: str, delta: float, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        job(tmp_path, {**TABLE, "mechanism": {"name": name}}, privacy={"delta": delta})


def test_without_popularity_the_mechanism_has_everything(tmp_path: Path) -> None:
    pure = {**TABLE, "mechanism": {"name": "laplace"}}
    made = job(tmp_path, pure, privacy={"delta": 0, "epsilon": 0.1})
    assert (made.popularity, made.rest, made.budget) == (None, made.budget, Budget.pure(Fraction(1, 10)))


def test_everything_lies_beside_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    (tmp_path / "configs" / "people.yaml").write_text(yaml.safe_dump(TABLE))
    monkeypatch.chdir(tmp_path)
    assert load_job("configs/people.yaml").output == tmp_path / "configs" / "out" / "people"


def test_an_absent_schema_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"other\.yaml does not exist"):
        job(tmp_path, TABLE, dataset={"schema": "other.yaml"})


LOST: list[tuple[str, dict[str, Any]]] = [
    ("gaussian", {"delta": 1e-310}),
    ("mwem", {"delta": 1e-310, "accounting": "gdp"}),
    ("mwem", {"delta": 1e-200, "epsilon": 1e-20}),
    ("gaussian", {"delta": 1e-200, "epsilon": 1e-300}),
]


@pytest.mark.parametrize(("name", "privacy"), LOST)
def test_a_promise_without_a_budget_in_floats_is_a_config_error(
    tmp_path: Path, name: str, privacy: dict[str, Any]
) -> None:
    says = r"privacy\.epsilon is .* and privacy\.delta is .*; want a delta of 0 or at least 1e-300, and a larger"
    with pytest.raises(ConfigError, match=says):
        job(tmp_path, {**TABLE, "mechanism": {"name": name}}, privacy=privacy)


def test_rows_of_a_mechanism_without_a_model_are_refused(tmp_path: Path) -> None:
    rows, hdmm = {"synthetic_rows": 5}, {"name": "hdmm", "reconstruction": "least_squares"}
    with pytest.raises(
        ConfigError, match="output.synthetic_rows is 5, but mechanism hdmm fits no model to draw rows from"
    ):
        job(tmp_path, {**TABLE, "mechanism": hdmm}, output=rows)
    assert job(tmp_path, {**TABLE, "mechanism": {**hdmm, "reconstruction": "graphical"}}, output=rows)
