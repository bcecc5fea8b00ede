"""Whether a certificate's words follow from its config and schema, which the release id covers."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from dpcore.errors import ConfigError
from dpcore.kernel.budget import Budget
from dpcore.kernel.private_items import ItemTerms
from dpcore.kernel.scales import noise_of
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.continual.continual import Continual
from dpcore.uncertainty import CONFIDENCE
from jobs.config import MechanismChoice
from jobs.mechanisms import mechanism_of, settings_of
from jobs.outputs.certificate import (
    KEPT_STATISTICS,
    LIMITS,
    domain_facts,
    formulas,
    promise_text,
    schema_digest,
    series_section,
)
from jobs.outputs.certificate_format import Certificate
from jobs.outputs.counted_rows import filter_text, partition_text, table_text
from jobs.outputs.discovery_section import discovery_section
from jobs.planning.discovery import threshold_delta_at
from jobs.planning.identity import id_of
from jobs.planning.series import SeriesFacts, number_of_steps
from jobs.verification.charges import currency_of
from jobs.verification.findings import Finding, failed, judged, not_checked, passed
from jobs.verification.manifest import Manifest
from jobs.version import VERSION
from pipelines.attributes import Attribute, Kind
from pipelines.layout import BasketLayout, Layout, TableLayout
from pipelines.schema import Schema
from pipelines.unit_names import parts_of


def layout_of(certificate: Certificate) -> Layout:
    """The public layout of the data that a certificate describes, without the names of items.

    Raises: ConfigError, ValueError, TypeError or KeyError when the certificate describes none.
    """
    dataset = certificate.config["dataset"]
    if certificate.table_schema is None:
        unit, item, items = dataset["unit"], dataset["item"], dataset["items"]
        discovered = not isinstance(items, int) and items.get("discover") is not None
        if not isinstance(items, int):  # The hash of their list covers how many there are.
            items = certificate.public_facts.items
        bound, clustered = dataset["max_items_per_unit"], dataset["clustered_by_unit"]
        return BasketLayout(unit, item, items, bound, clustered, unit_parts=parts_of(unit), any_items=discovered)
    attributes = tuple(
        Attribute(
            attribute.name,
            Kind(attribute.kind),
            tuple(attribute.values),
            tuple(attribute.edges),
            attribute.other,
            attribute.null,
            attribute.column,
            tuple(attribute.sum_of),
            attribute.absolute,
            attribute.dates,
        )
        for attribute in certificate.table_schema.attributes
    )
    rows = dataset["max_rows_per_unit"] or 1
    unit, clustered = dataset["unit"], dataset["clustered_by_unit"]
    return TableLayout(unit, Schema(attributes), rows, clustered, unit_parts=parts_of(unit))


def identity_findings(certificate: Certificate, content: dict[str, Any], manifest: Manifest) -> list[Finding]:
    """Checks that manifest and certificate name one release, and recomputes its id.

    certificate: The certificate.
    content: The certificate as a JSON object.
    manifest: The manifest.
    """
    hashes, version = certificate.hashes, certificate.versions.get("marquee")
    ids = {
        "manifest.json": manifest.release_id,
        "hashes.config_schema_and_version": hashes.config_schema_and_version,
        "config, schema and version": id_of(content["config"], content["schema"], hashes.public_files, version or ""),
    }
    problems = [
        f"the certificate is of release {certificate.release_id[:12]}, but by {place} it would be {other[:12]}"
        for place, other in ids.items()
        if other != certificate.release_id
    ]
    if hashes.table_schema != schema_digest(content["schema"]):
        problems.append("hashes.schema is not the hash of the section schema")
    findings = judged("release id", problems, f"{certificate.release_id[:12]} follows from config, schema and version")
    if version is None or version != manifest.version:
        named = "no version" if version is None else f"version {version}"
        wrong = f"the certificate names {named}, but manifest.json names version {manifest.version}"
        return [*findings, failed("version", wrong)]
    here = "this version" if version == VERSION else f"not this version, {VERSION}"
    return [*findings, passed("version", f"made by Marquee {version}, {here}")]


def promise_findings(certificate: Certificate) -> list[Finding]:
    """Checks that guarantee, public facts, mechanism, workload and limits follow from config and schema."""
    try:
        problems = [
            f"{place} is {said!r}, but config and schema give {wanted!r}"
            for place, said, wanted in _statements(certificate)
            if said != wanted
        ]
    except (ConfigError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        problems = [f"config and schema describe no release ({type(error).__name__})"]
    return [*judged("promise", problems, certificate.guarantee.promise), *_limit_findings(certificate)]


def _limit_findings(certificate: Certificate) -> list[Finding]:
    version = certificate.versions.get("marquee")
    if version != VERSION:
        return [not_checked("limits", f"this is version {VERSION}, and the text of version {version} may differ")]
    problems = [] if certificate.limits == list(LIMITS) else ["the limits differ from the text of this version"]
    return judged("limits", problems, "they are stated in full")


def _statements(certificate: Certificate) -> list[tuple[str, object, object]]:
    """Every statement that config and schema determine: its place, what it says, and what it should say."""
    guarantee, facts, config = certificate.guarantee, certificate.public_facts, certificate.config
    kept = certificate.dataset.statistics_store  # Config and schema do not say whether there was a store.
    dataset, privacy, layout = config["dataset"], config["privacy"], layout_of(certificate)
    epsilon, delta, neighbours = privacy["epsilon"], privacy["delta"], privacy["neighbours"]
    table = isinstance(layout, TableLayout)
    currency = currency_of(certificate)
    accounting = {"epsilon": "pure", "rho": "zcdp", "mu^2": "gdp"}[currency.value]
    fixed = accounting if privacy["accounting"] != "auto" else "auto"
    described = facts.model_dump(mode="json", exclude_none=True)
    return [
        ("guarantee.epsilon", guarantee.epsilon, epsilon),
        ("guarantee.delta", guarantee.delta, delta),
        ("guarantee.neighbours", guarantee.neighbours, neighbours),
        ("guarantee.promise", guarantee.promise, promise_text(epsilon, delta, dataset["unit"], neighbours)),
        ("guarantee.currency", fixed, privacy["accounting"]),
        ("guarantee.additive_noise", guarantee.additive_noise, noise_of(currency).value),
        ("dataset.name", certificate.dataset.name, dataset["name"]),
        ("dataset.snapshot", certificate.dataset.snapshot, dataset["snapshot"]),
        ("dataset.table", certificate.dataset.table, table_text(dataset)),
        ("dataset.where", certificate.dataset.where, filter_text(dataset)),
        ("dataset.partition", certificate.dataset.partition, partition_text(dataset)),
        ("dataset.statistics_store", kept, None if kept is None else KEPT_STATISTICS),
        ("mechanism.name", certificate.mechanism.name, config["mechanism"]["name"]),
        *_statements_of_series(certificate),
        *_statements_of_discovery(certificate),
        ("workload.queries", certificate.workload.queries, _without_none(config["workload"])),
        ("public_facts.shape", facts.shape, "table" if table else "baskets"),
        ("dataset.shape of the config", dataset["shape"], facts.shape),
        ("public_facts.unit", facts.unit, dataset["unit"]),
        ("public_facts.units", facts.units, privacy["units"]),
        ("public_facts.accounting", facts.accounting, privacy["accounting"]),
        ("public_facts.consumer", facts.consumer, privacy["consumer"]),
        ("public_facts.clustered_by_unit", facts.clustered_by_unit, dataset["clustered_by_unit"]),
        ("public_facts.columns", facts.columns, list(layout.stored_columns)),
        ("public_facts.max_rows_per_unit", facts.max_rows_per_unit, layout.contribution.bound if table else None),
        ("public_facts.max_items_per_unit", facts.max_items_per_unit, None if table else layout.contribution.bound),
        *((f"public_facts.{name}", described.get(name), value) for name, value in domain_facts(layout).items()),
        *(_statements_of_this_version(certificate) if certificate.versions.get("marquee") == VERSION else ()),
    ]


def _statements_of_discovery(certificate: Certificate) -> list[tuple[str, object, object]]:
    """What the config says of a discovery: the whole section but the names, and the noise of its call."""
    said, config = certificate.discovery, certificate.config
    items = config["dataset"]["items"] if certificate.table_schema is None else None
    choice = None if items is None or isinstance(items, int) else items["discover"]
    if said is None or choice is None:
        return [("whether items are discovered", said is not None, choice is not None)]
    units = config["privacy"]["units"]
    unit = PrivacyUnit(
        Neighbours(config["privacy"]["neighbours"]),
        layout_of(certificate).contribution,
        None if isinstance(units, str) else units,
    )
    share, reserved = Fraction(str(choice["share"])), Fraction(certificate.guarantee.reserved_in_the_ledger.amount)
    budget = Budget(currency_of(certificate), share * reserved)
    terms = ItemTerms(unit, budget, threshold_delta_at(config["privacy"]["delta"]), choice["at_most"])
    wanted = discovery_section(terms, certificate.public_facts.items or 0, said.names)
    calls = certificate.charges[: len(terms.rounds)]
    return [
        *((f"discovery.{name}", getattr(said, name), value) for name, value in wanted.items()),
        ("whether the items are at most at_most", said.items <= said.at_most, True),
        ("verbs of the discovery", [call.verb for call in calls], ["discover"] * len(terms.rounds)),
        *(
            (f"{what} of a round of the discovery", said_of_round, follows)
            for call, each in zip(calls, terms.rounds, strict=True)
            for what, said_of_round, follows in (
                ("amount", Fraction(call.amount), each.budget.amount),
                ("sensitivity", Fraction(call.sensitivity), each.basis.sensitivity),
                ("noise", call.noise_scale, each.basis.scale),
            )
        ),
    ]


def _statements_of_series(certificate: Certificate) -> list[tuple[str, object, object]]:
    """What config and schema say of the series. Its id, its strategy and who paid are in the ledger."""
    said, config = certificate.series, certificate.config.get("series")
    if said is None or config is None:
        return [("series", None if said is None else said.step, None if config is None else config["step"])]
    layout, attribute = layout_of(certificate), mechanism_of_config(certificate).attribute
    steps = number_of_steps(layout.schema.domain, attribute) if isinstance(layout, TableLayout) else None
    wanted = series_section(SeriesFacts(said.id, config["step"], steps or 0, attribute, said.strategy), said.paid_by)
    return [
        *((f"series.{name}", getattr(said, name), wanted[name]) for name in ("step", "steps", "attribute", "note")),
        ("whether series.paid_by is null", said.paid_by is None, said.step == 1),
    ]


def mechanism_of_config(certificate: Certificate) -> Continual:
    """The mechanism of a series. Raises ValueError for another one."""
    mechanism = mechanism_of(MechanismChoice.model_validate(certificate.config["mechanism"]))
    if not isinstance(mechanism, Continual):
        raise ValueError(f"a series of mechanism {mechanism.traits.name}; want continual")
    return mechanism


def _statements_of_this_version(certificate: Certificate) -> list[tuple[str, object, object]]:
    """What another version may say otherwise: every setting of the mechanism, the formulas and the confidence."""
    mechanism = mechanism_of(MechanismChoice.model_validate(certificate.config["mechanism"]))
    settings = json.loads(json.dumps(settings_of(mechanism)))
    return [
        ("mechanism.settings", certificate.mechanism.settings, settings),
        ("formulas", certificate.formulas.model_dump(), formulas(currency_of(certificate))),
        ("answers.confidence_of_intervals", certificate.answers.confidence_of_intervals, CONFIDENCE),
    ]


def _without_none(value: object) -> object:
    """A JSON value without the keys whose value is null."""
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value
