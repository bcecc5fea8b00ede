"""What the cases of the matrix mechanism share."""

from __future__ import annotations
