"""A release from its plan to its publication."""

from __future__ import annotations
