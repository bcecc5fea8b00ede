"""Faults of the releases of tables of catalogs and of frames."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

_FRAMES = "tests/integration/test_frame_releases.py"
_HASHES = "tests/unit/pipelines/aggregators/test_row_hashes.py"

MUTANTS: Final = (
    Mutant(
        "rows that changed before they were counted are used",
        "jobs/release/input.py",
        "        if hashes.sums(counts) != self.known:",
        "        if False:",
        f"{_FRAMES}::test_a_frame_that_changes_after_the_charge_is_refused_before_any_draw",
    ),
    Mutant(
        "a frame is read once before the charge",
        "jobs/release/input.py",
        "    if config.frame is not None:  # It is code",
        "    if False:  # It is code",
        f"{_FRAMES}::test_a_frame_that_changes_while_it_is_read_is_refused_before_any_draw",
    ),
    Mutant(
        "rows of another dataset are not recognised",
        "jobs/ledger/binding.py",
        "    if planned.rows is not None:",
        "    if False:",
        f"{_FRAMES}::test_the_same_rows_under_another_name_are_recognised",
    ),
    Mutant(
        "the hash of a row leaves out its unit",
        "pipelines/aggregators/row_hashes.py",
        "part[0] = unit_words(units, key)",
        "part[0] = 0",
        f"{_HASHES}::test_another_row_is_another_sum",
    ),
    Mutant(
        "the hash of a row has no key",
        "pipelines/aggregators/row_hashes.py",
        "hash_words(part, key_of(key))",
        "hash_words(part, key_of(bytes(16)))",
        f"{_HASHES}::test_sums_equal_the_reference_and_leave_the_counts_alone",
    ),
    Mutant(
        "two spellings of a table are two places",
        "jobs/config/dataset.py",
        "catalog_table(name).name.lower()",
        "catalog_table(name).name",
        "tests/unit/jobs/config/test_dataset.py::test_a_name_is_completed_and_bound_in_lower_case",
    ),
    Mutant(
        "a frame is released under a config that names files",
        "jobs/release/input.py",
        "    if name is None and frame is not None:",
        "    if False:",
        f"{_FRAMES}::test_a_frame_and_a_path_are_one_too_many",
    ),
)
