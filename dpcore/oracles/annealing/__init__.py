"""Map: written below."""

from __future__ import annotations
