"""Environment variables and --set: what they change, in which order, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpcore.errors import ConfigError
from jobs.config import Config, load_config, parse_config
from jobs.config.parameters import with_environment, with_settings
from tests.support.releases import BASKETS, TABLE

ENVIRONMENT = {"DAY": "2026-11-23", "EMPTY": "", "NESTED": "${DAY} $$", "PGPASSWORD": "hunter-2", "NUMBER": "7"}
PRODUCTS: dict[str, Any] = {
    **TABLE,
    "workload": {"products": [{"attributes": {"sex": "each", "a.b": {"width": 5}}, "weight": 2}, {"attributes": {}}]},
}


@pytest.mark.parametrize(("written", "read"), [
    ("${DAY}", "2026-11-23"),
    ("data/${DAY}/${DAY}.parquet", "data/2026-11-23/2026-11-23.parquet"),
    ("${NONE:-2026-11}", "2026-11"),
    ("${NONE:-}x", "x"),
    ("${DAY:-2026-11}", "2026-11-23"),
    ("${EMPTY:-2026-11}", "2026-11"),
    ("a${EMPTY}b", "ab"),
    ("${NUMBER}", "7"),
    ("${NESTED}", "${DAY} $$"),  # What a variable holds is not read again.
    ("$${DAY}", "${DAY}"),
    ("$$${DAY}", "$2026-11-23"),
    ("$DAY costs 5$", "$DAY costs 5$"),
    ("${NONE:-a b:-c}", "a b:-c"),
])  # fmt: skip
def test_texts_take_values_of_the_environment(written: str, read: str) -> None:
    assert with_environment({"a": [{"b": written}]}, ENVIRONMENT) == {"a": [{"b": read}]}


def test_only_texts_change() -> None:
    document = {"${DAY}": 1, "b": [2.5, True, None], 3: "x"}
    assert with_environment(document, ENVIRONMENT) == document


@pytest.mark.parametrize(("place", "written", "says"), [
    ("dataset.path", "${NONE}/x", "dataset.path uses the environment variable NONE, which is not set; want it set, or "
     "a default: ${NONE:-...}"),
    ("dataset.path", "${DAY", "dataset.path has ${ without a variable; want ${NAME} or ${NAME:-default}, or $${ for "
     "the text"),
    ("dataset.path", "${1A}", "dataset.path has ${ without a variable"),
    ("dataset.path", "${}", "dataset.path has ${ without a variable"),
    ("workload.products.1.name", "${NONE}", "workload.products.1.name uses the environment variable NONE"),
    ("mechanism.name", "${PGPASSWORD}",
     "mechanism.name uses the environment variable PGPASSWORD, whose name says that it holds a secret"),
    ("dataset.snapshot", "${MARQUEE_SIGNING_KEY}", "want secrets in privacy.ledger and engine.options alone"),
    ("dataset.name", "${API_TOKEN:-x}", "whose name says that it holds a secret"),
])  # fmt: skip
def test_a_variable_that_cannot_be_used_is_named_with_its_key(place: str, written: str, says: str) -> None:
    document: Any = written
    for key in reversed(place.split(".")):
        document = [{}, document] if key == "1" else {key: document}
    with pytest.raises(ConfigError, match=re.escape(says)) as refused:
        with_environment(document, ENVIRONMENT)
    assert "hunter" not in str(refused.value)


@pytest.mark.parametrize("place", [("privacy", "ledger"), ("engine", "options", "settings", "spark.secret")])
def test_secrets_may_be_used_where_no_record_repeats_them(place: tuple[str, ...]) -> None:
    assert with_environment("x:${PGPASSWORD}@y", ENVIRONMENT, place) == "x:hunter-2@y"


@pytest.mark.parametrize("name", ["MONKEY", "KEYBOARD", "DAY", "DONKEYS"])
def test_a_name_that_resembles_a_secret_s_is_none(name: str) -> None:
    assert with_environment(f"${{{name}}}", {name: "x"}, ("dataset", "name")) == "x"


@pytest.mark.parametrize(("setting", "place", "value"), [
    ("dataset.snapshot=2026-11-23", "dataset.snapshot", "2026-11-23"),
    ("dataset.snapshot='2026.10'", "dataset.snapshot", "2026.10"),
    ("dataset.path=/data/dt=2026-11-23", "dataset.path", "/data/dt=2026-11-23"),
    ("dataset.path=${DAY}", "dataset.path", "${DAY}"),
    ("privacy.epsilon=0.5", "privacy.epsilon", 0.5),
    ("privacy.delta=1e-7", "privacy.delta", 1e-7),
    ("dataset.clustered_by_unit=true", "dataset.clustered_by_unit", True),
    ("dataset.max_rows_per_unit=null", "dataset.max_rows_per_unit", None),
    ("engine={name: local, options: {threads: 2}}", "engine", {"name": "local", "options": {"threads": 2}}),
    ("engine.options.threads=2", "engine", {"options": {"threads": 2}}),
    ('engine.options.settings."spark.executor.memory"=4g', "engine",
     {"options": {"settings": {"spark.executor.memory": "4g"}}}),
    ("workload.products.0.weight=3", "workload.products.0.weight", 3),
    ('workload.products.0.attributes."a.b".width=6', "workload.products.0.attributes",
     {"sex": "each", "a.b": {"width": 6}}),
    ("workload.products.1={attributes: {age: prefix}}", "workload.products.1", {"attributes": {"age": "prefix"}}),
    ("mechanism.anything.at=1", "mechanism.anything", {"at": 1}),
])  # fmt: skip
def test_a_setting_replaces_one_value(setting: str, place: str, value: object) -> None:
    found = with_environment(with_settings(PRODUCTS, [setting], Config), ENVIRONMENT)
    for key in place.split("."):
        found = found[int(key) if key.isdecimal() else key]
    assert (found, type(found)) == (value, type(value))


def test_nothing_else_changes_and_the_last_setting_wins() -> None:
    before = yaml.safe_dump(PRODUCTS)
    found = with_settings(PRODUCTS, ["workload.products.0.weight=3", "workload.products.0.weight=4"], Config)
    assert yaml.safe_dump(PRODUCTS) == before
    assert yaml.safe_dump(found) == before.replace("weight: 2", "weight: 4")


def test_a_value_that_the_file_repeats_by_an_alias_is_set_once() -> None:
    shared = {"attributes": {"sex": "each"}, "weight": 2}
    found = with_settings({"workload": {"products": [shared, shared]}}, ["workload.products.1.weight=9"], Config)
    assert [product["weight"] for product in found["workload"]["products"]] == [2, 9]


@pytest.mark.parametrize(("setting", "says"), [
    ("dataset.snapshot", "--set dataset.snapshot has no value; want --set KEY=VALUE"),
    ("=5", "--set : is no key; want up to 50 keys with dots between them"),
    (f"mechanism{'.a' * 5000}=5", ".a: is no key; want up to 50 keys"),
    ("a..b=5", "--set a..b: is no key"),
    ('engine."options=5', '--set engine."options: is no key'),
    ("privcy.epsilon=1", "--set privcy.epsilon: unknown key 'privcy'; did you mean 'privacy'?"),
    ("privacy.epsilno=1", "--set privacy.epsilno: unknown key 'epsilno'; did you mean 'epsilon'?"),
    ("dataset.table_schema=x", "--set dataset.table_schema: unknown key 'table_schema'; did you mean 'schema'?"),
    ("workload.marginals.skewed.cuont=1", "unknown key 'cuont'; did you mean 'count'?"),
    ("workload.products.0.wieght=1", "unknown key 'wieght'; did you mean 'weight'?"),
    ("workload.products.2.weight=1", "'2' is no entry of workload.products; want a number from 0 to 1"),
    ("workload.products.-1.weight=1", "'-1' is no entry of workload.products"),
    ("workload.products.weight=1", "'weight' is no entry of workload.products"),
    ("mechanism.name.x=1", "--set mechanism.name.x: mechanism.name holds one value and no keys"),
    ("dataset.items=[1", "--set dataset.items, line 2 is not valid YAML"),
    ("dataset.items=007", "007 is unquoted, and YAML may read it as another number"),
])  # fmt: skip
def test_a_setting_that_cannot_be_applied_is_named(setting: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        with_settings(PRODUCTS, [setting], Config)


def test_an_error_of_a_setting_never_quotes_the_value_that_it_would_replace() -> None:
    with pytest.raises(ConfigError) as refused:
        with_settings({"privacy": {"ledger": "postgresql://u:hunter-2@h/d"}}, ["privacy.ledger.url=x"], Config)
    assert "hunter" not in str(refused.value)


def test_a_renamed_key_may_be_set_by_its_old_name() -> None:
    set_by_option = with_settings(BASKETS, ["workload.conjunctions={count: 5, order: 2, weights: noisy_popularity}",
                                            "workload.conjunctions.share=0.2"], Config)  # fmt: skip
    conjunctions = parse_config(set_by_option).workload.conjunctions
    assert conjunctions is not None
    assert conjunctions.popularity_share == 0.2


def test_a_setting_wins_over_the_environment_and_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({**TABLE, "dataset": {**TABLE["dataset"], "snapshot": "${DAY}", "path": "$$x"}}))
    monkeypatch.setenv("DAY", "2026-11-23")
    config = load_config(path)
    assert (config.dataset.snapshot, config.dataset.path) == ("2026-11-23", "$x")
    assert load_config(path, ["dataset.snapshot=other"]).dataset.snapshot == "other"
    with pytest.raises(ConfigError, match=r"c\.yaml: privacy\.epsilon is 'much'; want a number"):
        load_config(path, ["privacy.epsilon=much"])
    monkeypatch.delenv("DAY")
    with pytest.raises(ConfigError, match=r"c\.yaml: dataset\.snapshot uses the environment variable DAY"):
        load_config(path)
    assert load_config(path, ["dataset.snapshot=other"]).dataset.snapshot == "other"  # DAY is not needed.
