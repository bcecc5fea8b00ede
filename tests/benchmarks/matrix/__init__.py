"""Shared by the cases of the matrix mechanism."""

from __future__ import annotations
