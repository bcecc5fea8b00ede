"""Faults of partitions: units that count where they must not, and charges that compose to too little."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

_LAWS = "tests/contract/test_partition_laws.py"
_COUNTS = f"{_LAWS}::test_the_local_engine_counts_what_the_slow_reference_counts"
_UNIT = f"{_LAWS}::test_a_unit_moves_only_the_releases_of_partitions_in_which_it_counts"
_WORST = "tests/unit/jobs/ledger/test_partitioning.py::test_spent_bounds_the_worst_unit_and_is_what_the_words_say"
_FITS = "tests/unit/jobs/ledger/test_partitioning.py::test_the_available_amount_just_fits_the_total"
_LEDGER = "tests/unit/jobs/ledger/test_partitions.py"
_RELEASES = "tests/integration/test_partition_releases.py"

MUTANTS: Final = (
    Mutant(
        "a unit in several partitions counts",
        "pipelines/partition_rows.py",
        "kept = np.repeat(sizes, sizes) == 1",
        "kept = np.repeat(sizes, sizes) >= 1",
        _UNIT,
    ),
    Mutant(
        "a unit counts in one partition too many",
        "pipelines/partition_rows.py",
        "np.repeat(starts, sizes) < (",
        "np.repeat(starts, sizes) <= (",
        _UNIT,
    ),
    Mutant(
        "partitions are ordered as they appear",
        "pipelines/partition_rows.py",
        "places[order] = np.arange(order.size)",
        "places[:] = np.arange(order.size)",
        _COUNTS,
    ),
    Mutant(
        "rows that do not pass the filter say nothing about their unit",
        "pipelines/partition_rows.py",
        "partition.matters(keys) & ~counted)",
        "partition.matters(keys) & ~counted & layout.where.passing(batch))",
        f"{_LAWS}::test_a_filter_of_rows_does_not_decide_where_a_unit_counts",
    ),
    Mutant(
        "files of other partitions are not read",
        "pipelines/source/partition_files.py",
        "return Need.UNITS if partition.matters(keys)[0] else Need.NOTHING",
        "return Need.NOTHING",
        _UNIT,
    ),
    Mutant(
        "a bound on partitions is checked file by file",
        "pipelines/layout.py",
        "return clustered and (partition is None or not partition.is_checked)",
        "return clustered",
        f"{_LAWS}::test_a_claim_of_clustered_files_changes_nothing",
    ),
    Mutant(
        "a path may leave out partitions",
        "jobs/planning/partition.py",
        "if partition.is_checked and dataset.path is not None",
        "if False and dataset.path is not None",
        f"{_RELEASES}::test_what_is_refused",
    ),
    Mutant(
        "a unit loses one partition less",
        "jobs/ledger/partitioning.py",
        "self.whole + sum(heapq.nlargest(self.limit, self.blocks.values()), Fraction(0)))",
        "self.whole + sum(heapq.nlargest(self.limit - 1, self.blocks.values()), Fraction(0)))",
        _WORST,
    ),
    Mutant(
        "charges of the whole dataset reach no partition",
        "jobs/ledger/partitioning.py",
        "return min(self.all, self.whole + sum(",
        "return min(self.all, sum(",
        _WORST,
    ),
    Mutant(
        "a release of several partitions is charged to the first",
        "jobs/ledger/partitioning.py",
        "for name in names:\n                blocks[name]",
        "for name in names[:1]:\n                blocks[name]",
        _WORST,
    ),
    Mutant(
        "the largest bound on an amount counts",
        "jobs/ledger/partitioning.py",
        "return max(simple, min(bounds))",
        "return max(simple, *bounds)",
        _FITS,
    ),
    Mutant(
        "partitions of two types are told apart",
        "jobs/ledger/block_rows.py",
        "- {blocks.values.value}\n    if kinds:",
        "- {blocks.values.value}\n    if False:",
        f"{_LEDGER}::test_what_does_not_keep_to_the_partitioning_is_refused",
    ),
    Mutant(
        "a release that may replace units is charged to a partition",
        "jobs/ledger/block_rows.py",
        "if release.neighbours is not Neighbours.ADD_REMOVE_UNIT:",
        "if False:",
        f"{_LEDGER}::test_a_charge_for_replacing_is_that_of_group_privacy_in_each_partition",
    ),
    Mutant(
        "a verified release may have been charged to other partitions",
        "jobs/verification/records.py",
        "if sorted(named) == sorted(charged):",
        "if True:",
        f"{_RELEASES}::test_a_release_of_other_partitions_than_were_charged_is_noticed",
    ),
)
