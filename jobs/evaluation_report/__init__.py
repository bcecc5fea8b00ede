"""The SENSITIVE twin of a report: how far a published release is from the exact answers, for the operator alone.

* ``content``: open first. Gathers the figures: errors by number of attributes and by marginal, the worst answers,
  coverage of the intervals.
* ``rows``: how well a classifier tells synthetic rows from real ones, and learns from them.
* ``writing``: the HTML file, which only its owner may read.

``jobs.release.evaluation`` has the errors that ``marquee evaluate`` prints. Nothing of this may be released.
"""

from __future__ import annotations

from jobs.evaluation_report.writing import write_evaluation_report

__all__ = ["write_evaluation_report"]
