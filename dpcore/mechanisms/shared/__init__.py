"""What several mechanisms use; no mechanism of its own.

* ``marginal_selection``: marginals chosen at once by noisy errors, for ``clique_tree`` and ``aim``.
* ``measured_residuals``: marginals under Gaussian noise by their residuals, for ``hdmm``, ``gaussian_pgm`` and ``aim``.
* ``pgm_common``: limits and steps of mechanisms that release a graphical model.
* ``totals``: the number of units or rows, public or measured first.
"""

from __future__ import annotations
