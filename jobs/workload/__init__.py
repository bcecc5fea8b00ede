"""From the section ``workload`` of a config to queries with weights, by public facts and noisy popularity alone.

Open ``building`` first: it builds every kind of workload. It calls ``products`` for unions of Kronecker products (whose
groups of values ``value_groups`` reads) and takes listed queries and column weights from ``public_files``.
``query_text`` writes queries as text and reads them back; ``answers.parquet`` and the public files use it.
"""

from __future__ import annotations
