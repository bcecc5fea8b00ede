"""PrivBayes: a Bayesian network; half of the budget selects its structure and half measures its tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.fitting.fit import fit_model
from dpcore.estimation.graphical.fitting.linear_measurements import maximal
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.kernel.scores import MutualInformation, RScore
from dpcore.measurement import Measurement, mean_absolute_noise
from dpcore.mechanisms.api import Plan, Progress, Release, Step, Traits, silent
from dpcore.mechanisms.bayes.structure import Family, Limits, candidates
from dpcore.mechanisms.shared.pgm_common import (
    CELLS_IN_MB,
    COPIES,
    check_model_size,
    check_shares,
    modelled,
    rows_of,
    stddev_of,
    table_marginals,
    uniform_note,
)
from dpcore.mechanisms.shared.totals import public_total, row_total, total_share
from dpcore.queries import Marginals
from dpcore.uncertainty import of_model
from dpcore.workload import Workload


@dataclass(frozen=True)
class _PrivBayes(ABC):
    """What PrivBayes and PrivBayes+PGM share: structure and measurements."""

    score: Literal["r", "mutual_information"] = "r"
    structure_share: float = 0.5
    usefulness: float = 4.0
    max_parents: int = 5
    total_share: float = 0.02
    max_model_mb: float = 80.0

    name: ClassVar[str]

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = self._checked(workload)
        names, shares = modelled(queries), self._shares(terms, workload)
        marginal = stddev_of(terms, queries.only([names[:1]]), shares.measure / len(names))
        steps = [Step("measure joint tables of families, at most", float(shares.measure), len(names), marginal)]
        if shares.structure:
            steps.insert(0, Step("select families, at most", float(shares.structure), len(names) - 1))
        if shares.total:
            steps.insert(
                0, Step("measure rows", float(shares.total), 1, stddev_of(terms, _rows(queries), shares.total))
            )
        notes = ["every attribute counts as much, whatever the workload's cliques and weights"]
        if (rows := public_total(terms)) is not None and len(names) > 1:
            notes.append(
                f"families of at most {self._limits(terms, queries, rows, shares).cells:,.0f} cells are useful"
            )
        cells = min(int(self.max_model_mb * CELLS_IN_MB), queries.domain.size(names)) + sum(queries.domain.sizes)
        return Plan(tuple(steps), len(names) - 1, COPIES * 8 * cells, None, (*notes, *uniform_note(queries)))

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        self.plan(private.terms, workload)
        queries, domain = self._checked(workload), self._checked(workload).domain
        names, shares = modelled(queries), self._shares(private.terms, workload)
        rows, total_measured = (
            row_total(private, domain, shares.total) if shares.total else (public_total(private.terms), [])
        )
        network = [Family(names[generator.integers(len(names))], ())]
        left = 1 - shares.total
        if rows is not None and len(names) > 1:
            limits = self._limits(private.terms, queries, rows, shares)
            while len(network) < len(names):
                progress(len(network), len(names))
                choices = candidates(domain, network, names, limits)
                if len(choices) > 1:
                    left -= shares.a_selection
                    network.append(self._selected(private, domain, choices, shares.a_selection))  # SELECT
                else:
                    network += choices
        cliques = maximal(domain, [family.names for family in network])
        measured = [private.measure(queries.only([clique]), left / len(cliques)) for clique in cliques]  # MEASURE
        total = rows_of(private.terms, domain, [*total_measured, *measured])
        model = self._model(domain, network, measured, total)  # ESTIMATE
        progress(len(names), len(names))
        return Release(workload, of_model(model.answer(workload.queries)), model, (*total_measured, *measured))

    @abstractmethod
    def _model(
        self, domain: Domain, network: Sequence[Family], measured: Sequence[Measurement], total: float
    ) -> GraphicalModel:
        """From the joint tables of the maximal families, one a measurement."""

    def _selected(
        self, private: PrivateStatistics, domain: Domain, choices: Sequence[Family], share: Fraction
    ) -> Family:
        """The next family, by the exponential mechanism."""
        children = tuple(family.child for family in choices)
        score = RScore(children) if self.score == "r" else MutualInformation(children)
        return choices[private.select(Marginals(domain, tuple(family.names for family in choices)), score, share)]

    def _limits(self, terms: PrivacyTerms, queries: Marginals, rows: float, shares: _Shares) -> Limits:
        """theta-usefulness: a cell holds theta times the mean absolute noise on average, all families being measured.

        Source: Zhang et al. (2017), theta-usefulness.
        """
        names = modelled(queries)
        scale = terms.measure_scale(queries.only([names[:1]]), shares.measure / len(names))
        cells = rows / (self.usefulness * mean_absolute_noise(terms.noise, scale))
        return Limits(cells, self.max_parents, int(self.max_model_mb * CELLS_IN_MB))

    def _shares(self, terms: PrivacyTerms, workload: Workload) -> _Shares:
        attributes = len(modelled(self._checked(workload)))
        if attributes == 1:
            return _Shares(Fraction(0), Fraction(0), Fraction(1), Fraction(0))
        total = total_share(terms, Fraction(self.total_share))
        structure = (1 - total) * Fraction(self.structure_share)
        return _Shares(total, structure, 1 - total - structure, structure / (attributes - 1))

    def _checked(self, workload: Workload) -> Marginals:
        check_model_size(self.max_model_mb)
        check_shares([("structure_share", self.structure_share), ("total_share", self.total_share)])
        if not (0 < self.usefulness < float("inf") and self.max_parents >= 0):
            given = f"usefulness {self.usefulness:g}, max_parents {self.max_parents}"
            raise ConfigError(f"mechanism.{given}; want usefulness > 0, max_parents >= 0")
        return table_marginals(workload, self.name)


@final
@dataclass(frozen=True)
class PrivBayes(_PrivBayes):
    """A Bayesian network: half of the budget for its structure, half for its tables.

    The structure grows from a random attribute: in each round the exponential mechanism selects an attribute and its
    parents among those added before, by how much the attribute depends on them. Then the joint table of every family is
    measured, unless that of another one holds it; negative cells are clipped to 0 and the rest is normalised to
    conditional tables, uniform where nothing is left. Of the workload it only takes the attributes.

    Rows and answers have the exact distribution of the network: no answer is read off sampled rows.

    score: "r" is the distance from independence, which one row moves least; "mutual_information" that of 2014.
    structure_share: Part of the budget, but for the number of rows, that selects.
    usefulness: theta: a cell of a family holds at least so many times the mean absolute noise, on average.
    max_parents: Most parents of an attribute, usefulness apart.
    total_share: Share for the number of rows, where it is private, on which usefulness depends.
    max_model_mb: Largest junction tree of the network, in MiB: parents that would make it larger are no candidates.

    Source: Zhang, Cormode, Procopiuc, Srivastava and Xiao, "PrivBayes" (SIGMOD 2014; TODS 2017).
    Attributes of many values keep them: there is no encoding in bits and no taxonomy.
    """

    traits: ClassVar[Traits] = Traits(
        name="priv_bayes",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        mostly_gaussian=False,
        recommended_for="comparison with the published mechanism",
    )

    name: ClassVar[str] = "priv_bayes"

    def _model(
        self, domain: Domain, network: Sequence[Family], measured: Sequence[Measurement], total: float
    ) -> GraphicalModel:
        tables = {
            _clique(marginal): np.maximum(marginal.values, 0).reshape(domain.shape(_clique(marginal)))
            for marginal in measured
        }
        tree = JunctionTree.of(domain, [family.names for family in network])
        oracle = Inference(tree, [domain.canonical(family.names) for family in network])
        with np.errstate(divide="ignore"):
            logs = [np.log(conditional(domain, family, tables)).ravel() for family in network]
        return GraphicalModel(tree, oracle.conditionals(np.concatenate(logs)), total)


@final
@dataclass(frozen=True)
class PrivBayesPgm(_PrivBayes):
    """PrivBayes+PGM: the structure, measurements and settings of ``PrivBayes``, and one graphical model fitted to them.

    Source: thesis of McKenna (2022), section 4.5.
    """

    traits: ClassVar[Traits] = Traits(
        name="priv_bayes_pgm",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        mostly_gaussian=False,
        recommended_for="comparison with the published mechanism",
    )

    name: ClassVar[str] = "priv_bayes_pgm"

    def _model(
        self, domain: Domain, network: Sequence[Family], measured: Sequence[Measurement], total: float
    ) -> GraphicalModel:
        return fit_model(domain, measured, total).model


@dataclass(frozen=True)
class _Shares:
    """Of the whole budget. a_selection: For one round; what rounds of one choice leave goes to the measurements."""

    total: Fraction
    structure: Fraction
    measure: Fraction
    a_selection: Fraction


def conditional(domain: Domain, family: Family, tables: dict[Clique, NDArray[np.float64]]) -> NDArray[np.float64]:
    """p(child | parents) from the smallest table that holds the family, shape ``domain.shape`` of the canonical family.

    tables: Non-negative, shape ``domain.shape(clique)`` each. Uniform for parents without a count.
    """
    names = domain.canonical(family.names)
    clique = min((marginal for marginal in tables if set(names) <= set(marginal)), key=domain.size)
    joint = tables[clique].sum(axis=tuple(axis for axis, name in enumerate(clique) if name not in names))
    counts = joint.sum(axis=names.index(family.child), keepdims=True)
    uniform = np.full(joint.shape, 1 / domain.size((family.child,)))
    return np.asarray(np.divide(joint, counts, out=uniform, where=counts > 0))


def _clique(measurement: Measurement) -> Clique:
    """The one clique of a measurement that this mechanism asked for."""
    assert isinstance(measurement.queries, Marginals)
    return measurement.queries.cliques[0]


def _rows(queries: Marginals) -> Marginals:
    return queries.only([()])
