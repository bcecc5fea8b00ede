"""A latent-class model near measured residuals: a mixture of a few tables of independent attributes.

Every row belongs to one of K unknown classes, and its attributes are independent within the class:

    p(x) = sum over k of pi_k prod over i of theta_ki(x_i).

It sees what neither one marginal after the other nor a junction tree sees: that many attributes depend on one another
through a few causes. Its answers are consistent and non-negative, and no junction tree limits how attributes overlap.

Source: Lazarsfeld and Henry, "Latent structure analysis" (1968), for the model; this project for its fit to noisy
residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Clique
from dpcore.estimation.graphical.fitting.work import UNIT, WorkMeter
from dpcore.estimation.reconstruction.alternating_fit import ClassProblem, initial_state, products_without, sweep
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.estimation.reconstruction.shrunken import LARGEST_CLOSURE
from dpcore.queries import Marginals
from dpcore.workload import downward_closure

Real = NDArray[np.float64]
Index = NDArray[np.int64]
_SWEEPS: Final = 200  # At most.
_WORK: Final = 6 * UNIT  # Reads of all sweeps, at most.
# Reads of a sweep: for each class, cell and attribute of a set; for each pair of classes and of attributes of a set;
# for each pair of classes of a value; and in any case. Measured.
_READS: Final = (0.3, 0.3, 7.8, 380_000.0)
_PSEUDO_ROWS: Final = 1.0  # Rows of each class before anything is known; they have the noisy one-way marginals.
_START: Final = 1.0  # Standard deviation of the logits from which the fit starts.
_SMALLEST: Final = 1e-4  # Smallest noisy probability of a value, or a tenth of the mean one if that is less.


@final
@dataclass(frozen=True, eq=False)
class LatentClassModel:
    """Classes of rows with independent attributes.

    names: The attributes. Their values are numbered one after the other.
    first: int64 [attributes + 1], where the values of each attribute begin.
    table: float64 [values + 1, classes], theta, and pi in the last row.
    """

    names: tuple[str, ...]
    first: Index
    table: Real

    @classmethod
    def fitted(
        cls,
        residuals: Residuals,
        queries: Marginals,
        rows: float,
        classes: int,
        generator: Generator,
        meter: WorkMeter,
        start: LatentClassModel | None = None,
    ) -> LatentClassModel:
        """A model that is probable given the residuals.

        residuals: Of all subsets of the cliques, over the domain of the queries.
        queries: At least one marginal.
        rows: The number of rows, above 0.
        classes: How many there are, at least 1.
        generator: Draws the model from which the fit starts.
        meter: Counts the work of the fit.
        start: A model of the same attributes and as many classes, from which it starts in place of a drawn one.

        With the measured residuals y_s, as fractions of the rows, and the variances v_s of their independent noise, the
        fit minimises

            sum over sets s of |model_s - y_s|^2 / (2 v_s)
                - sum over classes k of (log pi_k + sum over i and values x of m_i(x) log theta_ki(x))

        with the noisy probabilities m_i of the attributes, as if each class had one row already. The residuals of a
        class are the products of its centred probabilities. Alternating minimisation (``alternating_fit``) goes towards
        one of the minima, up to its limits. Where no work remains, the model is the start, or has independent
        attributes.
        """
        names = queries.domain.named(queries.cliques)
        problem = _problem(residuals, queries, rows, names)
        reads = _reads_of_sweep(queries, classes)
        sweeps = int(min(_SWEEPS, min(_WORK, meter.remaining) / reads))
        if start is None:
            table = _drawn(problem, classes, generator, _START if sweeps else 0.0)
        else:
            table = start.table.copy()
        state = initial_state(problem, table)
        for _ in range(sweeps):
            meter.spend(reads)
            sweep(problem, state)
        return cls(names, problem.first, table)

    def answers(self, queries: Marginals, rows: float) -> Real:
        """The answers of marginals of these attributes, float64 [queries.size], in counts of so many rows."""
        members, begins = _members(self.names, queries.cliques)
        buffers = np.empty((2, max(queries.sizes), self.table.shape[1]))
        return rows * _answers(self.first, members, begins, self.table, buffers, np.empty(queries.size))


def reads_of_fit(queries: Marginals, classes: int) -> float:
    """The work of a fit that ends at its limits."""
    return min(_WORK, _SWEEPS * _reads_of_sweep(queries, classes))


def bytes_of_fit(queries: Marginals, classes: int) -> int:
    """Memory of a fit: the products of the largest clique for each class, and the model with its inner products."""
    values, attributes = _values(queries), len(queries.domain.named(queries.cliques))
    return 8 * classes * (2 * max(queries.sizes) + 4 * (values + 1) + classes * (attributes + 2))


def _reads_of_sweep(queries: Marginals, classes: int) -> float:
    """The work of a sweep."""
    per_cell, per_set, per_value, always = _READS
    sets, domain = _subsets(queries), queries.domain
    cells = sum(len(part) * domain.size(part) for part in sets)
    pairs = per_set * sum(len(part) ** 2 for part in sets) + per_value * _values(queries)
    return classes * per_cell * cells + classes**2 * pairs + always


def _problem(residuals: Residuals, queries: Marginals, rows: float, names: Sequence[str]) -> ClassProblem:
    """What is fitted."""
    domain, sets = queries.domain, _subsets(queries)
    first = np.concatenate([[0], np.cumsum(domain.shape(names))]).astype(np.int64)
    measured = [residuals.residual(part) for part in sets]
    targets = np.concatenate([np.empty(0), *(table.ravel() / rows for table, _ in measured)])
    precisions = np.array([rows**2 / variance for _, variance in measured])
    tables = [_probabilities(residuals, name, rows) for name in names]
    members, begins = _members(names, sets)
    order = np.argsort(members, kind="stable")
    return ClassProblem(
        first,
        members,
        begins,
        targets,
        np.cumsum([0, *map(domain.size, sets)]).astype(np.int64),
        precisions,
        _PSEUDO_ROWS * np.concatenate([*(table / table.sum() for table in tables), [1.0]]),
        np.searchsorted(begins, order, side="right").astype(np.int64) - 1,
        order.astype(np.int64),
        np.searchsorted(members[order], np.arange(len(names) + 1)).astype(np.int64),
    )


def _drawn(problem: ClassProblem, classes: int, generator: Generator, stddev: float) -> Real:
    """Classes near the pseudo-rows, float64 [values + 1, classes]: their logits have this standard deviation."""
    table = problem.pseudo_rows[:, None] * np.exp(generator.normal(0.0, stddev, (len(problem.pseudo_rows), classes)))
    sums = np.add.reduceat(table[:-1], problem.first[:-1], axis=0)
    table[:-1] /= np.repeat(sums, np.diff(problem.first), axis=0)
    table[-1] /= table[-1].sum()
    return np.asarray(table)


def _values(queries: Marginals) -> int:
    """Values of all attributes that some clique names together."""
    return sum(queries.domain.shape(queries.domain.named(queries.cliques)))


def _probabilities(residuals: Residuals, name: str, rows: float) -> Real:
    """The noisy probabilities of an attribute's values, none too small."""
    table, _ = residuals.residual((name,))
    return np.maximum(1 / table.size + table / rows, min(_SMALLEST, 0.1 / table.size))


def _subsets(queries: Marginals) -> list[Clique]:
    """The sets of attributes of two values or more below the cliques; the residuals of others are 0."""
    closure = downward_closure(queries.cliques, LARGEST_CLOSURE)
    return [subset for subset in closure if min(queries.domain.shape(subset)) > 1]


def _members(names: Sequence[str], sets: Sequence[Clique]) -> tuple[Index, Index]:
    """The attributes of all sets one after the other, and int64 [sets + 1], where each set begins among them."""
    position = {name: index for index, name in enumerate(names)}
    members = [position[name] for clique in sets for name in clique]
    begins = np.cumsum([0, *map(len, sets)])
    return np.array(members, dtype=np.int64), begins.astype(np.int64)


@compiled
def _answers(first: Index, members: Index, begins: Index, table: Real, buffers: Real, answers: Real) -> Real:
    """Fills in the probabilities of all cells of all sets, one set after the other."""
    first_answer = 0
    for index in range(len(begins) - 1):
        count = 1
        for member in range(begins[index], begins[index + 1]):
            count *= first[members[member] + 1] - first[members[member]]
        products = products_without(first, members, begins[index], begins[index + 1], -1, table, buffers)
        for cell in range(count):
            answers[first_answer + cell] = products[cell].sum()
        first_answer += count
    return answers
