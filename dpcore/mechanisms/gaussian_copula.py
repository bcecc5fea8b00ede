"""A Gaussian copula within each class: rows of tables in which many ordered attributes depend on each other at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Final, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import BinaryView, Clique, Domain
from dpcore.errors import ConfigError, DomainTooLargeError
from dpcore.estimation.copula import Copula, class_correlations, class_values, median_split
from dpcore.estimation.record_model import RecordModel
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.measurement import Measurement, noise_stddev
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.shared.pgm_common import check_names_attribute, modelled, table_marginals, uniform_note
from dpcore.mechanisms.shared.totals import public_total
from dpcore.queries import Marginals, Product, Products
from dpcore.uncertainty import of_model
from dpcore.workload import Workload

_MAX_CELLS: Final = 1 << 26  # Of the exact tables of all attributes and pairs.
_MAX_BITS: Final = 1 << 27  # Of the records of the model, one-hot.
_MIN_RECORDS, _MAX_RECORDS = 1_000, 100_000
_STEPS: Final = 3  # Of the progress.


@dataclass(frozen=True)
class GaussianCopulaConstants:
    """values_share: Share of the counts of values; the rest is for dependence. ``dpcore/decisions/copula.md`` says why.
    """  # fmt: skip

    values_share: float = 0.4


@final
@dataclass(frozen=True)
class GaussianCopula:
    """Measures each attribute and each pair of attributes within each class, and draws rows from Gaussian copulas.

    Choose it for rows from which classifiers or regressions are learnt, where many ordered attributes, such as numbers
    in bins, depend on each other at once: a graphical model of limited size must leave most of their dependence out. Of
    each pair one number is measured: in how many rows both attributes are on the same side of their medians. Dependence
    of another form than a monotone one is lost, and so are categories without an order and what three attributes have
    in common: for tables of few attributes, or of categories, ``aim`` is better.

    classes: The attribute within whose values everything is measured, such as the label that a classifier shall
        predict. By default it is the attribute that all marginals of the workload share, as with
        ``workload.marginals.target``; without one there is a single class.

    The released model is a list of drawn rows, and the answers are those of the rows.

    Guarantee: the budget's, by adaptive composition of the kernel's two measurements.

    Source: this project. Copulas for private rows: Li, Xiong and Jiang, "Differentially private synthesization of
    multi-dimensional data using copula functions" (2014), which measures rank correlations and has no classes.
    """

    traits: ClassVar[Traits] = Traits(
        name="gaussian_copula",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        mostly_gaussian=True,
        recommended_for="rows of many ordered attributes that depend on each other at once",
    )

    classes: str | None = None
    constants: GaussianCopulaConstants = field(default=GaussianCopulaConstants(), init=False, repr=False)

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        design = self._design(workload)
        values_share, pairs_share = self._shares(design)
        stddevs = [noise_stddev(terms.noise, terms.measure_scale(design.one_way, values_share))]
        steps = [Step("measure attributes within classes", float(values_share), 1, stddevs[0])]
        if design.pairs:
            pairs = design.products([1] * len(design.ordered))
            stddevs.append(noise_stddev(terms.noise, terms.measure_scale(pairs, pairs_share)))
            steps.append(Step("measure sides of pairs within classes", float(pairs_share), 1, stddevs[1]))
        records_bytes = _records(design, _MAX_RECORDS) * (4 * sum(design.domain.sizes) + 40 * len(design.domain.names))
        memory = 16 * design.cells + 160 * design.class_count * len(design.pairs) + records_bytes
        within = f"within the {design.class_count} values of {design.label}" if design.label else "in a single class"
        notes = (f"dependence is that of ordered values, {within}", *uniform_note(design.queries))
        events = tuple(terms.measured(Fraction(step.share)) for step in steps)
        return Plan(tuple(steps), 0, memory, None, notes, events)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        design = self._design(workload)
        values_share, pairs_share = self._shares(design)
        measured = [private.measure(design.one_way, values_share)]  # MEASURE
        progress(1, _STEPS)
        sizes, values = _class_values(design, measured[0])  # ESTIMATE
        splits = [median_split(sizes @ table) if table.shape[1] > 1 else 1 for table in values]
        if design.pairs:
            measured.append(private.measure(design.products(splits), pairs_share))  # MEASURE
        progress(2, _STEPS)
        correlations = _correlations(design, values, splits, sizes, measured[1:])  # ESTIMATE
        public = public_total(private.terms)
        total = max(1.0, float(sizes.sum())) if public is None else public
        copula = Copula(sizes / sizes.sum(), tuple(values), correlations)
        model = _model(design, copula, total, generator)
        progress(_STEPS, _STEPS)
        return Release(workload, of_model(model.answer(workload.queries)), model, tuple(measured))

    def _shares(self, design: _Design) -> tuple[Fraction, Fraction]:
        """Shares of the attributes and of the pairs."""
        share = Fraction(self.constants.values_share) if design.pairs else Fraction(1)
        return share, 1 - share

    def _design(self, workload: Workload) -> _Design:
        """What is measured, from public facts alone.

        Raises ConfigError for a workload without an attribute, or a class that it does not name, and
        DomainTooLargeError where attributes and pairs have too many cells.
        """
        queries = table_marginals(workload, "gaussian_copula")
        check_names_attribute(queries.cliques, "gaussian_copula")
        names = modelled(queries)
        label = _shared_attribute(queries) if self.classes is None else self.classes
        if label is not None and label not in names:
            raise ConfigError(f"mechanism.classes is {label!r}; want an attribute that the workload names")
        design = _Design(queries, label, tuple(name for name in names if name != label))
        if design.cells > _MAX_CELLS:
            advice = "choose fewer attributes or fewer bins, another attribute for mechanism.classes, or clique_tree"
            raise DomainTooLargeError("the tables of mechanism gaussian_copula", design.cells, _MAX_CELLS, advice)
        return design


@dataclass(frozen=True)
class _Design:
    """The queries, from public facts alone.

    queries: The marginals of the workload. label: The attribute of the classes, if any. ordered: All other attributes
    that the workload names.
    """

    queries: Marginals
    label: str | None
    ordered: Clique

    @property
    def domain(self) -> Domain:
        return self.queries.domain

    @property
    def class_count(self) -> int:
        return 1 if self.label is None else self.domain.size((self.label,))

    @property
    def one_way(self) -> Marginals:
        """Each attribute within the classes; the classes alone if there is no other attribute."""
        return self.queries.only([self._within(names) for names in self._single])

    @property
    def _single(self) -> list[tuple[str, ...]]:
        return [(name,) for name in self.ordered] or [()]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """All pairs of attributes that have two values or more."""
        return list(itertools.combinations(self.divided, 2))

    @property
    def divided(self) -> Clique:
        """The attributes that have two sides."""
        return tuple(name for name in self.ordered if self.domain.size((name,)) > 1)

    @property
    def cells(self) -> int:
        """Cells of all tables that are counted."""
        return sum(self.domain.size(self._within(names)) for names in [*self.pairs, *self._single])

    def products(self, splits: Sequence[int]) -> Products:
        """For each pair and class, the sum over rows of the product of two sides, -1 below a split and 1 above."""
        matrices = {}
        for name, split in zip(self.ordered, splits, strict=True):
            codes = np.arange(self.domain.size((name,)))
            matrices[name] = np.where(codes < split, -1, 1).astype(np.int64)[None]
        if self.label is not None:
            matrices[self.label] = np.eye(self.class_count, dtype=np.int64)
        cliques = [self._within(pair) for pair in self.pairs]
        return Products(self.domain, tuple(Product(c, tuple(matrices[name] for name in c)) for c in cliques))

    def _within(self, names: Sequence[str]) -> Clique:
        """The clique of these attributes and of the classes."""
        return self.domain.canonical([*names] if self.label is None else [*names, self.label])


def _shared_attribute(queries: Marginals) -> str | None:
    """The attribute that all cliques contain, if there is exactly one and any clique has others."""
    shared = set(queries.cliques[0]).intersection(*queries.cliques)
    several = any(len(clique) > 1 for clique in queries.cliques)
    return shared.pop() if len(shared) == 1 and several and len(queries.cliques) > 1 else None


def _class_values(design: _Design, measurement: Measurement) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """The estimated rows of each class, at least 1, and the probability of each value of each attribute within it."""
    assert isinstance(measurement.queries, Marginals)
    tables = []
    for clique, table in zip(measurement.queries.cliques, measurement.queries.split(measurement.values), strict=True):
        axis = clique.index(design.label) if design.label is not None else 0
        by_class = np.moveaxis(table, axis, 0) if design.label is not None else table[None]
        tables.append(np.asarray(by_class, dtype=np.float64).reshape(design.class_count, -1))
    # Each attribute's table has the classes' rows plus noise of variance proportional to its values.
    weights = [1 / table.shape[1] for table in tables]
    sizes = np.maximum(1.0, np.average([table.sum(axis=1) for table in tables], axis=0, weights=weights))
    if not design.ordered:
        return sizes, []
    return sizes, [class_values(table, sizes, measurement.stddev) for table in tables]


def _correlations(
    design: _Design,
    values: Sequence[NDArray[np.float64]],
    splits: Sequence[int],
    sizes: NDArray[np.float64],
    measured: Sequence[Measurement],
) -> NDArray[np.float64]:
    """Correlations of all attributes within each class; those of attributes of one value are 0."""
    correlations = np.broadcast_to(np.eye(len(design.ordered)), (len(sizes), len(design.ordered), len(design.ordered)))
    if not measured:
        return correlations
    axes = [design.ordered.index(name) for name in design.divided]
    below = np.stack([values[axis][:, : splits[axis]].sum(axis=1) for axis in axes], axis=1)
    products = measured[0].values.reshape(len(design.pairs), len(sizes)).T
    correlations = correlations.copy()
    correlations[:, np.array(axes)[:, None], axes] = class_correlations(below, products, sizes, measured[0].stddev)
    return correlations


def _model(design: _Design, copula: Copula, total: float, generator: Generator) -> RecordModel:
    """Drawn rows of all attributes; those that the workload does not name are uniform."""
    domain, count = design.domain, _records(design, round(total))
    classes, drawn = copula.rows(count, generator)
    rows = np.empty((count, sum(domain.sizes)), dtype=np.bool_)
    view = BinaryView.one_hot(domain)
    for name, size, (start, stop) in zip(domain.names, domain.sizes, view.groups, strict=True):
        if name == design.label:
            codes = classes
        elif name in design.ordered:
            codes = drawn[:, design.ordered.index(name)]
        else:
            codes = generator.permutation(np.arange(count, dtype=np.int32) % size)
        rows[:, start:stop] = codes[:, None] == np.arange(size)
    return RecordModel.of_rows(view, rows, total)


def _records(design: _Design, rows: int) -> int:
    """Number of records of the model: that of the rows, within what is drawn and kept at most and at least."""
    affordable = max(1, _MAX_BITS // sum(design.domain.sizes))
    return min(affordable, max(_MIN_RECORDS, min(_MAX_RECORDS, rows)))
