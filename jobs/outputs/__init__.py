"""The files that a release writes."""

from __future__ import annotations
