"""Honest releases of every mechanism, and of every kind of workload, pass every check that verify can make."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpcore.kernel.budget import Charge
from dpcore.mechanisms.registry import MECHANISMS
from jobs.config import parse_config
from jobs.ledger import SqlLedger
from jobs.outputs.certificate import KernelRecord, certificate
from jobs.outputs.certificate_format import parse_certificate
from jobs.planning.job import job_of, load_job
from jobs.release.run import release
from jobs.verification.findings import Outcome
from jobs.verification.recomputed import CHECKS, _rebuilt
from jobs.verification.release import verify_release
from tests.audit.canary_data import prepared
from tests.support.releases import BASKETS, SCHEMA, TABLE
from tests.unit.jobs.outputs.test_certificate import NOISE

WORKLOADS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (TABLE, {"marginals": {"order": 2}}),
    (TABLE, {"marginals": {"order": 2, "target": "sex"}}),
    (TABLE, {"marginals": {"up_to_order": 2, "max_cells": 12}}),
    (TABLE, {"marginals": {"order": 2, "skewed": {"count": 4, "seed": 9}}}),
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


@pytest.mark.parametrize(("base", "workload"), WORKLOADS, ids=lambda value: json.dumps(value)[:60])
def test_the_queries_of_every_workload_are_rebuilt(
    base: dict[str, Any], workload: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    document = {**base, "workload": workload, "mechanism": {"name": "gaussian"}}
    made = job_of(parse_config(document), tmp_path)
    record = KernelRecord((Charge("noise", Fraction(1, 9), NOISE),), 1, "c0ffee")
    read, _ = parse_certificate(json.dumps(certificate(made, made.stand_in, record, None)))
    queries = _rebuilt(read, made.layout)
    assert not isinstance(queries, str), queries
    assert queries.digest() == made.stand_in.queries.digest()


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
    assert outcomes["queries"] is Outcome.PASSED
    assert outcomes["answers of the model"] is (Outcome.PASSED if graphical else Outcome.NOT_CHECKED)
    assert set(CHECKS) <= set(outcomes)
