"""Multiplicative weights: a model is multiplied by exp(query * noisy error) until it agrees with the measurements.

Open first: ``dense.py``, the algorithm on one table over all attributes.

Alternatives for measured marginals:
    dense.py: one table over the whole domain; exact, for up to 200 million cells.
    factored.py: independent tables over groups of attributes that measurements connect. Recommended: it is the same
        distribution, and also works where one table of all attributes does not fit.

Alternatives for other measurements:
    query_weights.py: single linear queries with values -1, 0 and 1, on a dense table.
    parity_weights.py: parities on a dense binary table, all at once by the fast Walsh-Hadamard transform.

Behind them:
    factored_answers.py: marginals of the factored distribution, recomputed only where a factor changed.
    one_hot.py: conjunctions and parities over one-hot columns, answered from marginals of the attributes.

``dpcore.estimation.graphical`` fits the same measurements by maximum entropy; it is recommended for marginals.
"""

from __future__ import annotations
