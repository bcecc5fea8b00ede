"""Rows of one strategy that are measured at different times, and why all of them together cost once. TRUSTED."""

from __future__ import annotations

import numpy as np

from dpcore.frozen import plain_text
from dpcore.kernel.arguments import plain_integer
from dpcore.queries import Product, Products


def series_rows(strategy: Products, attribute: str, step: int, rows: range) -> Products:
    """The products with some rows of one matrix of a strategy of one term.

    strategy: The strategy, products of one term.
    attribute: The attribute whose matrix A has the rows.
    step: The step at which they are measured, a value of the attribute.
    rows: The rows to keep, one or more, without gaps. They read no value after the step.

    Continual release. Let A have its rows in groups A_1 .. A_T, where A_t has the value 0 for every step after t. At
    step t a release measures A_t (times the other matrices M) on the rows of the table up to that step, with
    independent noise of the scale that the whole of A needs for an amount c. Then all T releases together have the
    guarantee of the amount c, even if what happens in a step depends on the answers of earlier steps, provided that
        1. each group is measured at most once;
        2. the rows of a step that a release has read are the same for every later release; and
        3. which rows of a unit are kept among those of the steps so far does not depend on later rows, and the unit
           keeps at most b rows of all steps together.

    Proof. Fix two neighbours, and let d be the difference of their tables of all steps. By 2 and 3 there is one such d,
    whose part up to step t is what the releases up to t read. It is a sum of at most b columns' worth of cells (for
    replaced units, of differences of cells), so |(A x M) d| <= S, the sensitivity of the whole strategy, in the norm
    that belongs to the law of the noise. Group t moves by v_t = (A_t x M) d, which by the zeros of A_t is determined by
    the steps up to t, and hence by the answers before t. Given these answers, releasing group t is a mechanism of cost
    |v_t|_1 / scale under pure DP, and |v_t|_2^2 / (2 scale^2) or |v_t|_2^2 / scale^2 under zCDP or Gaussian DP. The
    costs are chosen adaptively, but in every course of events they add up to at most the cost of S, which is c: squares
    of the norms of the groups add up to |(A x M) d|_2^2, and L1 norms add up too. The theorems on filters
    (``budget.Filter``) therefore give the guarantee of c for all releases together.

    Without 2, a row that arrives late, or that is dropped because a later row of its unit takes its place, would move
    the groups by parts of different d, whose costs need not add up to c.

    Returns the products; each measured once, they are the answers of the strategy.

    Raises ValueError for a strategy of several terms, an attribute that it does not have, and rows that its matrix does
    not have, or that read values after the step.

    Source: Denisov, McMahan, Rush, Smith and Thakurta (2022), Theorem 2.1, for the Gaussian mechanism on data that are
    chosen adaptively; the argument by filters, which covers the discrete laws of noise, is this project's.
    """
    if len(strategy.terms) != 1:
        raise ValueError(f"a strategy of {len(strategy.terms)} terms; want one term, whose rows are measured")
    (term,) = strategy.terms
    attribute = plain_text(attribute)
    if attribute not in term.clique:
        raise ValueError(f"a strategy without attribute {attribute!r}; want one of {list(term.clique)}")
    axis = term.clique.index(attribute)
    count = len(term.matrices[axis])
    if rows.step != 1 or not 0 <= rows.start < rows.stop <= count:
        raise ValueError(f"rows {rows} of a matrix of {count}; want a range without gaps within 0 .. {count - 1}")
    matrices = list(term.matrices)
    matrices[axis] = np.ascontiguousarray(matrices[axis][rows.start : rows.stop])
    if matrices[axis][:, plain_integer("step", step) + 1 :].any():
        raise ValueError(f"rows {rows.start} to {rows.stop - 1} read values after {step}; want those up to it")
    part = Product(term.clique, tuple(matrices), term.weight)
    return Products(strategy.domain, (part,), strategy.denominator)
