"""The answers of a release against its public content: their queries against the workload, their values against the
model.

The measured marginals themselves are not published, so that the intervals of a model's answers are not recomputed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.errors import MarqueeError
from dpcore.estimation.model import Model
from dpcore.mechanisms.continual.series import answered_at
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.queries import Conjunctions, Marginals, Products, Queries
from jobs.config.section import Section
from jobs.config.workload import ConjunctionQueries, MarginalQueries, ParityQueries
from jobs.config.workload import Queries as Workload
from jobs.outputs.answers_table import attribute_names, query_texts
from jobs.outputs.attribute_columns import attribute_columns, attribute_fields
from jobs.outputs.certificate_format import Certificate
from jobs.verification.findings import Finding, Outcome, failed, not_checked, passed
from jobs.version import versions
from jobs.wording import number_of
from jobs.workload.building import number_of_parities, number_of_random_conjunctions, workload_of_section
from jobs.workload.item_files import KEY as ITEM_LIST
from jobs.workload.public_table import KEY as PUBLIC_TABLE
from pipelines.layout import Layout

CHECKS = ("queries", "answers of the model")
_QUERIES, _MODEL = CHECKS
_KINDS: dict[str, type[Section]] = {
    "marginals": MarginalQueries, "conjunctions": ConjunctionQueries, "parities": ParityQueries,
}  # fmt: skip
_MOST_QUERIES = 1 << 21  # A workload with more answers is not built again.
_MOST_PARTS = 64
_TOLERANCE = 1e-9  # Relative to the total of the model; other processors round sums otherwise.


def recomputed_findings(path: Path, certificate: Certificate, layout: Layout, model: Model | None) -> list[Finding]:
    """Compares the answers with the workload of the certificate's config, and with the model.

    path: answers.parquet, whose columns, types and number of rows have been checked.
    certificate: The certificate.
    layout: The public layout of the data.
    model: The model of the release; None without one.
    """
    reason = _not_rebuilt(certificate)
    if reason is not None:
        return [not_checked(check, reason) for check in CHECKS]
    queries = _rebuilt(certificate, layout)
    if isinstance(queries, str):
        return [
            _unless_another_version(certificate, failed(_QUERIES, queries)),
            not_checked(_MODEL, "the queries are unknown"),
        ]
    return [
        _unless_another_version(certificate, _query_finding(path, queries, layout)),
        _model_finding(path, queries, model, certificate),
    ]


def _not_rebuilt(certificate: Certificate) -> str | None:
    """Why the queries cannot be rebuilt from the certificate; None if they can."""
    conjunctions = certificate.config["workload"].get("conjunctions") or {}
    if set(certificate.hashes.public_files) - {ITEM_LIST, PUBLIC_TABLE}:
        return "the config names a file of queries or weights, which is not in the release"
    if conjunctions.get("weights") == "noisy_popularity":
        return "noisy counts that are not published have chosen the queries"
    if certificate.config["workload"].get("itemsets"):
        return "noisy counts that are not published have chosen the itemsets"
    if certificate.workload.answers > _MOST_QUERIES:
        return f"there are more than {_MOST_QUERIES:,} queries"
    return None


def _rebuilt(certificate: Certificate, layout: Layout) -> Queries | str:
    """The queries of the config, or what contradicts them. Lists of queries are made only if their number is right."""
    try:
        section = Workload.model_validate_json(json.dumps(_as_written(certificate.config["workload"])))
        count = None
        if section.conjunctions is not None:
            count = number_of_random_conjunctions(section.conjunctions, layout)
        if section.parities is not None:
            count = number_of_parities(section.parities, layout)
        discovered = certificate.discovery is not None  # There may be fewer queries than were wanted.
        if count not in (None, certificate.workload.answers) and not discovered:
            return f"the config has {count:,} queries, but the certificate says {certificate.workload.answers:,}"
        workload = workload_of_section(section, layout)
        if certificate.series is not None:
            workload = answered_at(workload, certificate.series.attribute, certificate.series.step - 1)
        queries = workload.queries
    except (MarqueeError, ValueError, TypeError, KeyError, AttributeError) as error:
        return f"config and schema describe no workload ({type(error).__name__})"
    if queries.size != certificate.workload.answers or queries.digest() != certificate.hashes.workload:
        return "the workload of the config has other queries than hashes.workload and workload.answers say"
    return queries


def _as_written(workload: dict[str, Any]) -> dict[str, Any]:
    """The workload of a certificate without its defaults, some of which a config may not state together."""
    written = {key: value for key, value in workload.items() if value is not None}
    for key, kind in _KINDS.items():
        if key in written:
            fields = kind.model_fields
            written[key] = {
                name: value for name, value in written[key].items()
                if name not in fields or value != fields[name].default
            }  # fmt: skip
    return written


def _unless_another_version(certificate: Certificate, finding: Finding) -> Finding:
    """Another version of Marquee or numpy may draw other queries, and of Marquee may write them differently."""
    here = versions()
    different = [name for name in ("marquee", "numpy") if certificate.versions.get(name) != here.get(name)]
    if finding.outcome is not Outcome.FAILED or not different:
        return finding
    return not_checked(finding.check, f"another version of {different[0]} made the release ({finding.text})")


def _query_finding(path: Path, queries: Queries, layout: Layout) -> Finding:
    """Compares the text of every query and its attributes, in order. There are as many rows as queries.

    A release of a version before 0.13 has no columns of attributes.
    """
    rows = 0
    with pq.ParquetFile(path) as file:
        further = attribute_names(file.schema_arrow.names)
        fields = attribute_fields(queries, layout) if further else []
        if further != [field.name for field in fields]:
            return failed(_QUERIES, f"{path} has other columns of attributes than the workload asks for")
        names = ["query", *further]
        wanted_columns = pa.schema([pa.field("query", pa.string()), *fields])
        for wanted, written in _aligned(_wanted(queries, layout, wanted_columns), file.iter_batches(columns=names)):
            if not written.equals(wanted):
                return failed(_QUERIES, f"{path} has another query than the workload in rows {rows:,} and after")
            rows += len(written)
    if rows != queries.size:
        return failed(_QUERIES, f"{path} has {rows:,} queries, but the workload has {queries.size:,}")
    return passed(_QUERIES, f"{number_of(rows, 'query', 'queries')} as in the workload, in order")


def _wanted(queries: Queries, layout: Layout, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The text of each query, and its attributes if there are columns for them."""
    batches = zip(query_texts(queries, layout), attribute_columns(queries, layout), strict=True)
    for texts, asked in batches:
        yield pa.record_batch([texts, *asked][: len(columns)], schema=columns)


def _aligned(
    first: Iterator[pa.RecordBatch], second: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Pieces of two streams, cut at the same rows; ends with the shorter one."""
    left, right = next(first, None), next(second, None)
    while left is not None and right is not None:
        size = min(len(left), len(right))
        if size:
            pair = [pa.record_batch(part[:size].columns, names=part.schema.names) for part in (left, right)]
            yield pair[0], pair[1]
        left = left[size:] if len(left) > size else next(first, None)
        right = right[size:] if len(right) > size else next(second, None)


def _model_finding(path: Path, queries: Queries, model: Model | None, certificate: Certificate) -> Finding:
    """Answers queries with the model again: all of them, or those of some marginals that are chosen at random."""
    if model is None:
        return not_checked(_MODEL, "the release has no model")
    table = pq.read_table(path, columns=["answer", "measured"])
    if pc.any(table["measured"]).as_py():
        return failed(_MODEL, f"{path} has measured answers, but the release has a model that gives them")
    answers = np.asarray(table["answer"].to_numpy(), dtype=np.float64)
    compared = 0
    for part, rows in _some_of(queries):
        try:
            again = model.answer(part)
        except (MarqueeError, ValueError) as error:
            return failed(_MODEL, f"the model cannot answer the workload ({type(error).__name__})")
        if not _equal(answers[rows], again, model.total):
            if _has_own_answers(certificate):
                return not_checked(_MODEL, "they are estimates of their own, and the model is that of the rows")
            return failed(_MODEL, f"{path} has other answers than the model gives")
        compared += part.size
    if not compared:
        return not_checked(_MODEL, "the model does not answer queries of this kind")
    return passed(_MODEL, f"{compared:,} of {queries.size:,} answers are those of the model")


def _has_own_answers(certificate: Certificate) -> bool:
    """Whether the answers are estimates from residuals, which two calls or more have measured."""
    name = certificate.mechanism.name
    calls = [charge for charge in certificate.charges if charge.unit == "integer answers"]
    return name in MECHANISMS and MECHANISMS[name].traits.own_answers and len(calls) > 1


def _equal(answers: NDArray[np.float64], again: NDArray[np.float64], total: float) -> bool:
    return answers.shape == again.shape and bool((np.abs(answers - again) <= _TOLERANCE * max(total, 1.0)).all())


def _some_of(queries: Queries) -> Iterator[tuple[Queries, slice]]:
    """Up to a number of parts of the queries, with their places."""
    parts: list[Queries]
    match queries:
        case Marginals():
            parts = [queries.only([clique]) for clique in queries.cliques]
        case Products():
            parts = [Products(queries.domain, (term,), queries.denominator) for term in queries.terms]
        case Conjunctions():
            parts = [queries]
        case _:
            parts = []
    ends = np.cumsum([part.size for part in parts]).tolist()
    for number in random.sample(range(len(parts)), min(len(parts), _MOST_PARTS)):
        part = parts[number]
        yield part, slice(ends[number] - part.size, ends[number])
