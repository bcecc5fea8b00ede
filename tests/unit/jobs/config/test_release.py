"""The config: what parses, what is refused, and in which words."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

import jobs.config
from dpcore.errors import ConfigError
from jobs import log
from jobs.commands.plan import config_schema
from jobs.config import load_config, parse_config
from jobs.config.release import Output
from jobs.mechanisms import mechanism_of, settings_of

TABLE: dict[str, Any] = {
    "version": 1,
    "dataset": {
        "name": "adult", "snapshot": "2026-11", "path": "data/adult/*.parquet", "shape": "table", "unit": "person_id",
        "max_rows_per_unit": 1, "schema": "adult.schema.yaml",
    },
    "privacy": {
        "epsilon": 1.0, "delta": 1.0e-9, "neighbours": "add_remove_unit", "units": "private",
        "ledger": "sqlite:///marquee.db",
    },
    "workload": {"marginals": {"order": 3, "attributes": "all"}},
    "mechanism": {"name": "mwem", "rounds": 7},
    "engine": {"name": "local"},
    "output": {"path": "out/adult", "synthetic_rows": "auto", "report": False},
}  # fmt: skip
BASKETS: dict[str, Any] = {
    "dataset": {
        "name": "netflix", "snapshot": "2005-12", "path": "ratings/", "shape": "baskets", "unit": "user_id",
        "item": "movie_id", "items": 17770, "clustered_by_unit": True,
    },
    "privacy": {"epsilon": 1.0, "delta": 1.0e-3, "neighbours": "replace_one_unit", "units": 480189},
    "workload": {
        "conjunctions": {"count": 500000, "order": 3, "weights": "uniform", "negations": "none", "seed": 7},
    },
    "mechanism": {"name": "dual_query"},
    "output": {"path": "out/netflix"},
}  # fmt: skip

ADULT_YAML = """
version: 1
dataset:
  name: adult                    # the ledger's key, bound to the path
  snapshot: 2026-11
  path: data/adult/*.parquet
  shape: table
  unit: person_id
  max_rows_per_unit: 1
  schema: adult.schema.yaml
privacy: {epsilon: 1.0, delta: 1e-9, neighbours: add_remove_unit, units: private, ledger: sqlite:///marquee.db}
workload: {marginals: {order: 3, attributes: all}}
mechanism: {name: mwem, rounds: 7}
engine: {name: local}
output: {path: out/adult, synthetic_rows: auto, report: false}
"""


def changed(document: dict[str, Any], place: str, value: object) -> dict[str, Any]:
    """The document with one value set; '-' takes the key away."""
    made = copy.deepcopy(document)
    *outer, last = place.split(".")
    section = made
    for key in outer:
        section = section.setdefault(key, {})
    section[last] = value
    if value == "-":
        del section[last]
    return made


def test_the_table_example_parses_from_yaml(tmp_path: Path) -> None:
    path = tmp_path / "adult.yaml"
    path.write_text(ADULT_YAML)
    assert load_config(path) == parse_config(TABLE)


def test_the_baskets_example_parses_with_its_defaults() -> None:
    config = parse_config(BASKETS)
    assert config.privacy.ledger == "sqlite:///marquee.db"
    assert (config.engine.name, config.output.synthetic_rows, config.version) == ("local", "auto", 1)
    assert config.workload.conjunctions is not None
    assert config.workload.conjunctions.share_before_mechanism == 0


@pytest.mark.parametrize(("share", "spent"), [("-", 0.05), (0.2, 0.2)])
def test_noisy_popularity_has_a_share(share: object, spent: float) -> None:
    popular = changed(BASKETS, "workload.conjunctions.weights", "noisy_popularity")
    asked = parse_config(changed(popular, "workload.conjunctions.popularity_share", share)).workload.conjunctions
    assert asked is not None
    assert asked.share_before_mechanism == spent


def test_a_renamed_key_is_read_with_one_warning_and_gives_the_same_config(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(log, "warning", warnings.append)
    popular = changed(BASKETS, "workload.conjunctions.weights", "noisy_popularity")
    new = parse_config(changed(popular, "workload.conjunctions.popularity_share", 0.2))
    assert warnings == []
    old = parse_config(changed(popular, "workload.conjunctions.share", 0.2))
    assert old == new
    assert warnings == ["config key 'share' is deprecated; want 'popularity_share'"]


def test_a_key_and_its_old_name_exclude_each_other() -> None:
    popular = changed(BASKETS, "workload.conjunctions.weights", "noisy_popularity")
    both = changed(changed(popular, "workload.conjunctions.popularity_share", 0.2), "workload.conjunctions.share", 0.2)
    with pytest.raises(ConfigError, match="share is the old name of popularity_share, and both are given"):
        parse_config(both)


def test_every_key_of_the_schema_is_described() -> None:
    schema = json.loads(config_schema())
    sections = [schema, *schema["$defs"].values()]
    undescribed = [
        f"{section['title']}.{key}"
        for section in sections
        for key, facts in section["properties"].items()
        if not facts.get("description", "").endswith(".")
    ]
    assert undescribed == []


ACCEPTED: list[tuple[dict[str, Any], str, object]] = [
    (TABLE, "dataset.snapshot", 2026),
    (TABLE, "privacy.epsilon", 1),
    (TABLE, "privacy.delta", 0),
    (TABLE, "privacy.units", 48842),
    (TABLE, "privacy.accounting", "zcdp"),
    (TABLE, "privacy.accounting", "gdp"),
    (TABLE, "privacy", {"epsilon": 1.0, "delta": 0, "accounting": "pure"}),
    (TABLE, "output.synthetic_rows", 0),
    (TABLE, "workload.marginals", {"order": 2, "attributes": ["sex", "race"]}),
    (TABLE, "workload.marginals", {"order": 2, "target": "income"}),
    (TABLE, "workload.marginals", {"order": 2, "skewed": {"count": 5, "seed": 1}}),
    (TABLE, "workload.marginals", {"cliques": [{"attributes": ["sex"], "weight": 2}, {"attributes": ["race", "sex"]}]}),
    (TABLE, "workload.marginals", {"order": 2, "prefix": ["age", "hours"], "ranges": ["income"]}),
    (TABLE, "workload.marginals", {"cliques": [{"attributes": ["sex", "age"]}], "prefix": ["age"]}),
    (TABLE, "workload.marginals", {"up_to_order": 3}),
    (TABLE, "workload.marginals", {"up_to_order": "all", "max_cells": 5000, "prefix": ["age"]}),
    (TABLE, "workload.marginals", {"order": 3, "max_cells": 5000, "attributes": ["sex", "race", "age"]}),
    (
        TABLE,
        "workload",
        {"products": [{"attributes": {"sex": "each"}}, {"attributes": {"age": "prefix"}, "weight": 2}]},
    ),
    (TABLE, "workload", {"products": [{"attributes": {"age": {"width": 3}, "sex": "each_and_total", "job": "total"}}]}),
    (TABLE, "workload", {"products": [{"attributes": {"sex": {"groups": [["f"], ["m", 3, True]]}, "age": "ranges"}}]}),
    (TABLE, "workload", {"conjunctions": {"count": 5, "order": 2, "attributes": ["sex", "race"]}}),
    (TABLE, "workload", {"parities": {"order": 2, "attributes": ["sex", "race"]}}),
    (BASKETS, "workload", {"parities": {"order": 3, "count": 9, "seed": 1}}),
    (BASKETS, "workload", {"conjunctions": {"file": "queries.csv"}}),
    (BASKETS, "workload", {"conjunctions": {"count": 5, "order": 2, "weights": "file", "weights_file": "w.csv"}}),
    (BASKETS, "dataset.max_items_per_unit", 50),
    (BASKETS, "engine", {"name": "spark", "options": {"partitions": 4}}),
]


@pytest.mark.parametrize(("document", "place", "value"), ACCEPTED, ids=lambda part: str(part)[:40])
def test_accepted(document: dict[str, Any], place: str, value: object) -> None:
    parse_config(changed(document, place, value))


def _asked(way: object) -> dict[str, Any]:
    return {"products": [{"attributes": {"a": way}}]}


REFUSED: list[tuple[dict[str, Any], str, object, str]] = [
    (TABLE, "privcy", {}, "unknown key 'privcy'; did you mean 'privacy'?"),
    (TABLE, "privacy.epsilno", 1, "privacy: unknown key 'epsilno'; did you mean 'epsilon'?"),
    (TABLE, "dataset.schemas", "x", "did you mean 'schema'?"),
    (TABLE, "workload.marginals.ordr", 3, "workload.marginals: unknown key 'ordr'; did you mean 'order'?"),
    (TABLE, "output.zzz", 3, "unknown key 'zzz'; want ["),
    (TABLE, "version", 2, "version is 2; want 1"),
    (TABLE, "dataset", "-", "dataset is missing"),
    (TABLE, "dataset.name", "-", "dataset.name is missing"),
    (TABLE, "dataset.name", "", "dataset.name is ''; want some text"),
    (TABLE, "dataset.snapshot", 1.10, "dataset.snapshot: YAML reads this label as a decimal number; want it in quotes"),
    (TABLE, "dataset.shape", "tables", "dataset.shape is 'tables'; want 'table' or 'baskets'"),
    (TABLE, "dataset.schema", "-", "dataset: schema is missing; shape: table needs it"),
    (TABLE, "dataset.items", 5, "dataset: items does not go with shape: table"),
    (TABLE, "dataset.max_rows_per_unit", 0, "dataset.max_rows_per_unit is 0; want >= 1"),
    (TABLE, "dataset.clustered_by_unit", "yes", "dataset.clustered_by_unit is 'yes'; want true or false"),
    (BASKETS, "dataset.items", "-", "dataset: items is missing; shape: baskets needs it"),
    (BASKETS, "dataset.schema", "x", "dataset: schema does not go with shape: baskets"),
    (TABLE, "privacy.epsilon", 0, "privacy.epsilon is 0; want > 0"),
    (TABLE, "privacy.epsilon", -1, "privacy.epsilon is -1; want > 0"),
    (TABLE, "privacy.epsilon", 100.5, "privacy.epsilon is 100.5; want <= 100"),
    (TABLE, "privacy.epsilon", float("nan"), "privacy.epsilon is nan; want a finite number"),
    (TABLE, "privacy.epsilon", float("inf"), "privacy.epsilon is inf; want a finite number"),
    (TABLE, "privacy.epsilon", "much", "privacy.epsilon is 'much'; want a number"),
    (TABLE, "privacy.epsilon", True, "privacy.epsilon is True; want a number"),
    (TABLE, "privacy.delta", -1e-9, "privacy.delta is -1e-09; want >= 0"),
    (TABLE, "privacy.delta", 1, "privacy.delta is 1; want < 1"),
    (TABLE, "privacy.accounting", "rdp", "privacy.accounting is 'rdp'; want 'auto', 'pure', 'zcdp' or 'gdp'"),
    (TABLE, "privacy.accounting", "pure", "accounting: pure needs delta: 0, not 1e-09; want delta: 0, zcdp or gdp"),
    (
        TABLE,
        "privacy",
        {"epsilon": 1.0, "delta": 0, "accounting": "gdp"},
        "accounting: gdp needs delta > 0; want a delta such as 1e-6, or pure",
    ),
    (TABLE, "privacy.units", 0, "privacy.units is 0; want private, or the public number of units"),
    (TABLE, "privacy.units", True, "privacy.units is True; want private, or the public number of units"),
    (TABLE, "privacy.neighbours", "replace_one_unit", "want units: N, or add_remove_unit"),
    (TABLE, "workload", {}, "workload: want exactly one of marginals, products, conjunctions, parities and itemsets"),
    (TABLE, "workload.conjunctions", {"count": 1, "order": 1}, "workload: want exactly one"),
    (TABLE, "workload.marginals.attributes", [], "workload.marginals.attributes: want all, or a list"),
    (TABLE, "workload.marginals", {}, "workload.marginals: order is missing"),
    (TABLE, "workload.marginals.cliques", [{"attributes": ["sex"]}], "cliques excludes order"),
    (TABLE, "workload.marginals", {"order": 2, "target": "a", "skewed": {"count": 1}}, "exclude each other"),
    (TABLE, "workload.marginals", {"order": 2, "target": "a", "attributes": ["a"]}, "want attributes: all"),
    (TABLE, "workload.marginals", {"cliques": [{"attributes": ["sex"], "weight": 0}]}, "weight is 0; want > 0"),
    (TABLE, "workload.marginals.prefix", [], "workload.marginals.prefix is []; want at least one"),
    (TABLE, "workload.marginals.ranges", "age", "workload.marginals.ranges is 'age'; want a list"),
    (TABLE, "workload.marginals", {"order": 1, "prefix": ["a", "b"], "ranges": ["b"]}, "prefix and ranges both name"),
    (TABLE, "workload.marginals.up_to_order", 2, "order and up_to_order exclude each other"),
    (TABLE, "workload.marginals", {"up_to_order": "al"}, "workload.marginals.up_to_order: want all, or the largest"),
    (TABLE, "workload.marginals", {"up_to_order": 0}, "workload.marginals.up_to_order: want all, or the largest"),
    (TABLE, "workload.marginals", {"order": 2, "max_cells": 0}, "workload.marginals.max_cells is 0; want >= 1"),
    (
        TABLE,
        "workload.marginals",
        {"order": 2, "target": "a", "max_cells": 9},
        "target and skewed exclude up_to_order and max_cells",
    ),
    (TABLE, "workload.marginals", {"cliques": [{"attributes": ["a"]}], "max_cells": 9}, "cliques excludes order"),
    (TABLE, "workload", {"products": []}, "workload.products is []; want at least one"),
    (TABLE, "workload", {"products": [{"attributes": {}}]}, "workload.products.0.attributes is {}"),
    (TABLE, "workload", {"products": [{"weight": 1}]}, "workload.products.0.attributes is missing"),
    (TABLE, "workload", {"products": [{"attribute": {"a": "each"}}]}, "did you mean 'attributes'?"),
    (TABLE, "workload", {"products": [{"attributes": {"a": "each"}, "weight": 0}]}, "weight is 0; want > 0"),
    (TABLE, "workload", _asked("eech"), "attributes.a: unknown query matrix 'eech'; did you mean 'each'?"),
    (TABLE, "workload", _asked(3), "attributes.a: want each, total, each_and_total, prefix, ranges, {width: N} or"),
    (TABLE, "workload", _asked({"widht": 3}), "{width: N} or {groups: [[VALUE, ...], ...]}"),
    (TABLE, "workload", _asked({"width": 0}), "attributes.a: width is 0; want an integer >= 1"),
    (TABLE, "workload", _asked({"groups": []}), "attributes.a: groups is not a list of groups"),
    (TABLE, "workload", _asked({"groups": ["x"]}), "attributes.a: group 'x' is not a list of values"),
    (TABLE, "workload", _asked({"groups": [[]]}), "attributes.a: group [] is not a list of values"),
    (TABLE, "workload", _asked({"groups": [[1.5]]}), "value 1.5 in a group is neither text nor an integer"),
    (BASKETS, "workload", _asked("each"), "workload.products needs shape: table"),
    (BASKETS, "workload", {"marginals": {"order": 2}}, "workload.marginals needs shape: table"),
    (BASKETS, "workload.conjunctions.weights", "files", "want 'uniform', 'noisy_popularity' or 'file'"),
    (BASKETS, "workload.conjunctions.weights", "file", "weights: file and weights_file: PATH go together"),
    (BASKETS, "workload.conjunctions.weights_file", "w.csv", "weights: file and weights_file: PATH go together"),
    (BASKETS, "workload.conjunctions.file", "q.csv", "file excludes count, "),
    (BASKETS, "workload.conjunctions.count", "-", "count is missing; want count and order (or orders), or file"),
    (BASKETS, "workload.conjunctions", {"count": 5}, "order is missing; want count and order (or orders), or file"),
    (BASKETS, "workload", {"parities": {"order": 4}}, "workload.parities.order is 4; want <= 3"),
    (BASKETS, "workload", {"parities": {"order": 2, "seed": 1}}, "want a count too, or no seed"),
    (BASKETS, "workload", {"parities": {"order": 2, "attributes": ["a"]}}, "workload.parities.attributes needs shape"),
    (
        BASKETS,
        "workload.conjunctions.popularity_share",
        0.1,
        "is only for weights: noisy_popularity; want those weights",
    ),
    (BASKETS, "workload.conjunctions.attributes", ["a"], "attributes needs shape: table"),
    (BASKETS, "mechanism", {}, "mechanism.name is missing"),
    (BASKETS, "engine", "local", "engine is 'local'; want keys and values"),
    (BASKETS, "engine.name", "dask", "engine.name is 'dask'; want 'local', 'spark' or 'beam'"),
    (BASKETS, "output.path", "hdfs://host/out", "output.path is in a store hdfs://; want a local folder, or one in"),
    (BASKETS, "output.synthetic_rows", -1, "output.synthetic_rows is -1; want auto, or a number of rows"),
    (BASKETS, "output.report", True, "output: report: true is not supported yet"),
]


@pytest.mark.parametrize(
    ("document", "place", "value", "says"), REFUSED, ids=[row[1] + str(row[2])[:24] for row in REFUSED]
)
def test_refused_in_one_sentence(document: dict[str, Any], place: str, value: object, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(changed(document, place, value))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


FILES = {
    "a list": ("- 1\n- 2\n", "the config is not a mapping"),
    "a repeated key": ("version: 1\nversion: 1\n", "key 'version' is given twice"),
    "broken": ("version: [1\n", "is not valid YAML"),
    "a set": (ADULT_YAML.replace("{name: local}", "!!set {a, b}"), "engine is of type set; want text"),
    "not text": ("\xff\xfe", "cannot be read"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_bad_file_is_named(tmp_path: Path, what: str) -> None:
    content, says = FILES[what]
    (tmp_path / "adult.yaml").write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"adult\.yaml") as refused:
        load_config(tmp_path / "adult.yaml")
    assert says in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml does not exist"):
        load_config(tmp_path / "none.yaml")


def test_dates_and_exponents_read_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "adult.yaml"
    path.write_text(ADULT_YAML.replace("2026-11", "2026-11-30").replace("delta: 1e-9", "delta: 1e-6"))
    config = load_config(path)
    assert (config.dataset.snapshot, config.privacy.delta) == ("2026-11-30", 1e-6)


def test_the_published_schema_is_that_of_the_code() -> None:
    published = Path(jobs.config.__file__).with_name("config.schema.json").read_text()
    assert published == config_schema() + "\n", "want marquee plan --schema > jobs/config/config.schema.json"


def test_the_published_schema_tells_good_from_bad() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(config_schema()))
    assert not list(validator.iter_errors(TABLE))
    assert not list(validator.iter_errors(changed(TABLE, "workload", _asked({"groups": [["x", 1], ["y"]]}))))
    assert list(validator.iter_errors(changed(TABLE, "workload", _asked("eech"))))
    assert not list(validator.iter_errors(BASKETS))
    for place, value in (("privacy.epsilno", 1), ("privacy.epsilon", -1), ("dataset.shape", "x"), ("output.path", 3)):
        assert list(validator.iter_errors(changed(TABLE, place, value))), place


def test_a_mechanism_gets_its_settings() -> None:
    mechanism = mechanism_of(
        parse_config(changed(TABLE, "mechanism", {"name": "mwem", "rounds": 7, "max_table_mb": 4})).mechanism
    )
    assert settings_of(mechanism) == {"rounds": 7, "max_table_mb": 4.0, "profile": "default"}


MECHANISMS: list[tuple[dict[str, Any], str]] = [
    ({"name": "mwen"}, "unknown mechanism 'mwen'; did you mean 'mwem'?"),
    ({"name": "gausian"}, "did you mean 'gaussian'?"),
    ({"name": "mwem", "round": 3}, "unknown setting of mechanism mwem 'round'; did you mean 'rounds'?"),
    ({"name": "mwem", "rounds": "3"}, "mechanism.rounds is '3'; want an integer"),
    ({"name": "mwem", "rounds": 3.5}, "mechanism.rounds is"),
    ({"name": "mwem", "profile": "printed"}, "want 'default' or 'published'"),
    ({"name": "mwem", "polish": 100}, "polish is no longer a setting of mechanism mwem: it is a constant of a profile"),
    ({"name": "laplace", "scale": 1}, "laplace has no settings; want no scale"),
]


@pytest.mark.parametrize(("choice", "says"), MECHANISMS, ids=lambda part: str(part)[:40])
def test_a_mechanism_is_refused_with_the_nearest_name(choice: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        mechanism_of(parse_config(changed(TABLE, "mechanism", choice)).mechanism)
    assert says in str(refused.value)


def test_more_synthetic_rows_than_anyone_can_wait_for_are_refused() -> None:
    assert Output(path="out", synthetic_rows=10**9).synthetic_rows == 10**9
    with pytest.raises(ValidationError, match=r"is 1,000,000,001; want at most 1,000,000,000 rows"):
        Output(path="out", synthetic_rows=10**9 + 1)
