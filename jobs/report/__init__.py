"""The report of a release: one HTML file that anyone may read, made of what the release has published and nothing else.

* ``content``: open first. Gathers the figures of a report from a release folder, within limits of size.
* ``figures``: the marginals and the ranked conjunctions that become charts.
* ``quality``: how wide the intervals of the answers are.
* ``writing``: fills the template, and puts styles, scripts and figures into the one file.
* ``page/``: the template with its styles and scripts. ``vendor/``: the chart library (Observable Plot, and D3 which it
  needs) with their licences; ``vendor/VERSIONS`` says where the files come from.

Use ``write_report``; ``marquee report`` calls it.
"""

from __future__ import annotations

from jobs.report.writing import write_report

__all__ = ["write_report"]
