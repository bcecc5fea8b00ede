"""Delta for zCDP at a given epsilon: the inverse of the kernel's conversion, minimised independently of it."""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar


def delta_of_zcdp(rho: float, epsilon: float) -> float:
    """Bound on delta at epsilon for every rho-zCDP mechanism, minimised over the order alpha.

    Source: Canonne, Kamath and Steinke (2020), Proposition 12:
    delta <= min over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) * (1 - 1/alpha)^alpha.
    """
    if rho <= 0:
        return 0.0

    def log_delta(log_excess: float) -> float:
        alpha = 1 + math.exp(log_excess)
        return (alpha - 1) * (alpha * rho - epsilon) - math.log(alpha - 1) + alpha * math.log1p(-1 / alpha)

    minimum = minimize_scalar(log_delta, bounds=(-12.0, 25.0), method="bounded", options={"xatol": 1e-9})
    return math.exp(min(0.0, float(minimum.fun)))
