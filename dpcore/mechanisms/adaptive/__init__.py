"""Adaptive residuals: everything is measured, and measured again where it helps; then estimated by empirical Bayes.

Open ``adaptive_residuals`` first: ``AdaptiveResiduals.run`` is the pseudo-code, with the marks MEASURE and ESTIMATE.
``constants`` decides which estimates are made; ``predicted`` has the CPU seconds and the memory that a plan gives.
"""

from __future__ import annotations
