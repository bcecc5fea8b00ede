"""The published JSON Schema of certificates, and the model that reads them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import jobs.outputs
from dpcore.errors import IntegrityError
from jobs.config import parse_config
from jobs.outputs.certificate import KernelRecord, certificate
from jobs.outputs.certificate_format import certificate_schema, parse_certificate
from jobs.planning.job import job_of
from tests.support.releases import BASKETS, SCHEMA, TABLE
from tests.unit.jobs.outputs.test_certificate import CHARGES

PURE = {"epsilon": 1.0, "delta": 0}
CASES: dict[str, dict[str, Any]] = {
    "mwem": {},
    "laplace": {"mechanism": {"name": "laplace"}, "privacy": PURE},
    "gaussian": {"mechanism": {"name": "gaussian"}},
    "aim": {"mechanism": {"name": "aim"}},
    "hdmm": {"mechanism": {"name": "hdmm"}},
    "mst": {"mechanism": {"name": "mst"}, "workload": {"marginals": {"order": 1}}},
    "replace": {"privacy": {"epsilon": 2, "delta": 1e-9, "neighbours": "replace_one_unit", "units": 9}},
}


def said(folder: Path, name: str) -> dict[str, Any]:
    """A certificate as it is read from its file."""
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    document = BASKETS if name == "baskets" else {**TABLE, **CASES[name]}
    made = job_of(parse_config(document), folder)
    rows = None if name == "laplace" else 7
    written = certificate(made, made.stand_in, KernelRecord(CHARGES, 2, "c0ffee"), rows)
    parsed: dict[str, Any] = json.loads(json.dumps(written))
    return parsed


@pytest.mark.parametrize("name", [*CASES, "baskets"])
def test_certificates_have_the_published_format(tmp_path: Path, name: str) -> None:
    content = said(tmp_path, name)
    jsonschema.Draft202012Validator(json.loads(certificate_schema())).validate(content)
    model, again = parse_certificate(json.dumps(content))
    assert again == content
    assert model.model_dump(by_alias=True, mode="json", exclude_unset=True) == content


def test_the_published_schema_is_that_of_the_code() -> None:
    published = Path(jobs.outputs.__file__).with_name("certificate.schema.json").read_text()
    assert published == certificate_schema() + "\n", "want marquee verify --schema > certificate.schema.json"


WRONG: dict[str, tuple[tuple[str | int, ...], Any]] = {
    "epsilon 0": (("guarantee", "epsilon"), 0),
    "delta 1": (("guarantee", "delta"), 1),
    "text for a number": (("guarantee", "epsilon"), "1"),
    "a number for an amount": (("charges", 0, "amount"), 0.5),
    "a negative amount": (("charges", 0, "amount"), "-1/2"),
    "a denominator of 0": (("charges", 0, "amount"), "1/0"),
    "an endless amount": (("charges", 0, "amount"), "9" * 5000),
    "another verb": (("charges", 0, "verb"), "peek"),
    "a scale of 0": (("charges", 1, "noise_scale"), 0.0),
    "a short release id": (("release_id",), "abc"),
    "no limits": (("limits",), []),
    "an unknown key": (("extra",), 1),
    "no attributes": (("schema", "attributes"), []),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_forms_are_refused_by_schema_and_model(tmp_path: Path, name: str) -> None:
    content = copy.deepcopy(said(tmp_path, "mwem"))
    (*outer, last), value = WRONG[name]
    part: Any = content
    for key in outer:
        part = part[key]
    part[last] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(json.loads(certificate_schema())).validate(content)
    with pytest.raises(IntegrityError, match="of the certificate"):
        parse_certificate(json.dumps(content))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, '{"limits": [], "limits": []}', '{"limits": NaN}', '{"limits": -Infinity}'],
    ids=["empty", "open", "deep", "duplicate", "nan", "infinity"],
)
def test_what_is_no_strict_json_is_refused(text: str) -> None:
    with pytest.raises(IntegrityError, match="the certificate is not valid JSON"):
        parse_certificate(text)
