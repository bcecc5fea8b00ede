"""Faults of the aggregators: counts, totals and what they are checked by."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        "blocks over their bound are counted",
        "pipelines/aggregators/protocol.py",
        "    _check_totals(records, block.units, max_records)\n    accumulator[-SLOTS:]",
        "    accumulator[-SLOTS:]",
        "tests/unit/pipelines/aggregators/test_aggregators.py::test_a_block_over_its_bound_never_enters",
    ),
    Mutant(
        "totals do not count units",
        "pipelines/aggregators/protocol.py",
        "accumulator[-SLOTS:] += (records, block.units)",
        "accumulator[-SLOTS:] += (records, records)",
        "tests/unit/pipelines/aggregators/test_aggregators.py::test_totals_are_records_and_units",
    ),
    Mutant(
        "units may hold one row more",
        "pipelines/aggregators/protocol.py",
        "if not units <= records <= max_records * units:",
        "if not units <= records <= max_records * units + 1:",
        "tests/unit/pipelines/aggregators/test_aggregators.py::test_a_block_over_its_bound_never_enters",
    ),
    Mutant(
        "units may hold no row",
        "pipelines/aggregators/protocol.py",
        "if not units <= records <= max_records * units:",
        "if not records <= max_records * units:",
        "tests/unit/pipelines/aggregators/test_aggregators.py::test_a_block_over_its_bound_never_enters",
    ),
    Mutant(
        "merged counts wrap around",
        "pipelines/aggregators/protocol.py",
        "> _MAX_INT64:",
        "> 2 * _MAX_INT64 + 1:",
        "tests/unit/pipelines/aggregators/test_aggregators.py::test_merging_refuses_to_overflow",
    ),
    Mutant(
        "negative counts are merged",
        "pipelines/aggregators/protocol.py",
        '            if min(left.min(), right.min()) < 0:\n                raise IntegrityError("a merged count is negative; want sums over units")\n',
        "",
        "tests/unit/pipelines/aggregators/test_aggregators.py::test_a_negative_count_is_found_in_any_slice",
    ),
    Mutant(
        "merged totals are not checked",
        "pipelines/aggregators/protocol.py",
        "    if left.size == size:\n        _check_totals(int(left[-2]), int(left[-1]), max_records)\n    return left",
        "    return left",
        "tests/unit/pipelines/aggregators/test_aggregators.py::test_whole_accumulators_are_checked_when_they_merge",
    ),
    Mutant(
        "negative counts are extracted",
        "pipelines/aggregators/protocol.py",
        " or accumulator.min() < 0:",
        ":",
        "tests/unit/pipelines/aggregators/test_aggregators.py::test_a_negative_count_is_found_where_the_sums_are_right",
    ),
    Mutant(
        "accumulators of another length",
        "pipelines/aggregators/protocol.py",
        "if accumulator.shape != (size,) or accumulator",
        "if accumulator",
        "tests/unit/pipelines/aggregators/test_aggregators.py::test_a_slice_that_is_lost_or_merged_twice_is_found",
    ),
    Mutant(
        "extracted totals are not checked",
        "pipelines/aggregators/protocol.py",
        "    _check_totals(int(accumulator[-2]), int(accumulator[-1]), max_records)\n    return accumulator",
        "    return accumulator",
        "tests/unit/pipelines/aggregators/test_aggregators.py::test_whole_accumulators_are_checked_when_they_merge",
    ),
    Mutant(
        "the right accumulator is changed",
        "pipelines/aggregators/protocol.py",
        "        left += right\n",
        "        right += left\n        left[:] = right\n",
        "tests/unit/pipelines/aggregators/test_aggregators.py::test_blocks_may_be_cut_and_merged_anywhere",
    ),
    Mutant(
        "a table that lacks rows passes",
        "pipelines/aggregators/contingency.py",
        "        if (np.add.reduceat(counts, self.offsets) != rows).any():",
        "        if False:",
        "tests/unit/pipelines/aggregators/test_aggregators.py::test_a_slice_that_is_lost_or_merged_twice_is_found",
    ),
    Mutant(
        "strides of the wrong axis",
        "pipelines/aggregators/contingency.py",
        "np.prod(shape[axis + 1 :], dtype=np.int64)",
        "np.prod(shape[axis:], dtype=np.int64)",
        "tests/unit/pipelines/aggregators/test_aggregators.py",
    ),
    Mutant(
        "the last row of a chunk is dropped",
        "pipelines/aggregators/contingency.py",
        "width = min(chunk, rows - first)",
        "width = min(chunk, rows - first - 1)",
        "tests/unit/pipelines/aggregators/test_aggregators.py::test_blocks_may_be_cut_and_merged_anywhere",
    ),
    Mutant(
        "cells start at the first clique",
        "pipelines/aggregators/contingency.py",
        "cell[:width] = offsets[clique]",
        "cell[:width] = offsets[0]",
        "tests/unit/pipelines/aggregators/test_aggregators.py::test_blocks_may_be_cut_and_merged_anywhere",
    ),
    Mutant(
        "a histogram total below the units passes",
        "pipelines/aggregators/clipped.py",
        "if (counts.reshape(-1, self.cells).sum(axis=1) != units).any():",
        "if (counts.reshape(-1, self.cells).sum(axis=1) > units).any():",
        "tests/unit/pipelines/aggregators/test_clipped.py"
        "::test_a_group_that_bins_more_or_fewer_units_than_there_are_is_found",
    ),
    Mutant(
        "a histogram total above the units passes",
        "pipelines/aggregators/clipped.py",
        "if (counts.reshape(-1, self.cells).sum(axis=1) != units).any():",
        "if (counts.reshape(-1, self.cells).sum(axis=1) < units).any():",
        "tests/unit/pipelines/aggregators/test_clipped.py"
        "::test_a_group_that_bins_more_or_fewer_units_than_there_are_is_found",
    ),
    Mutant(
        "clipped sums may differ from their totals",
        "pipelines/aggregators/clipped.py",
        "if (group_sums != totals).any() or exceeded:",
        "if exceeded:",
        "tests/unit/pipelines/aggregators/test_clipped.py::test_sums_that_are_not_what_the_units_gave_are_found",
    ),
    Mutant(
        "clipped sums may exceed their units",
        "pipelines/aggregators/clipped.py",
        "if (group_sums != totals).any() or exceeded:",
        "if (group_sums != totals).any():",
        "tests/unit/pipelines/aggregators/test_clipped.py::test_sums_that_are_not_what_the_units_gave_are_found",
    ),
    Mutant(
        "totals of clipped sums wrap around",
        "pipelines/aggregators/clipped.py",
        "            if totals[group] > largest:\n                return False\n",
        "",
        "tests/unit/pipelines/aggregators/test_clipped.py::test_sums_that_pass_64_bits_are_an_engine_error",
    ),
    Mutant(
        "weights of another number of queries",
        "pipelines/aggregators/clipped.py",
        "np.take_along_axis(self.weights, satisfied, axis=1)",
        "np.take_along_axis(self.weights, np.maximum(satisfied - 1, 0), axis=1)",
        "tests/unit/pipelines/aggregators/test_clipped.py::test_equals_the_definition",
    ),
    Mutant(
        "records of the padding are binned",
        "pipelines/aggregators/clipped.py",
        "_bin_units(cells, satisfied[:, : span.stop - span.start], self.starts)",
        "_bin_units(cells, satisfied, self.starts)",
        "tests/unit/pipelines/aggregators/test_clipped.py::test_equals_the_definition",
    ),
    Mutant(
        "the first number of a cell in the cell before",
        "pipelines/aggregators/clipped.py",
        "if starts[middle] <= count:",
        "if starts[middle] < count:",
        "tests/unit/pipelines/aggregators/test_clipped.py::test_equals_the_definition",
    ),
    *(
        Mutant(
            name,
            "pipelines/aggregators/pairs.py",
            before,
            after,
            f"tests/unit/pipelines/aggregators/test_pairs.py::{test}",
        )
        for name, before, after, test in (
            (
                "a weight of another number of pairs",
                "weight = weights[satisfied]",
                "weight = weights[max(satisfied - 1, 0)]",
                "test_equals_the_definition_and_the_general_aggregator",
            ),
            (
                "pairs of a unit leave out its last item",
                "for j in range(i + 1, count):",
                "for j in range(i + 1, count - 1):",
                "test_equals_the_definition_and_the_general_aggregator",
            ),
            (
                "items of a unit stay for the next one",
                "        held[word] = np.uint64(0)\n",
                "",
                "test_equals_the_definition_and_the_general_aggregator",
            ),
            (
                "pairs of some items pass for all pairs",
                "return items if np.array_equal(all_pairs(items), queries.columns) else None",
                "return items",
                "test_other_requests_have_the_general_aggregator",
            ),
            (
                "pairs of two groups pass for one",
                "queries.order != 2 or request.group_sizes.size > 1 or",
                "queries.order != 2 or",
                "test_other_requests_have_the_general_aggregator",
            ),
            (
                "totals of pairs wrap around",
                "        if total[0] > LARGEST_TOTAL:\n            return False\n",
                "",
                "test_sums_that_pass_64_bits_are_an_engine_error",
            ),
            (
                "a histogram of pairs may lose units",
                "if counts.sum() != units:",
                "if counts.sum() > units:",
                "test_a_histogram_that_does_not_count_every_unit_once_is_found",
            ),
        )
    ),
    Mutant(
        "bits that wait for another query are lost",
        "pipelines/aggregators/clipped.py",
        "    _add_waiting(counters, waiting, waits)\n    return count",
        "    return count",
        "tests/unit/pipelines/aggregators/test_clipped.py"
        "::test_counters_hold_the_number_of_satisfied_queries_however_far_the_carries_reach",
    ),
    Mutant(
        "the carry forgets one of three pairs",
        "pipelines/aggregators/clipped.py",
        "both[word] = (x & y) | ((x ^ y) & z)",
        "both[word] = (x & y) | (x & z)",
        "tests/unit/pipelines/aggregators/test_clipped.py"
        "::test_counters_hold_the_number_of_satisfied_queries_however_far_the_carries_reach",
    ),
    Mutant(
        "large baskets come first without their items",
        "pipelines/aggregators/packing.py",
        "for pair in range(starts[units[record]], starts[units[record] + 1]):",
        "for pair in range(starts[record], starts[record + 1]):",
        "tests/unit/pipelines/aggregators/test_packing.py::test_slabs_hold_every_record_once",
    ),
)
