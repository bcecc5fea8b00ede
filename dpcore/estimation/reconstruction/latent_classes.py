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
from itertools import pairwise
from typing import Final, final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcore.compiled import compiled
from dpcore.domain import Clique
from dpcore.estimation.graphical.fitting.work import UNIT, WorkMeter
from dpcore.estimation.reconstruction.residuals import Residuals
from dpcore.estimation.reconstruction.shrunken import LARGEST_CLOSURE
from dpcore.queries import Marginals
from dpcore.workload import downward_closure

Real = NDArray[np.float64]
Index = NDArray[np.int64]
_CLASSES: Final = 32
_CALLS: Final = 1000  # Of the objective and its gradient, at most.
_WORK: Final = 2 * UNIT  # Reads of all calls, at most.
# Reads of a call: for each class of a cell of a residual, for each logit, and in any case. Measured.
_READS: Final = (2.4, 140.0, 150_000.0)
_PSEUDO_ROWS: Final = 1.0  # Rows of each class before anything is known; they have the noisy one-way marginals.
_START: Final = 1.0  # Standard deviation of the logits from which the fit starts.
_SMALLEST: Final = 1e-4  # Smallest noisy probability of a value.
_HISTORY: Final = 20  # Steps that L-BFGS remembers.


def latent_class_answers(
    residuals: Residuals, queries: Marginals, rows: float, generator: Generator, meter: WorkMeter
) -> Real:
    """The answers of a latent-class model that is probable given the residuals, float64 [queries.size], in counts.

    residuals: Of all subsets of the cliques, over the domain of the queries.
    queries: At least one marginal.
    rows: The number of rows, above 0.
    generator: Draws the model from which the fit starts.
    meter: Counts the work of the fit, which may exceed what remains by a line search.

    With the measured residuals y_s, as fractions of the rows, and the variances v_s of their independent noise, the fit
    minimises

        sum over sets s of |model_s - y_s|^2 / (2 v_s)
            - sum over classes k of (log pi_k + sum over i and values x of m_i(x) log theta_ki(x))

    with the noisy probabilities m_i of the attributes, as if each class had one row already. The residuals of a class
    are the products of its centred probabilities. L-BFGS over logits goes towards one of the minima, and ends there or
    at its limits. Where no work remains, the attributes are independent.
    """
    fit = _LatentClassFit.of(residuals, queries, rows)
    logits = np.repeat(np.log(fit.pseudo_rows)[:, None], _CLASSES, axis=1)
    reads = _reads_of_call(len(fit.targets), fit.values)
    calls = int(min(_CALLS, min(_WORK, meter.remaining) / reads))
    if calls:
        from scipy.optimize import minimize  # Only where it is called: most plans need none.

        logits += generator.normal(0.0, _START, logits.shape)
        scratch = np.empty((2, fit.scratch_rows, _CLASSES))
        options = {"maxiter": calls, "maxfun": calls, "maxcor": _HISTORY}
        optimum = minimize(fit.objective, logits.ravel(), (scratch,), jac=True, method="L-BFGS-B", options=options)
        meter.spend(optimum.nfev * reads)
        logits = optimum.x.reshape(logits.shape)
    probabilities = np.exp(fit.logs(logits))
    members, begins = _members(fit.names, queries.cliques)
    scratch = np.empty((_scratch_rows(fit.first, members, begins), _CLASSES))
    return rows * _answers(fit.first, members, begins, probabilities, scratch, np.empty(queries.size))


def reads_of_fit(queries: Marginals) -> float:
    """The work of a fit that ends at its limits."""
    cells = sum(map(queries.domain.size, _subsets(queries)))
    return min(_WORK, _CALLS * _reads_of_call(cells, _values(queries)))


def bytes_of_fit(queries: Marginals) -> int:
    """Memory of a fit: the products of the largest clique for each class, and what L-BFGS remembers of each logit."""
    products, logits = 2 * max(queries.sizes), _CLASSES * (_values(queries) + 1)
    return 8 * (2 * _CLASSES * products + (2 * _HISTORY + 20) * logits)


def _reads_of_call(cells: int, values: int) -> float:
    """The work of a call of the objective.

    cells: Of the residuals of all sets.
    values: Of all attributes together.
    """
    per_cell, per_logit, always = _READS
    return _CLASSES * (per_cell * cells + per_logit * values) + always


@final
@dataclass(frozen=True, eq=False)
class _LatentClassFit:
    """What is fitted, as the kernels read it. Values of all attributes are numbered one after the other.

    names: The attributes that some clique names.
    first: int64 [attributes + 1], where the values of each attribute begin.
    members, begins: The attributes of all sets one after the other, and where each set begins, as ``_members`` has it.
    targets: The residuals of the sets one after the other, as fractions of the rows.
    precisions: float64 [sets], 1 / v_s with the variances v_s of the targets.
    pseudo_rows: float64 [values + 1], of each value in a class before anything is known, and of the class.
    scratch_rows: As ``_scratch_rows`` has it.
    """

    names: tuple[str, ...]
    first: Index
    members: Index
    begins: Index
    targets: Real
    precisions: Real
    pseudo_rows: Real
    scratch_rows: int

    @classmethod
    def of(cls, residuals: Residuals, queries: Marginals, rows: float) -> _LatentClassFit:
        domain, sets = queries.domain, _subsets(queries)
        names = domain.named(queries.cliques)
        first = np.concatenate([[0], np.cumsum(domain.shape(names))]).astype(np.int64)
        measured = [residuals.residual(part) for part in sets]
        targets = np.concatenate([np.empty(0), *(table.ravel() / rows for table, _ in measured)])
        precisions = np.array([rows**2 / variance for _, variance in measured])
        members, begins = _members(names, sets)
        tables = [_probabilities(residuals, name, rows) for name in names]
        pseudo_rows = _PSEUDO_ROWS * np.concatenate([*(table / table.sum() for table in tables), [1.0]])
        return cls(
            names, first, members, begins, targets, precisions, pseudo_rows, _scratch_rows(first, members, begins)
        )

    @property
    def values(self) -> int:
        return int(self.first[-1])

    def logs(self, logits: Real) -> Real:
        """Logarithms of theta, and of pi in the last row: float64 [values + 1, classes] like the logits."""
        of_classes = np.full(logits.shape[1], np.logaddexp.reduce(logits[-1]))
        return np.asarray(logits - np.vstack([self._over_values(np.logaddexp, logits[:-1]), of_classes]))

    def objective(self, logits: Real, scratch: Real) -> tuple[float, Real]:
        """What the fit minimises, and its gradient, both for raveled logits.

        scratch: Memory, float64 [2, scratch_rows, classes].
        """
        logs = self.logs(logits.reshape(self.values + 1, -1))
        probabilities, gradient = np.exp(logs), np.zeros_like(logs)
        distance = _distance(
            self.first, self.members, self.begins, self._centred(probabilities), self.targets, self.precisions,
            scratch, gradient,
        )  # fmt: skip
        gradient = self._centred(gradient) * probabilities - self.pseudo_rows[:, None]
        sums = np.vstack([self._over_values(np.add, gradient[:-1]), np.full(logs.shape[1], gradient[-1].sum())])
        gradient -= probabilities * sums
        return distance - float(self.pseudo_rows @ logs.sum(axis=1)), np.asarray(gradient.ravel())

    def _centred(self, table: Real) -> Real:
        """The table with mean 0 over the values of each attribute, in each class. The last row is as it was."""
        means = self._over_values(np.add, table[:-1]) / np.repeat(np.diff(self.first), np.diff(self.first))[:, None]
        return np.vstack([table[:-1] - means, table[-1]])

    def _over_values(self, reduction: np.ufunc, table: Real) -> Real:
        """For each value, the reduction over all values of its attribute, in each class; float64 like the table."""
        reduced = reduction.reduceat(table, self.first[:-1], axis=0)
        return np.asarray(np.repeat(reduced, np.diff(self.first), axis=0))


def _values(queries: Marginals) -> int:
    """Values of all attributes that some clique names together."""
    return sum(queries.domain.shape(queries.domain.named(queries.cliques)))


def _probabilities(residuals: Residuals, name: str, rows: float) -> Real:
    """The noisy probabilities of an attribute's values, none too small."""
    table, _ = residuals.residual((name,))
    return np.maximum(1 / table.size + table / rows, _SMALLEST)


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


def _scratch_rows(first: Index, members: Index, begins: Index) -> int:
    """Rows of scratch memory of the kernels: one, and the cells of each prefix of the largest set."""
    sizes, largest = np.diff(first), 1
    for begin, end in pairwise(begins.tolist()):
        largest = max(largest, 1 + int(np.cumprod(sizes[members[begin:end]]).sum()))
    return largest


@compiled
def _products(first: Index, members: Index, begin: int, end: int, table: Real, products: Real) -> tuple[int, int]:
    """Multiplies pi with the rows of all values of each cell of a set, for each prefix of the set.

    begin, end: Where the attributes of the set begin and end in members.
    table: float64 [values + 1, classes]; its last row is pi.
    products: float64 [scratch_rows, classes]. The products are written here, those of the empty prefix first.

    Returns where the products of the whole set begin, and how many there are.
    """
    classes = table.shape[1]
    for k in range(classes):
        products[0, k] = table[table.shape[0] - 1, k]
    before, count = 0, 1
    for member in range(begin, end):
        row, size = first[members[member]], first[members[member] + 1] - first[members[member]]
        after = before + count
        for cell in range(count):
            for value in range(size):
                for k in range(classes):
                    products[after + cell * size + value, k] = products[before + cell, k] * table[row + value, k]
        before, count = after, count * size
    return before, count


@compiled
def _answers(first: Index, members: Index, begins: Index, table: Real, products: Real, answers: Real) -> Real:
    """Fills in the probabilities of all cells of all sets, one set after the other."""
    first_answer = 0
    for index in range(len(begins) - 1):
        begin, count = _products(first, members, begins[index], begins[index + 1], table, products)
        for cell in range(count):
            answers[first_answer + cell] = products[begin + cell].sum()
        first_answer += count
    return answers


@compiled
def _distance(
    first: Index,
    members: Index,
    begins: Index,
    table: Real,
    targets: Real,
    precisions: Real,
    scratch: Real,
    gradient: Real,
) -> float:
    """The sum over sets of |model_s - y_s|^2 / (2 v_s); adds its gradient with respect to the table.

    table: float64 [values + 1, classes], centred probabilities; its last row is pi.
    scratch: float64 [2, scratch_rows, classes].
    gradient: float64 like the table.
    """
    products, slopes = scratch[0], scratch[1]
    classes, first_target, distance = table.shape[1], 0, 0.0
    for index in range(len(begins) - 1):
        after, count = _products(first, members, begins[index], begins[index + 1], table, products)
        for cell in range(count):
            difference = -targets[first_target + cell]
            for k in range(classes):
                difference += products[after + cell, k]
            distance += precisions[index] * difference * difference / 2
            for k in range(classes):
                slopes[after + cell, k] = precisions[index] * difference
        first_target += count
        for member in range(begins[index + 1] - 1, begins[index] - 1, -1):
            row, size = first[members[member]], first[members[member] + 1] - first[members[member]]
            count //= size
            before = after - count
            for cell in range(count):
                for k in range(classes):
                    slopes[before + cell, k] = 0.0
                for value in range(size):
                    of_cell = after + cell * size + value
                    for k in range(classes):
                        gradient[row + value, k] += slopes[of_cell, k] * products[before + cell, k]
                        slopes[before + cell, k] += slopes[of_cell, k] * table[row + value, k]
            after = before
        for k in range(classes):
            gradient[table.shape[0] - 1, k] += slopes[0, k]
    return distance
