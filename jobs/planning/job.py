"""A job: everything public about a release, built from its config and schema before any data are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from dpcore.domain import BinaryView
from dpcore.errors import ConfigError, MarqueeError
from dpcore.kernel.budget import Budget, Currency
from dpcore.kernel.conversion import budget_of
from dpcore.kernel.item_threshold import without_threshold_delta
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_items import DiscoveredItems, ItemTerms
from dpcore.kernel.sensitivity import Neighbours, PrivacyUnit
from dpcore.mechanisms.additive_noise import Gaussian
from dpcore.mechanisms.api import Mechanism, Plan
from dpcore.mechanisms.clipping.popularity import check_popularity
from dpcore.mechanisms.continual.continual import Continual
from dpcore.mechanisms.continual.series import answered_at
from dpcore.mechanisms.recommendation import Recommendation, recommended
from dpcore.mechanisms.registry import MECHANISMS
from dpcore.workload import Workload
from jobs.config import LARGEST_EPSILON, Config, MechanismChoice, Privacy, load_config
from jobs.config.release import RECOMMENDED
from jobs.mechanisms import mechanism_of
from jobs.objects.output import Output, output_of
from jobs.planning.dataset import check_readable, layout_of
from jobs.planning.discovery import check_discovery, discovery_share, item_terms, named, threshold_delta_of
from jobs.planning.engines import check_engine
from jobs.planning.identity import Identity, identity_of, series_id
from jobs.planning.partition import check_neighbours
from jobs.planning.paths import with_absolute_output, with_absolute_paths
from jobs.planning.public_prior import takers_text, with_public
from jobs.planning.series import SeriesFacts, number_of_steps
from jobs.planning.smallest_budget import plan_within_budget
from jobs.planning.statistics_store import check_incremental, check_store_folder
from jobs.planning.work import Work, work_of
from jobs.workload.building import workload_of
from jobs.workload.item_files import KEY as ITEM_LIST
from jobs.workload.item_files import item_names_of
from jobs.workload.public_files import PublicFiles, read_public_files
from pipelines.item_names import ItemNames
from pipelines.layout import Layout, TableLayout
from pipelines.schema import Schema, load_schema


@dataclass(frozen=True, eq=False)
class Job:
    """One release, ready to run. Public.

    config: The config of the release, with absolute paths.
    layout: The public layout of the data.
    mechanism: The mechanism with its settings.
    unit: The privacy unit: neighbours, contribution bound and, if it is public, the number of units.
    budget: The whole budget of the release, which the ledger is charged.
    popularity: Part of the budget that measures noisy popularity before the mechanism starts; None without it.
    rest: Part of the budget that the mechanism spends. ``popularity``, ``rest`` and the budget of ``discovery`` add up
        to ``budget``.
    files: Content of the public files that the workload names.
    stand_in: The workload. If noisy popularity will choose the queries, a workload of the same size stands in for it.
    plan: The mechanism's plan for ``stand_in``.
    work: What the release costs the driver at least.
    identity: What makes another release the same as this one.
    series: The series that the release is a step of; None for a release that stands alone.
    discovery: How the items are discovered before anything else; None if they are known.
    items: The discovered items, once they are.
    """

    config: Config
    layout: Layout
    mechanism: Mechanism
    unit: PrivacyUnit
    budget: Budget
    popularity: Budget | None
    rest: Budget
    files: PublicFiles
    stand_in: Workload
    plan: Plan
    work: Work
    identity: Identity
    series: SeriesFacts | None = None
    discovery: ItemTerms | None = None
    items: DiscoveredItems | None = None

    @property
    def threshold_delta(self) -> Fraction:
        """How much of delta the threshold of a discovery takes; 0 without one."""
        return Fraction(0) if self.discovery is None else self.discovery.threshold_delta

    def with_items(self, items: DiscoveredItems) -> Job:
        """The release after its items have been discovered: its layout, its workload and its plan follow from them.

        Raises: ConfigError when there are too few items for the workload.
        """
        if not items.names:
            raise ConfigError(
                "no item is above the threshold, and the budget was spent on finding that out; want a larger epsilon, "
                "or a smaller max_items_per_unit"
            )
        layout = named(self.layout, ItemNames.of([name.decode() for name in items.names]))
        weights = np.maximum(items.values - 2 * items.stddevs, 0.0)
        conjunctions = self.config.workload.conjunctions
        by_weight = conjunctions is not None and conjunctions.share_before_mechanism > 0
        workload = workload_of(self.config, layout, self.files, weights if by_weight else None)
        plan = self.mechanism.plan(PrivacyTerms(self.unit, self.rest), workload)
        return replace(self, layout=layout, stand_in=workload, plan=plan, items=items)

    @property
    def answered(self) -> Workload:
        """The queries that the release answers: ``stand_in``, or at a step of a series those of it that end there."""
        if self.series is None:
            return self.stand_in
        return answered_at(self.stand_in, self.series.attribute, self.series.step - 1)

    @property
    def release_id(self) -> str:
        """SHA-256 of the release's public facts."""
        return self.identity.release_id

    @property
    def output(self) -> Output:
        """The release's folder: an absolute path, or a folder in an object store."""
        return output_of("output.path", self.config.output.path)


def load_job(path: Path | str, settings: Sequence[str] = ()) -> Job:
    """Reads a config file and every public file that it names. No private data are read.

    path: The config file.
    settings: Keys that are set in place of the file's, as ``KEY=VALUE``.

    Raises: The exceptions of ``job_of``; ConfigError when the file is not a valid config.
    """
    return job_of(load_config(path, settings), Path(path).parent, str(path))


def job_of(config: Config, folder: Path, name: str = "", schema: Schema | None = None) -> Job:
    """Builds the job that a config describes.

    config: The config, whose keys have been checked one by one.
    folder: The config's folder, to which all paths in the config are relative.
    name: Name of the config file, with which error messages begin.
    schema: The schema of a table, in place of the file that dataset.schema names.

    Raises: ConfigError when keys contradict each other or a public file is invalid; UnprovedError when no proof covers
        the combination; DomainTooLargeError when the release would not fit in memory.
    """
    with _naming(name):
        config = with_absolute_paths(config, folder)
        check_engine(config.engine)
        check_incremental(config.engine, config.dataset)
        check_readable(config.dataset, config.engine)
        check_discovery(config)
    if schema is None and config.dataset.table_schema:
        schema = load_schema(config.dataset.table_schema)
    names = item_names_of(config.dataset)
    with _naming(name):
        config = _with_recommended(config, schema, names)
        mechanism = _mechanism(config)
        _check_synthetic_rows(config, mechanism)
        layout = _layout(config, mechanism, schema, names)
        mechanism, public = with_public(config.mechanism, mechanism, layout, config.dataset.root)
        check_neighbours(config.dataset, config.privacy)
        unit = _unit(config, layout)
        budget = _budget(config, currency_of(config.privacy, mechanism))
        popularity, rest = _split_budget(config, budget)
        discovery = item_terms(config, unit, budget)
    files = read_public_files(config.workload, layout)
    if names is not None:
        files = replace(files, digests={**files.digests, ITEM_LIST: names.digest})
    files = replace(files, digests={**files.digests, **public})
    with _naming(name):
        stand_in = workload_of(config, layout, files)
        plan = plan_within_budget(
            mechanism,
            stand_in,
            partial(terms_at, config, mechanism, unit, layout.view),
            config.privacy.epsilon,
            LARGEST_EPSILON,
        )
        series = _series(config, mechanism, layout, PrivacyTerms(unit, rest), stand_in)
        work = work_of(plan, stand_in.requested.size, _synthetic_units(config, mechanism, unit), layout)
    identity = identity_of(config, schema, files.digests)
    if series is not None:
        series = replace(series, series_id=series_id(config, schema, files.digests))
    with _naming(name):
        config = with_absolute_output(config, folder, identity.release_id)
        check_store_folder(config)
    return Job(
        config,
        layout,
        mechanism,
        unit,
        budget,
        popularity,
        rest,
        files,
        stand_in,
        plan,
        work,
        identity,
        series,
        discovery,
    )  # fmt: skip


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Puts the name of the config file before the message of an error about its keys."""
    try:
        yield
    except MarqueeError as error:
        if name:
            error.args = (f"{name}: {error}",)
        raise


def _with_recommended(config: Config, schema: Schema | None, names: ItemNames | None) -> Config:
    """The config with the name of a mechanism in place of ``recommended``, so that the release id holds the name."""
    choice = config.mechanism
    if choice.name != RECOMMENDED:
        return config
    limits = {key: value for key, value in choice.settings.items() if key == "max_work"}
    if others := [key for key in choice.settings if key not in limits]:
        raise ConfigError(
            f"mechanism: recommended has no settings but max_work; want no {others[0]}, or the name of a mechanism"
        )
    if choice.public is not None:
        raise ConfigError(f"mechanism: recommended takes no public table; want {takers_text()} by name")
    advice = _recommended(config, schema, names)
    if not hasattr(MECHANISMS[advice.name], "max_work"):
        limits = {}  # Its work is bounded already.
    chosen = MechanismChoice(name=advice.name, **advice.settings, **limits)
    return config.model_copy(update={"mechanism": chosen})


def _recommended(config: Config, schema: Schema | None, names: ItemNames | None) -> Recommendation:
    """The mechanism that is recommended for the accounting which ``accounting: auto`` chooses for that mechanism."""
    layout = layout_of(config.dataset, schema, names)
    workload = workload_of(config, layout, read_public_files(config.workload, layout))
    unit, rows = _unit(config, layout), config.output.synthetic_rows
    mechanism: Mechanism = Gaussian()  # Most that are recommended share its accounting.
    for _ in range(2):
        budget = _split_budget(config, _budget(config, currency_of(config.privacy, mechanism)))[1]
        advice = recommended(PrivacyTerms(unit, budget), workload, rows=isinstance(rows, int) and rows > 0)
        mechanism = advice.mechanism
    return advice


def _mechanism(config: Config) -> Mechanism:
    mechanism = mechanism_of(config.mechanism)
    if config.series is not None and isinstance(mechanism, Continual):
        return mechanism.at_step(config.series.step - 1)
    return mechanism


def _layout(config: Config, mechanism: Mechanism, schema: Schema | None, names: ItemNames | None) -> Layout:
    """The layout. In a series, units keep the rows of their first steps, so that a later step displaces none."""
    layout = layout_of(config.dataset, schema, names)
    if config.series is not None and isinstance(mechanism, Continual) and isinstance(layout, TableLayout):
        return replace(layout, earliest=mechanism.attribute)
    return layout


def _series(
    config: Config, mechanism: Mechanism, layout: Layout, terms: PrivacyTerms, workload: Workload
) -> SeriesFacts | None:
    """The series of a release, still without its id; None for a release that stands alone."""
    if config.series is None or not isinstance(mechanism, Continual) or not isinstance(layout, TableLayout):
        return None
    steps = number_of_steps(layout.schema.domain, mechanism.attribute)
    digest, matrix = mechanism.series_digest(terms, workload), mechanism.planned_strategy(terms, workload).to_text()
    return SeriesFacts("", config.series.step, steps, mechanism.attribute, digest, matrix)


def _unit(config: Config, layout: Layout) -> PrivacyUnit:
    units = config.privacy.units
    return PrivacyUnit(
        Neighbours(config.privacy.neighbours), layout.contribution, None if isinstance(units, str) else units
    )


def currency_of(privacy: Privacy, mechanism: Mechanism) -> Currency:
    """The currency in which the release is accounted.

    Under ``accounting: auto`` the mechanism decides. A mechanism that mostly adds Gaussian noise needs up to a fifth
    less noise in Gaussian DP than in zCDP, but a selection costs up to pi/2 times as large a share of the budget.

    privacy: The section ``privacy`` of the config.
    mechanism: The mechanism of the release.
    """
    if privacy.accounting == "auto":
        gaussian = Currency.GDP if mechanism.traits.mostly_gaussian else Currency.ZCDP
        return Currency.PURE if privacy.delta == 0 else gaussian
    return {"pure": Currency.PURE, "zcdp": Currency.ZCDP, "gdp": Currency.GDP}[privacy.accounting]


def _budget(config: Config, currency: Currency) -> Budget:
    privacy = config.privacy
    try:
        return budget_of(*without_threshold_delta(privacy.epsilon, privacy.delta, threshold_delta_of(config)), currency)
    except ValueError as error:
        raise ConfigError(
            f"privacy.epsilon is {privacy.epsilon:g} and privacy.delta is {privacy.delta:g}, for which no budget in "
            f"{currency} can be computed; want a delta of 0 or at least 1e-300, and a larger epsilon"
        ) from error


def _split_budget(config: Config, budget: Budget) -> tuple[Budget | None, Budget]:
    """Splits the budget into the part for noisy popularity, if there is one, and the part for the mechanism.

    A discovery takes its share first. Its noisy sums then serve as popularity.
    """
    conjunctions, discovered = config.workload.conjunctions, discovery_share(config)
    if discovered:
        return None, Budget(budget.currency, (1 - discovered) * budget.amount)
    share = Fraction(str(conjunctions.share_before_mechanism)) if conjunctions is not None else Fraction(0)
    if not share:
        return None, budget
    popularity = Budget(budget.currency, share * budget.amount)
    return popularity, Budget(budget.currency, budget.amount - popularity.amount)


def terms_at(config: Config, mechanism: Mechanism, unit: PrivacyUnit, view: BinaryView, epsilon: float) -> PrivacyTerms:
    """The terms of the mechanism if the release had another epsilon.

    Raises: ValueError when there is no such budget, or its part for noisy popularity is too small to measure it.
    """
    target = without_threshold_delta(epsilon, config.privacy.delta, threshold_delta_of(config))
    popularity, rest = _split_budget(config, budget_of(*target, currency_of(config.privacy, mechanism)))
    if popularity is not None:
        check_popularity(PrivacyTerms(unit, popularity), view, Fraction(1))
    return PrivacyTerms(unit, rest)


def _synthetic_units(config: Config, mechanism: Mechanism, unit: PrivacyUnit) -> int | None:
    """The number of synthetic units that a release will write; None if it follows from a noisy number."""
    if not mechanism.traits.gives_rows(mechanism):
        return 0
    rows = config.output.synthetic_rows
    return rows if isinstance(rows, int) else unit.units


def _check_synthetic_rows(config: Config, mechanism: Mechanism) -> None:
    rows = config.output.synthetic_rows
    if isinstance(rows, int) and rows > 0 and not mechanism.traits.gives_rows(mechanism):
        without = mechanism.traits.no_rows_where
        instead = f"another mechanism.{without[0]} than {without[1]}" if without else "another mechanism"
        raise ConfigError(
            f"output.synthetic_rows is {rows}, but mechanism {config.mechanism.name} fits no model to draw rows from; "
            f"want auto or 0, or {instead}"
        )
