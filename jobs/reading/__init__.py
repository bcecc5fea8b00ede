"""Reads published releases. Everything here is public: no data, no ledger and no journal are opened.

* ``release_folder``: open first. A published folder: its certificate, layout, answers, model and synthetic rows.
* ``marginals``: one marginal of a release with its error bars, from the published answers or from the model.
* ``cross_table``: a marginal with its margins, as text, HTML, CSV or a spreadsheet (``marquee table``).
"""

from __future__ import annotations
