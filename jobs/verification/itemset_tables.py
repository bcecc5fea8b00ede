"""itemsets.parquet and rules.parquet against answers.parquet, against each other, and against the definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.errors import MarqueeError
from jobs.outputs.answers_table import query_texts
from jobs.outputs.certificate_format import Certificate
from jobs.outputs.itemset_tables import ITEMSETS, MEASURES, RULES, itemset_schema, listed_itemsets, rule_schema
from jobs.verification.findings import Finding, failed, passed
from jobs.verification.rules import numbers, rule_problem, support_problem, units_of
from jobs.wording import number_of
from pipelines.layout import BasketLayout, Layout

CHECK: Final = "itemsets"
_ENDS: Final = (("count", "lower", "upper"), ("support", "support_lower", "support_upper"))


def itemset_finding(folder: Path, certificate: Certificate, layout: Layout) -> Finding:
    """Checks that both tables exist exactly for workloads of itemsets, and that they say what answers.parquet says.

    folder: The folder of the release.
    certificate: Its certificate.
    layout: The public layout of its data.
    """
    wanted = bool(certificate.config["workload"].get("itemsets"))
    for name in (ITEMSETS, RULES):
        if (folder / name).exists() != wanted:
            return failed(
                CHECK, f"{folder / name} {'is missing' if wanted else 'belongs to no release of this workload'}"
            )
    if not wanted:
        return passed(CHECK, "the workload asks for none")
    try:
        problem = _problem(folder, certificate, layout)
        rules = pq.ParquetFile(folder / RULES).metadata.num_rows
    except (MarqueeError, OSError, ValueError, IndexError, pa.ArrowException) as error:
        problem, rules = f"{folder / ITEMSETS} or {RULES} cannot be read ({type(error).__name__})", 0
    if problem:
        return failed(CHECK, problem)
    answers = number_of(certificate.workload.answers, "itemset")
    return passed(CHECK, f"{answers} as in answers.parquet, and {number_of(rules, 'rule')} among them")


def _problem(folder: Path, certificate: Certificate, layout: Layout) -> str | None:
    """What is wrong with the tables; None if nothing is."""
    if not isinstance(layout, BasketLayout):
        return f"{folder / ITEMSETS} belongs to no release of a table"
    itemsets, rules = pq.read_table(folder / ITEMSETS), pq.read_table(folder / RULES)
    for name, table, schema in (
        (ITEMSETS, itemsets, itemset_schema(layout)),
        (RULES, rules, rule_schema(layout)),
    ):
        if not table.schema.equals(schema):
            return f"{folder / name} has other columns or types than {name}"
    queries = listed_itemsets(folder, layout)
    if queries.size != certificate.workload.answers or queries.digest() != certificate.hashes.workload:
        return f"{folder / ITEMSETS} lists other itemsets than hashes.workload and workload.answers say"
    answers = pq.read_table(folder / "answers.parquet", columns=["query", "answer", "lower", "upper"])
    if answers["query"].combine_chunks() != pa.concat_arrays(list(query_texts(queries, layout))):
        return f"{folder / ITEMSETS} lists other itemsets than answers.parquet"
    for name, column in (("answer", "count"), ("lower", "lower"), ("upper", "upper")):
        if not np.array_equal(numbers(answers, (name,)), numbers(itemsets, (column,))):
            return f"{folder / ITEMSETS} has other counts or intervals than answers.parquet"
    measures = tuple((name, f"{name}_lower", f"{name}_upper") for name in MEASURES)
    if not all(_is_inside(table, *names) for table, ends in ((itemsets, _ENDS), (rules, measures)) for names in ends):
        return f"{folder} has an itemset or a rule outside its interval"
    public = certificate.public_facts.units
    units = units_of(itemsets, None if public == "private" else public)
    problem = support_problem(itemsets, units) or rule_problem(itemsets, rules, units)
    return problem and f"{folder}: {problem}"


def _is_inside(table: pa.Table, value_name: str, lower_name: str, upper_name: str) -> bool:
    """Whether every value is finite and lies in its interval; an upper end that is null is unbounded."""
    value, lower, upper = numbers(table, (value_name, lower_name, upper_name))
    is_bounded = value <= np.nan_to_num(upper, nan=np.inf)
    return bool(np.isfinite(value).all() and (lower <= value).all() and is_bounded.all())
