"""From the workload section of a config to queries, and queries as text."""

from __future__ import annotations
