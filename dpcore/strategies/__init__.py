"""Strategies: which queries to measure, and how precisely, so that a known workload has a small error.

A strategy is a query matrix A that is measured in place of the workload W. The reconstructed answers
W A^+ (A x + noise) can have a smaller variance than W x + noise. Every strategy is chosen from public facts, before any
noise is drawn; nothing in this package sees data.

Open first: ``one_attribute/best_strategy.py``, the smallest complete case; then the room that your mechanism uses.

Rooms, with the operators of McKenna's thesis (2022):
    one_attribute: OPT_0, the best strategy for the queries about one attribute. Under Gaussian noise it is the optimum,
        with a certificate.
    kronecker: OPT_x and OPT_+, products of one-attribute strategies, for unions of products.
    marginals: OPT_M, marginals (or products) that are measured together and answered by joint least squares.
    residual_planning: the optimum for marginals under Gaussian noise, with one residual per set of attributes.
    symmetric: the optimum over all strategies under Gaussian noise, for unions of products with exchangeable values.

Files:
    allocation.py: closed-form shares of the budget for marginals that are measured one by one.
    clique_selection.py: which marginals to measure for a graphical model, from noisy errors of a first model.
    fourier_basis.py: parities of binary attributes, the Fourier basis of contingency tables.

Recommended under Gaussian noise: ``residual_planning`` for marginals and for products on marginals over any domain;
``symmetric`` for other unions of products, where the domain has at most 2,048 orbits of exchangeable values.
Recommended under Laplace noise: ``marginals`` for marginals, prefixes and ranges; ``kronecker`` for other unions of
products.
``dpcore.mechanisms.hdmm`` makes this choice automatically. ``dpcore/decisions/strategies.md`` has the measurements.
"""

from __future__ import annotations
