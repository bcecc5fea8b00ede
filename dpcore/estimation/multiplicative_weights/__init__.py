"""Multiplicative weights: a model is multiplied by exp(query * noisy error) until it agrees with the measurements.

Open first: ``dense.py``, the algorithm on a table over all attributes.

Alternatives:
    dense.py: one table over the whole domain; exact, for up to about a hundred million cells.
    factored.py: independent factors over attributes that measurements connect; for larger binary domains. Recommended
        where ``dense`` does not fit.
    query_weights.py: the weights of products on a dense table.
    parity_weights.py: the weights of parities on a dense binary table, by the fast Walsh-Hadamard transform.

Behind them:
    factored_answers.py: answers of conjunctions and parities from factors.
    one_hot.py: one-hot groups of columns as attributes of a table.

``dpcore.estimation.graphical`` fits the same measurements by maximum entropy, and is recommended for marginals.
"""

from __future__ import annotations
