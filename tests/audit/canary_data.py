"""Data full of strings and counts that must not get out, and releases of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from dpcore.errors import ConfigError
from dpcore.kernel.item_threshold import WEIGHT_BITS
from dpcore.mechanisms.registry import MECHANISMS
from jobs.ledger import SqlLedger
from jobs.planning.job import Job, load_job
from tests.support.engines import SPARK_SETTINGS
from tests.support.leaks import Canaries

UNIT, WORD, ITEM = "kestrel", "quokka", 918_273_645
FIRST_USER = 271_828_182_000
PEOPLE, SECOND_ROWS, PARTS = 73_019, 10_889, (31_019, 27_043)
SEX = {"female": 31_337, "male": 41_682}
WORK = {"private": 23_117, "public": 19_391, "none": 17_203, WORD: 13_308}
HOME = {True: 38_411, False: 22_307, None: 12_301}
SHOPPERS, POPULAR = 21_407, ((0, 17_389), (6_332, 19_395))
# Of named items, which are discovered. A name of LONE that only one unit has follows its word.
LONE, ALONE, TOGETHER, HEAVY, LONERS = "numbat", 11_003, 10_404, 900, 500
SCHEMA: dict[str, Any] = {
    "version": 1,
    "attributes": [
        {"name": "sex", "type": "categorical", "values": ["female", "male"], "other": False, "null": False},
        {"name": "work", "type": "categorical", "values": ["private", "public", "none"], "other": True, "null": True},
        {"name": "home", "type": "boolean", "null": True},
    ],
}
DISCOVERED = "discovered"
DATASETS: dict[str, dict[str, Any]] = {
    "table": {"name": "people", "shape": "table", "unit": "person", "schema": "people.schema.yaml"},
    "baskets": {
        "name": "shop", "shape": "baskets", "unit": "user", "item": "item", "items": 40, "max_items_per_unit": 10,
    },
    DISCOVERED: {
        "name": "shop", "shape": "baskets", "unit": "user", "item": "item", "max_items_per_unit": 10,
        "items": {"discover": {"share": 0.5, "at_most": 60}},
    },
}  # fmt: skip
WORKLOADS: dict[str, Any] = {
    "marginals": {"marginals": {"order": 2}},
    "conjunctions": {"conjunctions": {"count": 60, "order": 2, "seed": 3}},
    "positive": {"conjunctions": {"count": 60, "order": 2, "seed": 3, "negations": "none"}},
    "ranges": {"marginals": {"order": 2, "ranges": ["work"]}},
    "bits": {"marginals": {"order": 1, "attributes": ["sex"]}},
    "itemsets": {"itemsets": {"order": 3, "top": 4}},
}
SETTINGS: Mapping[str, dict[str, Any]] = {
    "mwem": {"rounds": 3},
    "mwem_queries": {"rounds": 3},
    "dual_query": {"rounds": 4, "samples": 5},
    "dqrs": {"rounds": 4, "samples": 5},
    "continual": {"attribute": "work"},
}
SYNTHETIC_ROWS = 500  # Rows are numbered from 0: so few that no number is a canary.


def prepared(
    mechanism: str,
    engine: str,
    folder: Path,
    accounting: str = "auto",
    ledger: str | None = None,
    *,
    discovered: bool = False,
) -> Path:
    """The config of a release of this mechanism, with its data and a ledger that has its budget.

    ledger: URL of an empty database; a file beside the data by default.
    discovered: Whether the items of baskets have names, which are discovered.
    """
    (folder / "said").mkdir()
    path, job = folder / "release.yaml", fitting(mechanism, engine, folder, accounting, ledger, discovered=discovered)
    if job is None:
        raise AssertionError(f"no workload here suits mechanism {mechanism} accounted as {accounting}")
    (folder / "data").mkdir()
    for number, part in enumerate(data(shape_of(path))):
        pq.write_table(part, folder / "data" / f"part-{number}.parquet")
    privacy = job.config.privacy
    SqlLedger(privacy.ledger).create_dataset(job.config.dataset.name, privacy.epsilon, privacy.delta)
    return path


def fitting(
    mechanism: str,
    engine: str,
    folder: Path,
    accounting: str,
    ledger: str | None = None,
    *,
    discovered: bool = False,
) -> Job | None:
    """The first shape, workload and budget that the mechanism has a proof for; writes its config.

    discovered: Only data whose items are discovered, with a budget at which there is something to discover.
    """
    (folder / "people.schema.yaml").write_text(yaml.safe_dump(SCHEMA, sort_keys=False))
    path = folder / "release.yaml"
    shapes = [shape for shape in DATASETS if (shape == DISCOVERED) is discovered]
    epsilons, deltas = ((0.1, 1.0), (1e-6,)) if discovered else ((0.001, 0.01, 0.1, 1.0), (0.0, 1e-6))
    for shape, workload, epsilon, delta in product(shapes, WORKLOADS, epsilons, deltas):
        document = {
            "dataset": DATASETS[shape] | {"snapshot": "2026-11", "path": str(folder / "data")},
            "privacy": {"epsilon": epsilon, "delta": delta, "accounting": accounting,
                        "ledger": ledger or f"sqlite:///{folder / 'ledger.db'}"},
            "workload": WORKLOADS[workload],
            "mechanism": {"name": mechanism, **SETTINGS.get(mechanism, {})},
            "engine": _engine(engine, folder),
            "output": {"path": str(folder / "out" / "release"), "synthetic_rows": _synthetic(mechanism)},
        }  # fmt: skip
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        try:
            return load_job(path)
        except ConfigError:
            continue
    return None


def _synthetic(mechanism: str) -> int:
    kind = MECHANISMS[mechanism]
    return SYNTHETIC_ROWS if kind.traits.gives_rows(kind()) else 0


def _engine(engine: str, folder: Path) -> dict[str, Any]:
    if engine != "spark":
        return {"name": engine}
    (folder / "events").mkdir(exist_ok=True)
    own = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.local.dir": str(folder / "scratch"),
    }
    return {"name": engine, "options": {"partitions": 2, "settings": SPARK_SETTINGS | own}}


def shape_of(config: Path) -> str:
    """The key in ``DATASETS``."""
    dataset = yaml.safe_load(config.read_text())["dataset"]
    return DISCOVERED if isinstance(dataset.get("items"), dict) else str(dataset["shape"])


@cache
def data(shape: str) -> tuple[pa.Table, ...]:
    """The rows of a dataset, in three files of uneven sizes; some units break their bound."""
    rows = {"table": _people, "baskets": _baskets, DISCOVERED: _named}[shape]()
    rows = rows.take(pa.array(np.random.default_rng(5).permutation(len(rows))))
    first, second = PARTS
    return rows.slice(0, first), rows.slice(first, second), rows.slice(first + second)


def _people() -> pa.Table:
    generator = np.random.default_rng(4)
    columns = {"person": pa.array([f"{UNIT}-{number:06d}" for number in range(PEOPLE)])}
    for name, parts in (("sex", SEX), ("work", WORK), ("home", HOME)):
        values = np.repeat(np.array(list(parts), dtype=object), list(parts.values()))
        columns[name] = pa.array(generator.permutation(values))
    people = pa.table(columns)
    return pa.concat_tables([people, people.slice(0, SECOND_ROWS)])


def _baskets() -> pa.Table:
    generator = np.random.default_rng(6)
    held = [(user, item) for item, (start, stop) in enumerate(POPULAR) for user in range(start, stop)]
    rare = np.stack([np.arange(SHOPPERS), generator.integers(2, 40, SHOPPERS)], axis=1)
    many = np.stack([np.repeat(np.arange(900), 13), np.tile(np.arange(2, 15), 900)], axis=1)
    beyond = np.stack([np.arange(12_007), np.full(12_007, ITEM)], axis=1)
    pairs = np.concatenate([np.array(held), rare, many, beyond])
    return pa.table({"user": pairs[:, 0] + FIRST_USER, "item": pairs[:, 1]})


def _named() -> pa.Table:
    """Baskets of names: bread alone, bread with milk and a rare item, many rare items, and items of one unit each."""
    together = np.arange(ALONE, ALONE + TOGETHER)
    heavy = np.repeat(np.arange(SHOPPERS, SHOPPERS + HEAVY), 13)
    loners = np.arange(SHOPPERS + HEAVY, SHOPPERS + HEAVY + LONERS)
    held = [
        *((user, "bread") for user in range(ALONE + TOGETHER)),
        *((user, "milk") for user in together),
        *((user, f"rare {user % 19}") for user in together),
        *((user, f"rare {number % 13}") for number, user in enumerate(heavy)),
        *((user, f"{LONE} {user}") for user in loners),
    ]
    return pa.table({"user": [int(user) + FIRST_USER for user, _ in held], "item": [name for _, name in held]})


def _sums() -> set[int]:
    """The exact sums of bread and milk in the first round, in steps of weights; no unit that has them is truncated."""
    weight = math.isqrt((1 << 2 * WEIGHT_BITS) // 3)
    return {(ALONE << WEIGHT_BITS) + TOGETHER * weight, TOGETHER * weight}


@cache
def canaries_of(shape: str) -> Canaries:
    """What must not get out of this dataset."""
    parts = data(shape)
    counts = {len(part) for part in parts} | {sum(len(part) for part in parts)}
    if shape == "table":
        cells = {part for parts in (SEX, WORK, HOME) for part in parts.values()}
        counts |= cells | {PEOPLE, SECOND_ROWS} | _pairs(_people().slice(0, PEOPLE))
        return Canaries((UNIT, WORD), tuple(sorted(count for count in counts if count >= 10_000)))
    if shape == DISCOVERED:
        counts |= {ALONE, TOGETHER, ALONE + TOGETHER, SHOPPERS + HEAVY + LONERS} | _sums()
        return Canaries((str(FIRST_USER)[:9], LONE), tuple(sorted(count for count in counts if count >= 10_000)))
    (_, first), (start, stop) = POPULAR
    counts |= {SHOPPERS, first, stop - start, first - start, 12_007}
    return Canaries((str(FIRST_USER)[:9], str(ITEM)), tuple(sorted(counts)))


def _pairs(people: pa.Table) -> set[int]:
    """Exact cells of two attributes."""
    names = people.column_names[1:]
    grouped = [people.group_by([left, right]).aggregate([([], "count_all")])
               for index, left in enumerate(names) for right in names[index + 1 :]]  # fmt: skip
    return {count for table in grouped for count in table["count_all"].to_pylist()}
