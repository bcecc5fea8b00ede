"""Honest releases of every mechanism, and of every kind of workload, pass every check that verify can make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from dpcore.mechanisms.registry import MECHANISMS
from jobs.config import parse_config
from jobs.ledger import SqlLedger
from jobs.outputs.certificate import KernelRecord, certificate
from jobs.outputs.certificate_format import parse_certificate
from jobs.planning.job import Job, job_of, load_job
from jobs.reading.marginals import PUBLISHED, SUM, marginal
from jobs.reading.release_folder import ReleaseFolder
from jobs.release.run import release
from jobs.verification import recomputed
from jobs.verification.findings import Outcome
from jobs.verification.recomputed import CHECKS, _rebuilt, recomputed_findings
from jobs.verification.release import verify_release
from tests.audit.canary_data import prepared
from tests.support.releases import BASKETS, SCHEMA, TABLE

WORKLOADS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (TABLE, {"marginals": {"order": 2}}),
    (TABLE, {"marginals": {"order": 2, "target": "sex"}}),
    (TABLE, {"marginals": {"up_to_order": 2, "max_cells": 12}}),
    (TABLE, {"marginals": {"order": 2, "skewed": {"count": 4, "seed": 9}}}),
    (TABLE, {"marginals": {"order": 2, "count": 4, "seed": 9}}),
    (TABLE, {"marginals": {"order": 2, "count": 2, "max_cells": 12, "ranges": ["age"]}}),
    (TABLE, {"marginals": {"order": 2, "attributes": ["sex", "work", "age"], "prefix": ["age"], "ranges": ["work"]}}),
    (TABLE, {"marginals": {"cliques": [{"attributes": ["sex", "work"], "weight": 2.0}, {"attributes": ["age"]}]}}),
    (TABLE, {"marginals": {"cliques": [{"attributes": ["sex", "age"]}], "prefix": ["age"]}}),
    (
        TABLE,
        {"products": [{"attributes": {"age": "prefix", "sex": "each_and_total"}}, {"attributes": {"work": "each"}}]},
    ),
    (TABLE, {"conjunctions": {"count": 30, "order": 2}}),
    (TABLE, {"conjunctions": {"count": 30, "order": 2, "seed": 4, "negations": "none"}}),
    (TABLE, {"parities": {"order": 2}}),
    (TABLE, {"parities": {"order": 2, "count": 5, "seed": 5, "attributes": ["sex", "home"]}}),
    (BASKETS, {"conjunctions": {"count": 30, "order": 2}}),
    (BASKETS, {"parities": {"order": 2}}),
]


def certified(folder: Path, base: dict[str, Any], workload: dict[str, Any]) -> tuple[Job, dict[str, Any]]:
    """A job with this workload, and the certificate of a release of it that made no calls."""
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    made = job_of(parse_config({**base, "workload": workload, "mechanism": {"name": "gaussian"}}), folder)
    return made, certificate(made, made.stand_in, KernelRecord((), 0, None), None)


@pytest.mark.parametrize(("base", "workload"), WORKLOADS, ids=lambda value: json.dumps(value)[:60])
def test_the_queries_of_every_workload_are_rebuilt(
    base: dict[str, Any], workload: dict[str, Any], tmp_path: Path
) -> None:
    made, content = certified(tmp_path, base, workload)
    read, _ = parse_certificate(json.dumps(content))
    queries = _rebuilt(read, made.layout)
    assert not isinstance(queries, str), queries
    assert queries.digest() == made.stand_in.queries.digest()


def test_queries_of_another_version_may_differ(tmp_path: Path) -> None:
    """Random queries follow numpy's generator, whose numbers may differ between versions."""
    made, content = certified(tmp_path, TABLE, {"conjunctions": {"count": 30, "order": 2}})
    content["hashes"]["workload"] = "0" * 64
    for numpy, outcome in ((content["versions"]["numpy"], Outcome.FAILED), ("0.0", Outcome.NOT_CHECKED)):
        content["versions"]["numpy"] = numpy
        read, _ = parse_certificate(json.dumps(content))
        finding, _ = recomputed_findings(tmp_path / "answers.parquet", read, made.layout, None)
        assert (finding.check, finding.outcome) == ("queries", outcome)


def test_a_list_of_queries_of_another_length_is_not_even_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate with few answers may ask for millions of parities, which would fill the memory."""
    made, content = certified(tmp_path, BASKETS, {"parities": {"order": 2}})
    content["config"]["workload"]["parities"]["order"] = 3
    read, _ = parse_certificate(json.dumps(content))
    monkeypatch.setattr(recomputed, "workload_of_section", None)
    assert _rebuilt(read, made.layout) == "the config has 10,700 queries, but the certificate says 820"


@pytest.mark.full
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_release_of_every_mechanism_passes(mechanism: str, tmp_path: Path) -> None:
    config = prepared(mechanism, "local", tmp_path)
    job = load_job(config)
    release(job)
    verified = verify_release(job.output, SqlLedger(job.config.privacy.ledger))
    assert verified.failures == ()
    graphical = MECHANISMS[mechanism].traits.graphical
    assert (job.output / "model.npz").exists() == graphical
    outcomes = {finding.check: finding.outcome for finding in verified.findings}
    itemsets = mechanism == "frequent_itemsets"  # Its queries follow from counts that are not published.
    assert outcomes["queries"] is (Outcome.NOT_CHECKED if itemsets else Outcome.PASSED)
    baskets = mechanism == "basket_mixture"
    assert (job.output / "baskets.npz").exists() == baskets
    assert outcomes["answers of the model"] is (Outcome.PASSED if graphical or baskets else Outcome.NOT_CHECKED)
    assert set(CHECKS) <= set(outcomes)


@pytest.mark.parametrize(("epsilon", "outcome"), [(1.0, Outcome.NOT_CHECKED), (0.0001, Outcome.PASSED)])
def test_estimates_may_differ_from_the_model_of_the_rows(epsilon: float, outcome: Outcome, tmp_path: Path) -> None:
    """Where noise prevails, the answers of ``adaptive_residuals`` are those of the model of a selection."""
    config = prepared("adaptive_residuals", "local", tmp_path)
    document = yaml.safe_load(config.read_text())
    document["mechanism"]["model"], document["output"]["synthetic_rows"] = "graphical", 50
    document["workload"] = {"marginals": {"order": 2, "attributes": "all"}}
    document["privacy"] |= {"epsilon": epsilon, "ledger": f"sqlite:///{tmp_path / 'other.db'}"}
    config.write_text(yaml.safe_dump(document))
    job = load_job(config)
    SqlLedger(job.config.privacy.ledger).create_dataset(job.config.dataset.name, epsilon, document["privacy"]["delta"])
    release(job)
    verified = verify_release(job.output, SqlLedger(job.config.privacy.ledger))
    assert verified.failures == ()
    outcomes = {finding.check: finding.outcome for finding in verified.findings}
    assert (outcomes["model"], outcomes["answers of the model"]) == (Outcome.PASSED, outcome)
    folder = ReleaseFolder.open(str(job.output))
    names = [attribute.name for attribute in folder.schema.attributes]
    for place, name in enumerate(names):  # A table that was not asked for is summed from one that was.
        single = marginal(folder, [name])
        pair = marginal(folder, [name, names[place - 1]])
        assert (single.source, pair.source) == (SUM, PUBLISHED)
        np.testing.assert_allclose(single.answer, pair.answer.sum(axis=1), atol=1e-6 * pair.answer.sum())
