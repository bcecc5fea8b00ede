"""Faults of bounds and intervals: how a tail is divided, and what a radius holds."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        "the rounds take the whole tail",
        "dpcore/estimation/graphical/confidence/bounds.py",
        "rounds_tail = tail / 2 if rounds or horizon else 0.0",
        "rounds_tail = tail if rounds or horizon else 0.0",
        "tests/unit/dpcore/estimation/graphical/confidence/test_bounds.py::test_bounds_hold_as_often_as_asked",
    ),
    Mutant(
        "rounds that were not made cost nothing",
        "dpcore/estimation/graphical/confidence/bounds.py",
        "tail / 2 if rounds or horizon else 0.0",
        "tail / 2 if rounds else 0.0",
        "tests/unit/dpcore/estimation/graphical/confidence/test_bounds.py"
        "::test_a_run_that_could_make_rounds_pays_for_them_even_if_it_made_none",
    ),
    Mutant(
        "noise takes all that rounds leave",
        "dpcore/estimation/graphical/confidence/bounds.py",
        "self._noise_tail = 0.75 * (tail - rounds_tail)",
        "self._noise_tail = 1.0 * (tail - rounds_tail)",
        "tests/unit/dpcore/estimation/graphical/confidence/test_bounds.py"
        "::test_noise_gets_three_quarters_of_the_rest_and_the_total_one",
    ),
    Mutant(
        "the total takes all that rounds leave",
        "dpcore/estimation/graphical/confidence/bounds.py",
        "_total(self.estimates, 0.25 * (tail - rounds_tail), rows)",
        "_total(self.estimates, 1.0 * (tail - rounds_tail), rows)",
        "tests/unit/dpcore/estimation/graphical/confidence/test_bounds.py"
        "::test_noise_gets_three_quarters_of_the_rest_and_the_total_one",
    ),
    Mutant(
        "each round takes the whole part of the rounds",
        "dpcore/estimation/graphical/confidence/bounds.py",
        "rounds_tail * (1 / horizon if horizon else 1 / ((number + 1) * (number + 2)))",
        "rounds_tail",
        "tests/unit/dpcore/estimation/graphical/confidence/test_bounds.py::test_rounds_share_half_of_the_tail",
    ),
    Mutant(
        "rounds without a horizon share nothing",
        "dpcore/estimation/graphical/confidence/bounds.py",
        "1 / ((number + 1) * (number + 2))",
        "1 / (number + 1)",
        "tests/unit/dpcore/estimation/graphical/confidence/test_bounds.py"
        "::test_a_known_number_of_rows_and_a_horizon_sharpen_bounds",
    ),
    Mutant(
        "more rounds than the horizon",
        "dpcore/estimation/graphical/confidence/bounds.py",
        "if horizon is not None and horizon < len(rounds):",
        "if False:",
        "tests/unit/dpcore/estimation/graphical/confidence/test_bounds.py"
        "::test_settings_that_promise_nothing_are_refused",
    ),
    Mutant(
        "any confidence",
        "dpcore/estimation/graphical/confidence/bounds.py",
        "        if not 0 < tail < 1:",
        "        if False:",
        "tests/unit/dpcore/estimation/graphical/confidence/test_bounds.py"
        "::test_settings_that_promise_nothing_are_refused",
    ),
    Mutant(
        "the change of the model since a round is left out",
        "dpcore/estimation/graphical/confidence/bounds.py",
        "best[k] = replace(best[k], l1=errors[k] + distance, round=round_bounds.number)",
        "best[k] = replace(best[k], l1=errors[k], round=round_bounds.number)",
        "tests/unit/dpcore/estimation/graphical/confidence/test_bounds.py"
        "::test_a_part_of_a_candidate_errs_no_more_than_the_candidate",
    ),
    Mutant(
        "a candidate that overlaps bounds a marginal",
        "dpcore/estimation/graphical/confidence/bounds.py",
        ".all(axis=1)\n        return float(self._errors",
        ".any(axis=1)\n        return float(self._errors",
        "tests/unit/dpcore/estimation/graphical/confidence/test_bounds.py::test_bounds_hold_as_often_as_asked",
    ),
    Mutant(
        "nothing known is bounded by the total alone",
        "dpcore/estimation/graphical/confidence/bounds.py",
        "smallest = float(table.sum()) + self.high",
        "smallest = self.high",
        "tests/unit/dpcore/estimation/graphical/confidence/test_bounds.py::test_bounds_are_of_use",
    ),
    Mutant(
        "a private total has no width",
        "dpcore/estimation/graphical/confidence/bounds.py",
        "return max(0.0, value - width), max(0.0, value + width)",
        "return value, value",
        "tests/unit/dpcore/estimation/graphical/confidence/test_bounds.py::test_bounds_hold_as_often_as_asked",
    ),
    Mutant(
        "a public total is ignored",
        "dpcore/estimation/graphical/confidence/bounds.py",
        "    if rows is not None:\n        return float(rows), float(rows)\n",
        "",
        "tests/unit/dpcore/estimation/graphical/confidence/test_bounds.py"
        "::test_a_known_number_of_rows_and_a_horizon_sharpen_bounds",
    ),
    Mutant(
        "the reflection principle without its factor",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "noise_tail / (2 if self.summands or self.largest else 4)",
        "noise_tail / 2",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_a_cell_of_gaussian_noise_is_as_wide_as_its_part_of_the_tail_says",
    ),
    Mutant(
        "the two sides of a cell share no tail",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "noise_tail / (2 if self.summands or self.largest else 4)",
        "noise_tail / (1 if self.summands or self.largest else 2)",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_bounds_of_a_batch_hold_as_often_as_asked",
    ),
    Mutant(
        "rounding takes no part of a cell's tail",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "noise_tail = tail * self.share * (1 - _ROUNDING_PART)",
        "noise_tail = tail * self.share",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_a_cell_of_gaussian_noise_is_as_wide_as_its_part_of_the_tail_says",
    ),
    Mutant(
        "rounding takes one part of a table's tail",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "tail * self.share * (1 - 2 * _ROUNDING_PART)",
        "tail * self.share * (1 - _ROUNDING_PART)",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_a_table_of_gaussian_noise_is_as_far_as_its_part_of_the_tail_says",
    ),
    Mutant(
        "the whole tail for the rounding of a table",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "l1_of_sub_gaussians(cells, tail * self.rounding_share * _ROUNDING_PART)",
        "l1_of_sub_gaussians(cells, tail * self.rounding_share)",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_a_table_of_gaussian_noise_is_as_far_as_its_part_of_the_tail_says",
    ),
    Mutant(
        "rounding is left out of a table",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "bound = noise + min(rounding, cells * self.sum_of_rounding)",
        "bound = noise",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_a_table_of_gaussian_noise_is_as_far_as_its_part_of_the_tail_says",
    ),
    Mutant(
        "rounding is left out of a cell",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "return noise + min(rounding, self.sum_of_rounding)",
        "return noise",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_a_cell_of_gaussian_noise_is_as_wide_as_its_part_of_the_tail_says",
    ),
    Mutant(
        "the sign union takes the whole tail",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "deviation * l1_of_sub_gaussians(cells, tail * self.share * _ROUNDING_PART)",
        "deviation * l1_of_sub_gaussians(cells, tail * self.share)",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_the_discrete_gaussian_may_use_a_union_over_signs_for_its_part_of_the_tail",
    ),
    Mutant(
        "a cell of a Gaussian sum has the deviation of one",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "(1.0 if marginal.noise is Noise.LAPLACE else math.sqrt(summands))",
        "1.0",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_the_average_is_weighted_by_what_is_left_of_each_measurement",
    ),
    Mutant(
        "rounding errors of a sum do not add",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "rounding, marginal.step * summands, share, share)",
        "rounding, marginal.step, share, share)",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_a_single_measurement_has_the_rounding_of_all_cells_that_it_sums",
    ),
    Mutant(
        "averages are not weighted by variance",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "weights = 1 / (scales**2 * summands)",
        "weights = 1 / scales",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_the_average_is_weighted_by_what_is_left_of_each_measurement",
    ),
    Mutant(
        "the grid point lies below the sum",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "math.ceil(math.log(sums[-1] / sums[0]) / math.log(GROWTH))",
        "math.floor(math.log(sums[-1] / sums[0]) / math.log(GROWTH))",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_the_grid_point_of_an_average_is_never_below_the_sum",
    ),
    Mutant(
        "every grid point has the whole tail",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "return 1 / (4 * point * (point + 1)) if point else 0.75",
        "return 0.75",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_laplaces_and_products_are_not_batched",
    ),
    Mutant(
        "an ambiguous batch has the whole tail",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "1.0 if self._is_batch_alone else 0.25",
        "1.0",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_a_batch_is_the_least_squares_estimate_and_sharper_than_its_parts",
    ),
    Mutant(
        "others beside a batch have the whole tail",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "estimate.with_part(0.5) for",
        "estimate.with_part(1.0) for",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_a_batch_is_the_least_squares_estimate_and_sharper_than_its_parts",
    ),
    Mutant(
        "batches of Laplaces",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "not measurements or not is_gaussian or not",
        "not measurements or not",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_laplaces_and_products_are_not_batched",
    ),
    Mutant(
        "rounded noise has no step",
        "dpcore/estimation/graphical/confidence/unbiased.py",
        "return 2.0 ** -(GRID_BITS + 1) if noise is Noise.ROUNDED_GAUSSIAN else 1.0",
        "return 0.0",
        "tests/unit/dpcore/estimation/graphical/confidence/test_unbiased.py"
        "::test_the_average_is_weighted_by_what_is_left_of_each_measurement",
    ),
)
