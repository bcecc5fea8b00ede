"""marquee warm"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from jobs import log
from jobs.options import AsJson, echo_result
from jobs.wording import number_of

if TYPE_CHECKING:
    from dpcore.mechanisms.api import Progress

_PEOPLE, _USERS, _FILMS, _PAIRS = 3_000, 600, 40, 6_000
_TABLE = "shape: table, unit: person_id, schema: table.schema.yaml"
_BASKETS = (
    f"shape: baskets, unit: user_id, item: movie_id, items: {_FILMS}, max_items_per_unit: 10, clustered_by_unit: true"
)
_RELEASES = (
    ("table", _TABLE, _PEOPLE, "marginals: {order: 3, attributes: [age, sex, schooling, marital, children]}"),
    ("table", _TABLE, _PEOPLE, "conjunctions: {count: 50, order: 2, negations: random}"),
    ("table", _TABLE, _PEOPLE, "parities: {order: 2, attributes: [sex, owns_home, marital]}"),
    ("table", _TABLE, _PEOPLE, "products: [{attributes: {age: prefix, sex: each_and_total}}]"),
    ("table", _TABLE, _PEOPLE, "marginals: {order: 2, attributes: [sex, owns_home]}"),
    ("baskets", _BASKETS, _USERS, "conjunctions: {count: 50, order: 3, weights: noisy_popularity}"),
    ("baskets", _BASKETS, _USERS, "itemsets: {order: 3, top: 20}"),
)
"""For each release: its dataset, the rest of the section ``dataset``, the public number of units, and a workload."""

_DENSE = ("table", _TABLE, _PEOPLE, "marginals: {order: 3, attributes: all, max_cells: 2000}")
"""A release of the same form, whose workload gives models with cycles when the budget is large."""

_SIGNED = ("baskets", _BASKETS, _USERS, "conjunctions: {count: 900, order: 3, negations: random}")
"""Enough queries for predictions of clipped answers from each other, by one order and by all orders."""

_CONFIG = """\
version: 1
dataset: {{name: {release}, snapshot: warm, path: {folder}/{dataset}, {section}}}
privacy: {{epsilon: {epsilon}, delta: {delta}, units: {units}, ledger: "sqlite:///{folder}/{release}.db"}}
workload: {{{workload}}}
mechanism: {{name: {mechanism}}}
output: {{path: {folder}/{release}}}
"""


def warm(as_json: AsJson = False) -> None:
    """Compile all numerical kernels now, so that no later release waits for compilation.

    Every mechanism makes small releases of generated data in a temporary folder. The compiled kernels are stored beside
    the installed packages, or in the user's cache folder if the installation is read-only, and later processes load
    them from there.

    Examples:

        marquee warm
    """
    from dpcore.compiled import COUNTS
    from jobs.progress import bar

    with tempfile.TemporaryDirectory() as name, bar("small releases") as report, log.quiet():
        folder = Path(name)
        _write_data(folder)
        configs = list(_configs(folder))
        for done, config in enumerate(configs):
            report(done, len(configs))
            _release(config)
        report(len(configs), len(configs))
    compiled, loaded = COUNTS["compiled"], COUNTS["loaded"]
    text = f"{number_of(compiled, 'kernel')} compiled, {loaded:,} found in the cache"
    echo_result(as_json, {"compiled": compiled, "loaded": loaded}, text)


def _write_data(folder: Path) -> None:
    from pipelines.generate.baskets import write_baskets
    from pipelines.generate.table import write_table

    write_table(folder / "table", rows=_PEOPLE, files=1, seed=1)
    write_baskets(folder / "baskets", users=_USERS, films=_FILMS, pairs=_PAIRS, files=1, seed=1)


def _configs(folder: Path) -> Iterator[Path]:
    """Writes a config per mechanism, workload and kind of budget; ``_release`` skips combinations that do not fit."""
    from dpcore.mechanisms.registry import MECHANISMS

    choices = [*product(MECHANISMS, _RELEASES, [(0.2, 1e-6), (0.2, 0)])]
    choices += [("aim", _DENSE, (10, 1e-6)), ("clipped_gaussian", _SIGNED, (0.2, 1e-6))]
    for number, (mechanism, (dataset, section, units, workload), (epsilon, delta)) in enumerate(choices):
        release = f"release-{number}"
        path = folder / f"{release}.yaml"
        path.write_text(
            _CONFIG.format(
                folder=folder.as_posix(),
                release=release,
                dataset=dataset,
                section=section,
                units=units,
                epsilon=epsilon,
                delta=delta,
                workload=workload,
                mechanism=mechanism,
            ),
            encoding="utf-8",
        )
        yield path


def _release(config: Path) -> None:
    """Makes the release if the mechanism accepts the workload and the budget."""
    from dpcore.errors import ConfigError, UnprovedError
    from jobs.ledger import SqlLedger
    from jobs.planning.job import load_job
    from jobs.release.run import release

    try:
        job = load_job(config)
    except (ConfigError, UnprovedError):
        return
    privacy = job.config.privacy
    SqlLedger(privacy.ledger).create_dataset(job.config.dataset.name, privacy.epsilon, privacy.delta)
    release(job, progress=_no_bar)


@contextmanager
def _no_bar(label: str) -> Iterator[Progress]:
    yield lambda done, total: None
