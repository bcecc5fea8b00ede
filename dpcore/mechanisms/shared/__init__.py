"""Steps that several mechanisms share.

* ``marginal_selection``: selects marginals all at once from noisy errors; used by ``clique_tree`` and ``aim``.
* ``measured_residuals``: measures marginals under Gaussian noise by their residuals; used by ``hdmm``, ``gaussian_pgm``
  and ``aim``.
* ``pgm_common``: limits, checks and small helpers of mechanisms that release a graphical model.
* ``spanning_forest``: selects a spanning forest of dependent pairs; used by ``mst`` and ``clique_tree``.
* ``totals``: the number of rows, which is public or measured first.
"""

from __future__ import annotations
