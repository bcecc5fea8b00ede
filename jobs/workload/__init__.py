"""Builds the weighted queries of a release from the section ``workload`` of its config.

Only public facts and noisy popularity enter. Open ``building`` first: it builds every kind of workload. It calls
``products`` for unions of Kronecker products, whose groups of values ``value_groups`` reads, and takes listed queries
and column weights from ``public_files``. ``query_text`` writes queries as text and reads them back, for
``answers.parquet`` and for the public files. ``item_files`` reads a public list of items.
"""

from __future__ import annotations
