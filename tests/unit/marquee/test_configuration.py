"""Arguments become the config that a YAML file would hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

from dpcore.errors import ConfigError
from jobs.planning.job import load_job
from marquee.budgets import Ledger
from marquee.configuration import request_of
from pipelines.schema import schema_from
from tests.support.releases import SCHEMA

WORKLOAD = {"marginals": {"order": 2}}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    return tmp_path


def written(config: dict[str, Any]) -> str:
    """The release id of a YAML config."""
    Path("release.yaml").write_text(yaml.safe_dump(config))
    return load_job("release.yaml").release_id


EVERYTHING: dict[str, Any] = {
    "dataset": {
        "name": "adults", "snapshot": "2026", "path": "data", "shape": "table", "unit": "person",
        "schema": "people.schema.yaml", "max_rows_per_unit": 3, "clustered_by_unit": True,
        "where": {"sex": ["female"]},
    },
    "privacy": {
        "epsilon": 1.0, "delta": 1e-6, "ledger": "sqlite:///budgets.db", "accounting": "zcdp",
        "neighbours": "replace_one_unit", "units": 300, "consumer": "research",
    },
    "workload": WORKLOAD,
    "mechanism": {"name": "mwem", "rounds": 3},
    "engine": {"name": "local", "options": {"threads": 1}},
    "output": {"path": "out", "synthetic_rows": 10},
}  # fmt: skip


def test_every_argument_reaches_its_key() -> None:
    job = request_of(
        Path("data"), "person", WORKLOAD, 1.0, 1e-6,
        {
            "name": "adults", "snapshot": 2026, "schema": "people.schema.yaml", "max_rows_per_unit": 3,
            "clustered": True, "where": {"sex": ["female"]}, "ledger": Path("budgets.db"), "accounting": "zcdp",
            "neighbours": "replace_one_unit", "units": 300, "consumer": "research",
            "mechanism": {"name": "mwem", "rounds": 3}, "engine": {"name": "local", "options": {"threads": 1}},
            "output": Path("out"), "synthetic_rows": 10,
        },
    ).job  # fmt: skip
    assert job.release_id == written(EVERYTHING)
    assert job.config == load_job("release.yaml").config


@pytest.mark.parametrize("schema", [
    "people.schema.yaml", Path("people.schema.yaml"), SCHEMA, {"attributes": SCHEMA["attributes"]},
    SCHEMA["attributes"], schema_from(SCHEMA),
], ids=["text", "path", "document", "without version", "list", "object"])  # fmt: skip
def test_a_schema_has_one_id_however_it_is_given(schema: Any) -> None:
    job = request_of("data", "person", WORKLOAD, 1.0, 1e-6, {"schema": schema, "mechanism": "gaussian"}).job
    config = {
        "dataset": {"name": "data", "snapshot": "1", "path": "data", "shape": "table", "unit": "person",
                    "schema": "people.schema.yaml"},
        "privacy": {"epsilon": 1.0, "delta": 1e-6}, "workload": WORKLOAD, "mechanism": {"name": "gaussian"},
        "output": {"path": "elsewhere"},
    }  # fmt: skip
    assert job.release_id == written(config)


def test_lists_of_attributes_are_marginals() -> None:
    options: Any = {"schema": SCHEMA, "mechanism": "gaussian"}
    listed = request_of("data", "person", [("sex", "work"), ("age",)], 1.0, 1e-6, options).job
    cliques = {"marginals": {"cliques": [{"attributes": ["sex", "work"]}, {"attributes": ["age"]}]}}
    assert listed.release_id == request_of("data", "person", cliques, 1.0, 1e-6, options).job.release_id


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("workload", [WORKLOAD, [("sex",)], {"products": [{"attributes": {"age": "ranges"}}]},
                                      {"conjunctions": {"count": 9, "order": 2}}])  # fmt: skip
def test_the_recommended_mechanism_is_in_the_id(workload: Any, delta: float) -> None:
    from marquee.planned import Plan

    options: Any = {"schema": SCHEMA}
    job = request_of("data", "person", workload, 1.0, delta, options).job
    plan = Plan.of(job)
    assert plan.mechanism == plan.recommended
    chosen = {"name": plan.recommended, **plan.facts["recommended"]["settings"]}
    named = request_of("data", "person", workload, 1.0, delta, {**options, "mechanism": chosen}).job
    assert named.release_id == job.release_id


def test_the_recommended_mechanism_has_no_settings() -> None:
    options: Any = {"schema": SCHEMA, "mechanism": {"name": "recommended", "rounds": 3}}
    with pytest.raises(ConfigError, match="mechanism: recommended has no settings but max_work; want no rounds"):
        request_of("data", "person", WORKLOAD, 1.0, 1e-6, options)


def test_a_frame_and_a_path_have_different_ids_and_frames_share_theirs() -> None:
    options: Any = {"schema": SCHEMA, "name": "people"}
    ids = [
        request_of(data, "person", WORKLOAD, 1.0, 1e-6, options).job.release_id
        for data in ("people", pa.table({"a": [1]}), pa.table({"b": [1]}))
    ]
    assert ids[0] != ids[1] == ids[2]


def test_baskets_need_no_schema() -> None:
    workload = {"conjunctions": {"count": 5, "order": 2}}
    options: Any = {"shape": "baskets", "item": "item", "items": 40, "max_items_per_unit": 10}
    job = request_of("shop", "user", workload, 1.0, 1e-6, options).job
    assert (job.config.dataset.item, job.config.dataset.items) == ("item", 40)
    assert job.config.output.path == str(Path.cwd() / f"marquee-releases/shop/1-{job.release_id[:12]}")


def test_a_wrong_argument_is_refused_in_the_words_of_the_config() -> None:
    with pytest.raises(ConfigError, match=r"^privacy.epsilon is -1.*; want > 0$"):
        request_of("data", "person", WORKLOAD, -1.0, 1e-6, {"schema": SCHEMA})
    with pytest.raises(ConfigError, match="^unknown argument 'neighbors'; did you mean 'neighbours'"):
        request_of("data", "person", WORKLOAD, 1.0, 1e-6, {"neighbors": "replace_one_unit"})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(ConfigError, match="schema is missing; shape: table needs it"):
        request_of("data", "person", WORKLOAD, 1.0, 1e-6, {})
    with pytest.raises(ConfigError, match="unknown mechanism 'gausian'; did you mean 'gaussian'?"):
        request_of("data", "person", WORKLOAD, 1.0, 1e-6, {"schema": SCHEMA, "mechanism": "gausian"})


def test_paths_inside_sections_are_text() -> None:
    options: Any = {"schema": SCHEMA, "mechanism": {"name": "clique_tree", "public": Path("before.csv")}}
    with pytest.raises(ConfigError, match=r"^mechanism\.public is .*before\.csv, which does not exist"):
        request_of("data", "person", WORKLOAD, 1.0, 1e-6, options)
    listed: Any = {"schema": SCHEMA, "mechanism": "gaussian"}
    with pytest.raises(ConfigError, match=r"queries\.csv"):
        request_of("data", "person", {"conjunctions": {"file": Path("queries.csv")}}, 1.0, 1e-6, listed)


@pytest.mark.parametrize(
    ("argument", "value", "problem"),
    [
        ("mechanism", {"name": "clique_tree", "public": pa.table({"a": [1]})},
         "mechanism.public is of type Table; want text"),
        ("mechanism", {"name": "mwem", "rounds": np.int64(3)}, "mechanism.rounds is of type int64; want "),
        ("where", {"sex": [{"female"}]}, r"dataset.where.sex.0 is of type set; want "),
        ("mechanism", {"name": "mwem", ("a", "b"): 3}, r"mechanism has the key \('a', 'b'\); want keys that are text"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_named_with_its_key(argument: str, value: Any, problem: str) -> None:
    options: Any = {"schema": SCHEMA, argument: value}
    with pytest.raises(ConfigError, match=f"^{problem}"):
        request_of("data", "person", WORKLOAD, 1.0, 1e-6, options)


@pytest.mark.parametrize("ledger", [Ledger(), Ledger("marquee.db"), "sqlite:///marquee.db", "marquee.db"])
def test_a_ledger_is_an_object_a_url_or_a_path(ledger: Any) -> None:
    job = request_of("data", "person", WORKLOAD, 1.0, 1e-6, {"schema": SCHEMA, "ledger": ledger}).job
    assert job.config.privacy.ledger == f"sqlite:///{Path.cwd()}/marquee.db"
