"""Range-marginals, the workload of Figure 4.1 of the thesis, and their error."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.queries import Marginals, Product, Products

# Ordered attributes, of which the thesis asks prefixes.
_NUMERIC: Final = {
    "titanic": ("Age", "SibSp", "Parch", "Fare"),
    "adult_fine": ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
    "loans": (
        "loan_amnt", "funded_amnt", "funded_amnt_inv", "int_rate", "installment", "annual_inc", "dti", "delinq_2yrs",
        "inq_last_6mths", "mths_since_last_delinq", "mths_since_last_record", "open_acc", "pub_rec", "revol_bal",
        "revol_util", "total_acc", "total_pymnt", "total_pymnt_inv", "total_rec_prncp", "total_rec_int",
        "total_rec_late_fee", "recoveries", "collection_recovery_fee", "last_pymnt_amnt", "delinq_amnt",
        "pub_rec_bankruptcies", "settlement_amount", "settlement_percentage", "settlement_term",
    ),
}  # fmt: skip


def range_queries(dataset: str, cliques: Marginals) -> Products:
    """Prefixes of numeric attributes, single values of the others, a term for each clique.

    Source: thesis, section 4.6.1.
    """
    domain = cliques.domain
    terms = tuple(
        Product(clique, tuple(_matrix(dataset, domain, name) for name in clique)) for clique in cliques.cliques
    )
    return Products(domain, terms)


def applied(queries: Products, cells: NDArray[np.floating | np.integer]) -> NDArray[np.float64]:
    """Answers from the cells of the marginals of all terms, one after the other, in counts."""
    starts = np.cumsum([queries.domain.size(term.clique) for term in queries.terms])[:-1]
    return np.concatenate(
        [_of_one(term, part) for term, part in zip(queries.terms, np.split(cells, starts), strict=True)]
    )


def range_error(queries: Products, answers: NDArray[np.floating], exact: NDArray[np.floating]) -> float:
    """Mean over terms of ||exact - answers||_1 / (2 ||exact||_1).

    Source: thesis, section 4.6.1.
    """
    starts = np.cumsum([0, *(term.size for term in queries.terms[:-1])])
    wrong, whole = np.add.reduceat(np.abs(exact - answers), starts), np.add.reduceat(np.abs(exact), starts)
    return float(np.mean(wrong / (2 * whole)))


def _matrix(dataset: str, domain: Domain, attribute: str) -> NDArray[np.int64]:
    (size,) = domain.shape((attribute,))
    return np.tri(size, dtype=np.int64) if attribute in _NUMERIC[dataset] else np.eye(size, dtype=np.int64)


def _of_one(term: Product, cells: NDArray[np.floating | np.integer]) -> NDArray[np.float64]:
    table = cells.astype(np.float64).reshape([matrix.shape[1] for matrix in term.matrices])
    for axis, matrix in enumerate(term.matrices):
        table = np.moveaxis(np.tensordot(matrix.astype(np.float64), table, axes=(1, axis)), 0, axis)
    return np.asarray(term.weight * table.ravel())
