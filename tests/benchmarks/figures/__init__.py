"""The figures of the DualQuery, FEM and DQRS papers, computed again: points, tables and plots."""

from __future__ import annotations
