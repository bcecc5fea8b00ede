"""The convolution audit at its fast size, its sums against 40 digits, and that it rejects too little noise."""

from __future__ import annotations

from itertools import product

import mpmath
import pytest

from tests.audit.convolution import ERROR, RoundedGaussian, delta_of, run
from tests.audit.section import Size

pytestmark = pytest.mark.false_alarm(0)  # Of tests that no draw decides; the others say theirs.


def test_the_noise_that_ships_needs_no_more_delta_than_is_claimed() -> None:
    rows = run(Size.FAST)
    assert [dict(row.cells) for row in rows if not row.passed] == []
    assert {row.cells["noise"] for row in rows} == {"rounded Gaussian", "discrete Gaussian (control)"}


def test_a_sigma_that_is_a_thousandth_too_small_is_found() -> None:
    rows = [row for row in run(Size.FAST, narrower=0.999) if row.cells["noise"] == "rounded Gaussian"]
    finest = [row for row in rows if row.cells["grid"] == "2^-10"]
    assert finest
    assert not any(row.passed for row in finest)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("sigma", "step", "shift", "epsilon"),
    [
        (4.2, 1.0, (1,), 1.0),
        (0.65, 1.0, (1,), 8.0),
        (0.65, 0.25, (1,), 8.0),
        (1.3, 0.125, (3,), 5.0),
        (1.46, 1.0, (2, 1), 8.0),
        (1.46, 0.5, (2, -1), 3.0),
        (1.1, 1.0, (1, 1, 1), 2.0),
    ],
)
def test_the_sums_are_those_of_the_definition(
    sigma: float, step: float, shift: tuple[int, ...], epsilon: float
) -> None:
    """Every output of every coordinate: sum of max(0, P - exp(epsilon) Q), no half-lines and no tails."""
    with mpmath.workdps(40):
        reach = int(13 * sigma / step) + 1
        values = [k * mpmath.mpf(step) for k in range(-reach, reach + 1)]

        def mass(value: mpmath.mpf) -> mpmath.mpf:
            return mpmath.ncdf((value + step / 2) / sigma) - mpmath.ncdf((value - step / 2) / sigma)

        pairs = [[(mass(value), mass(value + part)) for value in values] for part in shift]
        grown = mpmath.exp(epsilon)
        wanted = mpmath.mpf(0)
        for chosen in product(*pairs):
            moved = mpmath.fprod(one for one, _ in chosen)
            wanted += max(mpmath.mpf(0), moved - grown * mpmath.fprod(other for _, other in chosen))
    assert delta_of(RoundedGaussian(sigma, step), shift, epsilon) == pytest.approx(float(wanted), rel=ERROR)
