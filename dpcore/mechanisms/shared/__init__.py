"""Steps that several mechanisms share.

* ``marginal_selection``: selects marginals all at once from noisy errors; used by ``clique_tree`` and ``aim``.
* ``measured_residuals``: measures marginals under Gaussian noise by their residuals; used by ``hdmm``, ``gaussian_pgm``
  and ``aim``.
* ``pgm_common``: limits, checks and small helpers of mechanisms that release a graphical model.
* ``totals``: the number of rows, which is public or measured first.
"""

from __future__ import annotations
