"""Faults of AIM: its shares, its rounds and its model's size."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        "the second start share grows linearly",
        "dpcore/mechanisms/aim/aim.py",
        "Fraction(error / self._profile.start_error) ** 2",
        "Fraction(error / self._profile.start_error)",
        "tests/unit/dpcore/mechanisms/aim/test_profile.py::test_the_second_measurement_grows_with_the_square_of_the_error",
    ),
    Mutant(
        "the look before all products gets the whole start share",
        "dpcore/mechanisms/aim/aim.py",
        "_LOOK: Final = Fraction(1, 8)",
        "_LOOK: Final = Fraction(7, 8)",
        "tests/unit/dpcore/mechanisms/aim/test_products.py"
        "::test_the_one_way_share_is_spent_in_full_only_where_rounds_follow",
    ),
    Mutant(
        "the second start share has no limit",
        "dpcore/mechanisms/aim/aim.py",
        "wanted_share = min(max_share, first_share *",
        "wanted_share = max(0, first_share *",
        "tests/unit/dpcore/mechanisms/aim/test_aim.py"
        "::test_single_attributes_are_measured_once_more_where_rows_are_few",
    ),
    Mutant(
        "rounds after a batch may use the whole model",
        "dpcore/mechanisms/aim/aim.py",
        "_AFTER_BATCH: Final = Fraction(3, 4)",
        "_AFTER_BATCH: Final = Fraction(1)",
        "tests/unit/dpcore/mechanisms/aim/test_batch.py::test_rounds_after_a_batch_leave_a_quarter_of_the_largest_model",
    ),
    Mutant(
        "rounds spend nothing of the model that came before",
        "dpcore/mechanisms/aim/aim.py",
        "spent = 1 - private.remaining_share + annealing.round",
        "spent = annealing.round",
        "tests/unit/dpcore/mechanisms/aim/test_profile.py::test_rounds_may_use_the_part_of_the_model_that_has_been_paid_for",
    ),
    Mutant(
        "rounds never grow",
        "dpcore/mechanisms/aim/aim.py",
        "                annealing = annealing.grown()\n",
        "                pass\n",
        "tests/unit/dpcore/mechanisms/aim/test_aim.py::test_rounds_grow_where_little_moved_and_the_last_takes_the_rest",
    ),
    Mutant(
        "rounds go on whatever they teach",
        "dpcore/mechanisms/aim/aim.py",
        "is_informative = change > self._profile.min_relative_change * penalties[chosen]",
        "is_informative = True",
        "tests/unit/dpcore/mechanisms/aim/test_batch.py::test_rounds_end_with_the_first_that_teaches_little",
    ),
    Mutant(
        "the batch is not measured again",
        "dpcore/mechanisms/aim/aim.py",
        "            measured += batch.remeasure(private)  # MEASURE\n",
        "            pass\n",
        "tests/unit/dpcore/mechanisms/aim/test_batch.py::test_a_plan_is_what_a_run_with_all_errors_spends",
    ),
    Mutant(
        "the structure forgets what was measured",
        "dpcore/mechanisms/aim/aim.py",
        "            structure = structure.with_clique(allowed.cliques[chosen])\n",
        "",
        "tests/unit/dpcore/mechanisms/aim/test_aim.py::test_the_junction_tree_keeps_to_its_limit_in_every_round",
    ),
    Mutant(
        "more rounds than planned",
        "dpcore/mechanisms/aim/rounds.py",
        "return self.done >= self._max_rounds",
        "return False",
        "tests/unit/dpcore/mechanisms/aim/test_rounds.py::test_rounds_are_over_after_as_many_as_were_planned",
    ),
    Mutant(
        "the last round keeps a part",
        "dpcore/mechanisms/aim/budget.py",
        "if remaining > 2 * self.round:",
        "if remaining > self.round:",
        "tests/unit/dpcore/mechanisms/aim/test_budget.py::test_the_last_round_takes_all_that_is_not_enough_for_two",
    ),
    Mutant(
        "the last round measures nothing more",
        "dpcore/mechanisms/aim/budget.py",
        "measure=remaining - select)",
        "measure=self.measure)",
        "tests/unit/dpcore/mechanisms/aim/test_budget.py::test_the_last_round_takes_all_that_is_not_enough_for_two",
    ),
    Mutant(
        "grown rounds select as before",
        "dpcore/mechanisms/aim/budget.py",
        "select=self.select * self.growth, measure",
        "select=self.select, measure",
        "tests/unit/dpcore/mechanisms/aim/test_budget.py::test_growing_multiplies_both_parts",
    ),
    Mutant(
        "rounds share the budget unevenly",
        "dpcore/mechanisms/aim/budget.py",
        "round_share = share / rounds",
        "round_share = share",
        "tests/unit/dpcore/mechanisms/aim/test_budget.py::test_planned_rounds_are_equal_and_take_the_share",
    ),
    Mutant(
        "weights count attributes once",
        "dpcore/mechanisms/aim/marginals.py",
        "attribute_weights[name] += weight",
        "attribute_weights[name] = weight",
        "tests/unit/dpcore/mechanisms/aim/test_marginals.py"
        "::test_the_candidates_are_all_subsets_with_the_weights_of_what_they_overlap",
    ),
    Mutant(
        "measuring again forgets the proportions",
        "dpcore/mechanisms/aim/batch.py",
        "[private.measure(queries, share * factor)",
        "[private.measure(queries, private.remaining_share / (2 * len(self.chosen)))",
        "tests/unit/dpcore/mechanisms/aim/test_batch.py::test_a_plan_is_what_a_run_with_all_errors_spends",
    ),
)
