"""Alternating minimisation for a latent-class model near noisy residuals; ``latent_classes`` has the objective.

Given all other probabilities, the residuals that the model has are linear in the probabilities of one attribute in one
class, and in the shares of the classes. A step for one class of one attribute minimises the objective, and those for
the shares lower it, so that it never rises, up to rounding.

Source: alternating least squares and its hierarchical form, as for non-negative factorisations (Cichocki and Phan,
2009); this project for the steps with pseudo-rows on a simplex.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcore.compiled import compiled

Real = NDArray[np.float64]
Index = NDArray[np.int64]
_ROUNDS: Final = 5  # Of all classes, for an attribute.
_STEPS: Final = 100  # Towards the best shares of the classes.
_NEWTON_STEPS: Final = 100
_NEWTON_TOLERANCE: Final = 1e-10
_TINY: Final = 1e-200  # Added to curvatures, which are 0 for an attribute without residuals.


class ClassProblem(NamedTuple):
    """What is fitted. Values of all attributes are numbered one after the other.

    first: int64 [attributes + 1], where the values of each attribute begin.
    members, begins: int64 [members], the attributes of all sets one after the other; int64 [sets + 1], where each set
        begins among them.
    targets, first_targets: float64 [cells], the residuals of the sets one after the other, as fractions of the rows;
        int64 [sets + 1], where those of each set begin.
    precisions: float64 [sets], 1 / v_s with the variances v_s of the targets.
    pseudo_rows: float64 [values + 1], of each value in a class before anything is known, and of the class.
    sets, positions, first_sets: int64 [members], the sets of each attribute, one attribute after the other; where among
        the members the attribute is; int64 [attributes + 1], where the sets of each attribute begin.
    """

    first: Index
    members: Index
    begins: Index
    targets: Real
    first_targets: Index
    precisions: Real
    pseudo_rows: Real
    sets: Index
    positions: Index
    first_sets: Index


class ClassState(NamedTuple):
    """A model while it is fitted, with memory.

    table: float64 [values + 1, classes], theta, and pi in the last row.
    centred: float64 like the table, theta with mean 0 over the values of each attribute; pi as it is.
    grams: float64 [attributes, classes, classes], of each attribute the Gram matrix of the centred columns.
    buffers: Memory, float64 [2, largest set, classes].
    slopes: Memory, float64 [largest attribute, classes].
    """

    table: Real
    centred: Real
    grams: Real
    buffers: Real
    slopes: Real


def initial_state(problem: ClassProblem, table: Real) -> ClassState:
    """The state in which a fit starts from a table, which is changed in place."""
    sizes, classes = np.diff(problem.first), table.shape[1]
    centred, grams = table.copy(), np.empty((len(sizes), classes, classes))
    centred[:-1] -= np.repeat(1 / sizes, sizes)[:, None]
    for attribute, (begin, end) in enumerate(pairwise(problem.first.tolist())):
        _fill_gram(centred[begin:end], grams[attribute])
    largest_set = int(np.diff(problem.first_targets).max(initial=1))
    buffers, slopes = np.empty((2, largest_set, classes)), np.empty((int(sizes.max(initial=1)), classes))
    return ClassState(table, centred, grams, buffers, slopes)


@compiled
def sweep(problem: ClassProblem, state: ClassState) -> None:
    """Steps for each attribute, and for the shares. Never raises the objective, up to rounding."""
    for attribute in range(len(problem.first) - 1):
        _fit_attribute(problem, state, attribute)
    _fit_shares(problem, state)


@compiled
def products_without(
    first: Index, members: Index, begin: int, end: int, skipped: int, table: Real, buffers: Real
) -> Real:
    """Multiplies pi with the rows of the values of each cell of a set, without one of its attributes.

    begin, end: Where the attributes of the set begin and end in members.
    skipped: Where the attribute that is not multiplied is in members; -1 for none.
    table: float64 [values + 1, classes]; its last row is pi.
    buffers: float64 [2, cells, classes]. The products are in one of them.

    Returns the products, float64 [cells, classes], first those of the cells.
    """
    classes, last = table.shape[1], table.shape[0] - 1
    products: Real = buffers[0]
    spare, count = buffers[1], 1
    for k in range(classes):
        products[0, k] = table[last, k]
    for member in range(begin, end):
        if member != skipped:
            row, size = first[members[member]], first[members[member] + 1] - first[members[member]]
            for cell in range(count):
                for value in range(size):
                    for k in range(classes):
                        spare[cell * size + value, k] = products[cell, k] * table[row + value, k]
            products, spare, count = spare, products, count * size
    return products


@compiled
def most_probable(linear: Real, quadratic: float, pseudo_rows: Real, probabilities: Real) -> None:
    """Fills in the x on the simplex that minimises sum q x^2 / 2 - linear x - pseudo_rows log x.

    With a multiplier c for the sum, q x^2 - (linear - c) x - pseudo_rows = 0 has one positive root for each x. Their
    sum is convex and falls in c, so that Newton's steps go from lower bounds to the c at which it is 1.
    """
    count, excess = len(linear), 0.0
    multiplier = max((linear.sum() - quadratic) / count, linear.min() + pseudo_rows.sum() - quadratic)
    multiplier = max(multiplier, (linear + pseudo_rows).max() - quadratic)
    for _ in range(_NEWTON_STEPS):
        excess, slope = -1.0, 0.0
        for index in range(count):
            middle = linear[index] - multiplier
            root = np.sqrt(middle * middle + 4 * quadratic * pseudo_rows[index])
            x = (middle + root) / (2 * quadratic) if middle > 0 else 2 * pseudo_rows[index] / (root - middle)
            probabilities[index] = x
            excess += x
            slope += x / root
        if excess <= _NEWTON_TOLERANCE or multiplier + excess / slope == multiplier:
            break
        multiplier += excess / slope
    for index in range(count):
        probabilities[index] /= 1 + excess


@compiled
def _fit_attribute(problem: ClassProblem, state: ClassState, attribute: int) -> None:
    """Lowers the objective over theta of an attribute: minimises it for one class after the other, in a few rounds."""
    first, members, begins, targets, first_targets, precisions, pseudo_rows, sets, positions, first_sets = problem
    table, centred, grams, buffers, slopes = state
    classes, row, size = table.shape[1], first[attribute], first[attribute + 1] - first[attribute]
    matrix, shares = np.zeros((classes, classes)), table[table.shape[0] - 1]
    slopes[:size] = 0.0
    for index in range(first_sets[attribute], first_sets[attribute + 1]):
        number, position = sets[index], positions[index]
        _add_gram(problem, grams, number, position, shares, matrix)
        begin, end = begins[number], begins[number + 1]
        of_others = products_without(first, members, begin, end, position, centred, buffers)
        before, after = 1, 1
        for member in range(begin, end):
            size_of_member = first[members[member] + 1] - first[members[member]]
            if member < position:
                before *= size_of_member
            elif member > position:
                after *= size_of_member
        for cell_before in range(before):
            for value in range(size):
                target = first_targets[number] + (cell_before * size + value) * after
                for cell_after in range(after):
                    weighted = precisions[number] * targets[target + cell_after]
                    for k in range(classes):
                        slopes[value, k] += weighted * of_others[cell_before * after + cell_after, k]
    _symmetrise(matrix)
    linear, fitted, pseudo = np.empty(size), np.empty(size), pseudo_rows[row : row + size]
    for _ in range(_ROUNDS):
        for k in range(classes):
            quadratic = matrix[k, k] + _TINY
            for value in range(size):
                linear[value] = slopes[value, k] + quadratic * table[row + value, k]
                for j in range(classes):
                    linear[value] -= centred[row + value, j] * matrix[k, j]
            most_probable(linear, quadratic, pseudo, fitted)
            for value in range(size):
                table[row + value, k] = fitted[value]
                centred[row + value, k] = fitted[value] - 1 / size
    _fill_gram(centred[row : row + size], grams[attribute])


@compiled
def _fit_shares(problem: ClassProblem, state: ClassState) -> None:
    """Lowers the objective over pi, by steps that minimise an upper bound of it."""
    first, members, begins, targets, first_targets, precisions, pseudo_rows, _, _, _ = problem
    table, centred, grams, buffers, _ = state
    classes, last = table.shape[1], table.shape[0] - 1
    matrix, slopes, ones = np.zeros((classes, classes)), np.zeros(classes), np.ones(classes)
    for number in range(len(begins) - 1):
        _add_gram(problem, grams, number, -1, ones, matrix)
        cells = products_without(first, members, begins[number], begins[number + 1], -1, centred, buffers)
        for cell in range(first_targets[number + 1] - first_targets[number]):
            weighted = precisions[number] * targets[first_targets[number] + cell]
            for k in range(classes):
                slopes[k] += weighted * cells[cell, k]
    _symmetrise(matrix)
    shares, fitted, quadratic = table[last], np.empty(classes), _TINY
    for k in range(classes):
        slopes[k] /= shares[k]
        quadratic = max(quadratic, np.abs(matrix[k]).sum())  # At least the largest eigenvalue.
    pseudo = np.full(classes, pseudo_rows[last])
    for _ in range(_STEPS):
        linear = quadratic * shares + slopes
        for k in range(classes):
            for j in range(classes):
                linear[k] -= matrix[k, j] * shares[j]
        most_probable(linear, quadratic, pseudo, fitted)
        shares[:] = fitted
    centred[last] = shares


@compiled
def _add_gram(problem: ClassProblem, grams: Real, number: int, skipped: int, shares: Real, matrix: Real) -> None:
    """Adds the Gram matrix of a set's columns, which are products of the centred columns of its attributes.

    number: Of the set.
    skipped: As for ``products_without``.
    shares: Of the classes, by which their columns are multiplied.
    matrix: float64 [classes, classes], of which the part up to the diagonal is changed.
    """
    row = np.empty(len(shares))
    for k in range(len(shares)):
        for j in range(k + 1):
            row[j] = problem.precisions[number] * shares[k] * shares[j]
        for member in range(problem.begins[number], problem.begins[number + 1]):
            if member != skipped:
                of_member = grams[problem.members[member], k]
                for j in range(k + 1):
                    row[j] *= of_member[j]
        for j in range(k + 1):
            matrix[k, j] += row[j]


@compiled
def _symmetrise(matrix: Real) -> None:
    """Makes a matrix symmetric that is filled in up to the diagonal."""
    for k in range(len(matrix)):
        for j in range(k):
            matrix[j, k] = matrix[k, j]


@compiled
def _fill_gram(columns: Real, gram: Real) -> None:
    """Fills in the Gram matrix of columns, float64 [classes, classes]."""
    gram[:] = 0.0
    for row in columns:
        for k in range(len(row)):
            for j in range(len(row)):
                gram[k, j] += row[k] * row[j]
