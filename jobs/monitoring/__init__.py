"""What operators see of a run: stages in the log, lineage, metrics, and a log of exact figures.

Open ``attempt`` first: it makes a release and tells everybody who watches. ``stages`` measures the stages of a run,
``lineage`` sends OpenLineage events, ``facet`` defines the privacy facet in them (``privacy_facet.schema.json`` follows
from it), and ``metrics`` writes a file for Prometheus. All of it is public except ``jobs.sensitive``'s log, which only
an operator's option opens. Nothing here can make a release fail once its data are read.
"""

from __future__ import annotations
