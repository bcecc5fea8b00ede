"""The settings of the fits that a mechanism makes."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from dpcore.estimation.graphical.fitting.fit import FitSettings, GraphicalFit, fit_model


def watched_fits(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[FitSettings]:
    """A list to which each fit of the module adds its settings, its fourth argument."""
    asked: list[FitSettings] = []

    def watched(*given: Any, **named: Any) -> GraphicalFit:
        asked.append(given[3])
        return fit_model(*given, **named)

    monkeypatch.setattr(module, "fit_model", watched)
    return asked
