"""PrivBayes: a Bayesian network. Half of the budget selects its structure, and half of it measures its tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
class PrivBayesConstants:
    """The constants of ``PrivBayes`` and ``PrivBayesPgm``.

    score: Score of a family in a selection: "r", the total variation distance from independence, which a single row
        changes least (2017), or "mutual_information" (2014).
    structure_share: Part of the budget, apart from ``total_share``, that selects the structure.
    total_share: Share of the whole budget that measures the number of rows, on which theta-usefulness depends, if that
        number is private.
    """

    score: Literal["r", "mutual_information"] = "r"
    structure_share: float = 0.5
    total_share: float = 0.02


@dataclass(frozen=True)
class _PrivBayes(ABC):
    """The settings, structure and measurements that PrivBayes and PrivBayes+PGM share."""

    usefulness: float = 4.0
    max_parents: int = 5
    max_model_mb: float = 80.0
    constants: PrivBayesConstants = field(default=PrivBayesConstants(), init=False, repr=False)

    name: ClassVar[str]
    retired: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("score", "structure_share", "total_share"), "it is a constant now; leave it out"
    )

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        queries = self._checked_marginals(workload)
        names, shares = modelled(queries), self._shares(terms, queries)
        stddev = stddev_of(terms, queries.only([names[:1]]), shares.measure / len(names))
        steps = [Step("measure joint tables of families, at most", float(shares.measure), len(names), stddev)]
        if shares.structure:
            steps.insert(0, Step("select families, at most", float(shares.structure), len(names) - 1))
        if shares.total:
            total_stddev = stddev_of(terms, queries.only([()]), shares.total)
            steps.insert(0, Step("measure rows", float(shares.total), 1, total_stddev))
        notes = ["all attributes count equally, whatever the cliques and weights of the workload"]
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
        queries = self._checked_marginals(workload)
        domain, names, shares = queries.domain, modelled(queries), self._shares(private.terms, queries)
        rows, total_measured = (
            row_total(private, domain, shares.total) if shares.total else (public_total(private.terms), [])
        )
        network = [Family(names[generator.integers(len(names))], ())]
        remaining_share = 1 - shares.total
        if rows is not None and len(names) > 1:
            limits = self._limits(private.terms, queries, rows, shares)
            while len(network) < len(names):
                progress(len(network), len(names))
                families = candidates(domain, network, names, limits)
                if len(families) > 1:
                    remaining_share -= shares.per_selection
                    network.append(self._select_family(private, domain, families, shares.per_selection))  # SELECT
                else:
                    network += families
        cliques = maximal(domain, [family.names for family in network])
        share_per_table = remaining_share / len(cliques)
        measured = [private.measure(queries.only([clique]), share_per_table) for clique in cliques]  # MEASURE
        total = rows_of(private.terms, domain, [*total_measured, *measured])
        model = self._model(domain, network, measured, total)  # ESTIMATE
        progress(len(names), len(names))
        return Release(workload, of_model(model.answer(workload.queries)), model, (*total_measured, *measured))

    @abstractmethod
    def _model(
        self, domain: Domain, network: Sequence[Family], measured: Sequence[Measurement], total: float
    ) -> GraphicalModel:
        """The model, from measurements of the joint tables of the maximal families, one table each."""

    def _select_family(
        self, private: PrivateStatistics, domain: Domain, families: Sequence[Family], share: Fraction
    ) -> Family:
        """Selects the next family by the exponential mechanism."""
        children = tuple(family.child for family in families)
        score = RScore(children) if self.constants.score == "r" else MutualInformation(children)
        return families[private.select(Marginals(domain, tuple(family.names for family in families)), score, share)]

    def _limits(self, terms: PrivacyTerms, queries: Marginals, rows: float, shares: _Shares) -> Limits:
        """Families are theta-useful: a cell holds at least theta times the mean absolute noise, on average over cells.

        The noise is that of tables of all families, each measured with an equal share.

        Source: Zhang et al. (2017), theta-usefulness.
        """
        names = modelled(queries)
        scale = terms.measure_scale(queries.only([names[:1]]), shares.measure / len(names))
        cells = rows / (self.usefulness * mean_absolute_noise(terms.noise, scale))
        return Limits(cells, self.max_parents, int(self.max_model_mb * CELLS_IN_MB))

    def _shares(self, terms: PrivacyTerms, queries: Marginals) -> _Shares:
        attributes = len(modelled(queries))
        if attributes == 1:
            return _Shares(Fraction(0), Fraction(0), Fraction(1), Fraction(0))
        total = total_share(terms, Fraction(self.constants.total_share))
        structure = (1 - total) * Fraction(self.constants.structure_share)
        return _Shares(total, structure, 1 - total - structure, structure / (attributes - 1))

    def _checked_marginals(self, workload: Workload) -> Marginals:
        """The marginals of the workload. Raises ConfigError for other workloads and for settings out of range."""
        check_model_size(self.max_model_mb)
        if not (0 < self.usefulness < float("inf") and self.max_parents >= 0):
            given = f"usefulness {self.usefulness:g}, max_parents {self.max_parents}"
            raise ConfigError(f"mechanism.{given}; want usefulness > 0, max_parents >= 0")
        return table_marginals(workload, self.name)


@final
@dataclass(frozen=True)
class PrivBayes(_PrivBayes):
    """A Bayesian network: half of the budget selects its structure, and half of it measures its tables.

    The structure grows from a random attribute. In each round the exponential mechanism selects a family: a new
    attribute with parents among the earlier attributes, scored by how strongly the attribute depends on these parents.
    Then the joint table of every family is measured, unless another family contains it. Negative cells are clipped to
    0, and the tables are normalised to conditional distributions, which are uniform for parents without a count. Of the
    workload the mechanism uses the attributes alone, not the cliques or their weights.

    Rows and answers have the exact distribution of the network; no answer is computed from sampled rows.

    usefulness: theta > 0, the minimum ratio of the average count of a cell to the mean absolute noise. A smaller value
        allows larger families with noisier tables; 4 is the published choice.
    max_parents: Maximum number of parents of an attribute, at least 0, whatever ``usefulness`` allows.
    max_model_mb: Maximum size of the network's junction tree, in MiB. Parents that would make it larger are not
        candidates. The default is MAX-SIZE of McKenna's thesis, as for AIM.

    Guarantee: the budget's, by adaptive composition of the kernel's selections and measurements.

    Source: Zhang, Cormode, Procopiuc, Srivastava and Xiao, "PrivBayes" (SIGMOD 2014; TODS 2017). Attributes with many
    values are used as they are: there is no binary encoding and no taxonomy.
    """

    traits: ClassVar[Traits] = Traits(
        name="priv_bayes",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        graphical=True,
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
    """PrivBayes+PGM: the settings, structure and measurements of ``PrivBayes``, and a graphical model fitted to them.

    Source: thesis of McKenna (2022), section 4.5.
    """

    traits: ClassVar[Traits] = Traits(
        name="priv_bayes_pgm",
        answers=("marginals", "products"),
        shapes=("table",),
        rows=True,
        graphical=True,
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
    """Shares of the whole budget.

    total: Share of the number of rows.
    structure: Share of all selections together.
    measure: Share of the tables. They also get what rounds with a single candidate, which select nothing, do not spend.
    per_selection: Share of one selection.
    """

    total: Fraction
    structure: Fraction
    measure: Fraction
    per_selection: Fraction


def conditional(domain: Domain, family: Family, tables: dict[Clique, NDArray[np.float64]]) -> NDArray[np.float64]:
    """p(child | parents) from the smallest table that contains the family.

    tables: Non-negative counts, one array of shape ``domain.shape(clique)`` per clique.

    Returns an array whose axes are the family's attributes in the order of the domain; uniform for parents without a
    count.
    """
    names = domain.canonical(family.names)
    clique = min((clique for clique in tables if set(names) <= set(clique)), key=domain.size)
    joint = tables[clique].sum(axis=tuple(axis for axis, name in enumerate(clique) if name not in names))
    counts = joint.sum(axis=names.index(family.child), keepdims=True)
    uniform = np.full(joint.shape, 1 / domain.size((family.child,)))
    return np.asarray(np.divide(joint, counts, out=uniform, where=counts > 0))


def _clique(measurement: Measurement) -> Clique:
    """The clique of a measurement of one marginal."""
    assert isinstance(measurement.queries, Marginals)
    return measurement.queries.cliques[0]
