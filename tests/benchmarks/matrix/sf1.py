"""The person tables of the 2010 Census, Summary File 1, as a workload of Kronecker products: SF1 and SF1+.

The tables are P1, P3 to P5, P8 to P12, P12A to P12I, PCT12 and PCT12A to PCT12O, with every total that they print, also
where it is printed twice: 4,151 answers. SF1+ asks for them for the nation and for each of its 51 states.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import Product, Products
from dpcore.queries.ranges import identity

Matrix = NDArray[np.int64]

SEXES, ORIGINS, RACES, AGES, STATES = 2, 2, 64, 115, 51
ANSWERS, ANSWERS_PLUS = 4_151, 215_852
# Printed in McKenna's thesis, Tables 3.4 and 3.5: RMSE at epsilon 1, and at delta 1e-6 under Gaussian noise.
IDENTITY_LAPLACE, IDENTITY_GAUSSIAN = 23.20, 69.33
OPT_KRON_LAPLACE, OPT_KRON_GAUSSIAN = 7.30, 9.80

# Codes of races: one alone, white first; then sets of two races, of three and so on; the last code is of no one.
_ALONE: Final = 6
_SETS: Final = [len(races) for count in range(1, _ALONE + 1) for races in combinations(range(_ALONE), count)]
_FIRST_AGES: Final = (0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85, AGES)
_FIRST_SINGLE_AGES: Final = (*range(101), 105, 110, AGES)
_ADULT: Final = 18


def sf1() -> Products:
    """SF1 over sex, Hispanic origin, race and age: 4,151 answers, n = 29,440."""
    return Products(_domain(), tuple(_terms()))


def sf1_plus() -> Products:
    """SF1 of the nation and of each state: 215,852 answers, n = 1,501,440."""
    base = _domain()
    domain = Domain((*base.names, "state"), (*base.sizes, STATES))
    places = np.vstack([np.ones((1, STATES), dtype=np.int64), identity(STATES)])
    return Products(domain, tuple(Product((*one.clique, "state"), (*one.matrices, places)) for one in _terms()))


def _domain() -> Domain:
    return Domain.of({"sex": SEXES, "hispanic": ORIGINS, "race": RACES, "age": AGES})


def _terms() -> list[Product]:
    """Products table by table; an attribute that a product does not name is summed up."""
    origins, hispanic, not_hispanic = identity(ORIGINS), np.array([[0, 1]]), np.array([[1, 0]])
    seven, combined = _seven_races(), _race_combinations()
    ages, single_ages, adults = _ages(_FIRST_AGES), _ages(_FIRST_SINGLE_AGES), _rows([range(_ADULT, AGES)], AGES)
    origins_and_all = np.vstack([_all(ORIGINS), origins])
    race_alone = seven[:1]
    return [
        _product(),  # P1
        _product(race=np.vstack([_all(RACES), seven])),  # P3
        _product(hispanic=origins_and_all),  # P4
        _product(),  # P5
        _product(hispanic=origins, race=np.vstack([_all(RACES), seven])),
        _product(race=np.vstack([_all(RACES), combined])),  # P8
        _product(hispanic=origins_and_all),  # P9
        _product(hispanic=not_hispanic, race=combined),
        _product(race=np.vstack([_all(RACES), combined]), age=adults),  # P10
        _product(hispanic=origins_and_all, age=adults),  # P11
        _product(hispanic=not_hispanic, race=combined, age=adults),
        *_sex_by_age(ages),  # P12
        *_sex_by_age(ages, race=seven),  # P12A to P12G
        *_sex_by_age(ages, hispanic=hispanic),  # P12H
        *_sex_by_age(ages, hispanic=not_hispanic, race=race_alone),  # P12I
        *_sex_by_age(single_ages),  # PCT12
        *_sex_by_age(single_ages, race=seven),  # PCT12A to PCT12G
        *_sex_by_age(single_ages, hispanic=hispanic),  # PCT12H
        *_sex_by_age(single_ages, hispanic=not_hispanic, race=seven),  # PCT12I to PCT12O
    ]


def _sex_by_age(ages: Matrix, **matrices: Matrix) -> list[Product]:
    """The total, and for each sex its total and its ages."""
    ages_and_all = np.vstack([_all(AGES), ages])
    return [_product(**matrices), _product(sex=identity(SEXES), age=ages_and_all, **matrices)]


def _seven_races() -> Matrix:
    """The six races alone, and two or more races.

    The code of no one counts as two or more here, as in the workload of the published figures.
    """
    return np.vstack([np.eye(_ALONE, RACES, dtype=np.int64), _rows([range(_ALONE, RACES)], RACES)])


def _race_combinations() -> Matrix:
    """Lines of table P8 below its total: one race and each, two or more, two and each set of two, three and so on."""
    counts = np.array([*_SETS, 0])
    each = identity(RACES)
    lines = [counts == 1, *each[counts == 1], counts > 1]
    for count in range(2, _ALONE + 1):
        lines += [counts == count, *each[counts == count]]
    return np.array(lines, dtype=np.int64)


def _ages(firsts: tuple[int, ...]) -> Matrix:
    return _rows([range(first, last) for first, last in pairwise(firsts)], AGES)


def _rows(ranges: list[range], size: int) -> Matrix:
    return np.array([[code in each for code in range(size)] for each in ranges], dtype=np.int64)


def _all(size: int) -> Matrix:
    return np.ones((1, size), dtype=np.int64)


def _product(**matrices: Matrix) -> Product:
    clique = tuple(name for name in _domain().names if name in matrices)
    return Product(clique, tuple(matrices[name] for name in clique))
