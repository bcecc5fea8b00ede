"""What to measure and how precisely: strategies, chosen from public facts before any noise is drawn.

A strategy is a query matrix A that is measured in place of the workload W, because the answers W A^+ (A x + noise) can
have a smaller variance than W x + noise. All of it is planning: nothing here sees data.

Open first: ``one_attribute/best_strategy.py``, the smallest complete case; then the room of the mechanism you follow.

Rooms, with the operators of McKenna's thesis (2022):
    one_attribute: OPT_0, the best strategy for the queries about one attribute; the Gaussian optimum has a certificate.
    kronecker: OPT_x and OPT_+, products of strategies of single attributes, for products on few attributes together.
    marginals: OPT_M, marginals (or products) that are measured together and answered by joint least squares.
    residual_planning: the exact optimum for marginals under Gaussian noise, one residual per set of attributes.
    symmetric: the exact optimum under Gaussian noise for unions of products whose values are exchangeable.

Files:
    allocation.py: shares of the budget for marginals that are measured one by one, in closed form.
    clique_selection.py: which marginals a graphical model should have measured, from noisy errors of a first model.
    fourier_basis.py: parities of binary attributes.

Which one: under Gaussian noise ``residual_planning`` for marginals and for products on marginals of any domain;
``symmetric`` where a domain has at most 2,048 orbits of exchangeable values, because it is optimal over all strategies.
Under Laplace noise ``marginals`` for marginals, prefixes and ranges, and ``kronecker`` for other unions of products.
``dpcore.mechanisms.hdmm`` makes this choice.
"""

from __future__ import annotations
