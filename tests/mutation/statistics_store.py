"""Faults of kept statistics: stale entries, units counted twice, and entries that others can read or forge."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

_ENGINE = "pipelines/statistics_store/incremental.py"
_COUNTING = "pipelines/statistics_store/counting.py"
_PARTITIONS = "pipelines/statistics_store/file_groups.py"
_STORE = "pipelines/statistics_store/store.py"
_LAWS = "tests/contract/test_incremental_laws.py"
_UNIT = "tests/unit/pipelines/statistics_store"
_PROPERTY = "tests/property/test_incremental.py"

MUTANTS: Final = (
    Mutant(
        "an entry does not say which version of a file it is about",
        _PARTITIONS,
        "list(version.facts) if version else []",
        "[]",
        f"{_UNIT}/test_file_groups.py::test_a_change_gives_another_key",
    ),
    Mutant(
        "an entry does not say what a table knows about the rows of a file",
        _PARTITIONS,
        'footer = keyed_footer_now(file, b"")',
        'footer = b""',
        f"{_UNIT}/test_file_groups.py::test_what_a_table_says_about_rows_is_part_of_the_key",
    ),
    Mutant(
        "the version of a file leaves out when the system changed it",
        "pipelines/source/versions.py",
        "status.st_mtime_ns, status.st_ctime_ns, status.st_ino), changed",
        "status.st_mtime_ns), changed",
        f"{_UNIT}/test_file_groups.py::test_a_change_gives_another_key",
    ),
    Mutant(
        "statistics of a file of this moment are kept",
        _PARTITIONS,
        "version.changed_ns < latest",
        "True",
        f"{_UNIT}/test_file_groups.py::test_a_file_of_this_moment_is_not_kept",
    ),
    Mutant(
        "a file that changes while it is counted is kept",
        _COUNTING,
        "steady = before == _versions(piece) == piece.versions and",
        "steady =",
        f"{_LAWS}::test_a_file_that_changes_while_it_is_counted_is_not_kept",
    ),
    Mutant(
        "a file that changes after it was read is kept",
        _COUNTING,
        "steady = before == _versions(piece) == piece.versions",
        "steady = before == piece.versions",
        f"{_LAWS}::test_a_file_that_changes_while_it_is_counted_is_not_kept",
    ),
    Mutant(
        "a unit with rows in old and new files is counted in the old ones",
        _ENGINE,
        'dropped = [broken[number].tobytes() if number in broken else b"" for number in part.numbers]',
        'dropped = [b"" for number in part.numbers]',
        f"{_LAWS}::test_a_new_file_with_rows_of_old_units_takes_them_out_of_both",
    ),
    Mutant(
        "a unit with rows in old and new files is counted in the new ones",
        _ENGINE,
        "if any(number in known.broken for part in counted for number in part.numbers):",
        "if False:",
        f"{_LAWS}::test_a_new_file_with_rows_of_old_units_takes_them_out_of_both",
    ),
    Mutant(
        "files that were counted before the claim was checked are counted twice",
        _ENGINE,
        "            if part in counted:\n                continue\n",
        "",
        f"{_PROPERTY}::test_every_run_equals_a_full_run",
    ),
    Mutant(
        "workers count the units that they should leave out",
        _COUNTING,
        "self.aggregator, self._units(file, dropped))",
        "self.aggregator, None)",
        f"{_LAWS}::test_a_new_file_with_rows_of_old_units_takes_them_out_of_both",
    ),
    Mutant(
        "the ranges of files in a group reach only as far as the last one",
        "pipelines/statistics_store/claim.py",
        "reach = max(reach, high)",
        "reach = high",
        f"{_UNIT}/test_claim.py::test_equals_the_comparison_of_all_units",
    ),
    Mutant(
        "ranges that touch are not compared",
        "pipelines/statistics_store/claim.py",
        "low > reach",
        "low >= reach",
        f"{_UNIT}/test_claim.py::test_equals_the_comparison_of_all_units",
    ),
    Mutant(
        "half a digest stands for a unit",
        "pipelines/statistics_store/unit_digests.py",
        "(ranked[1:] != ranked[:-1]).any(axis=1)",
        "(ranked[1:] != ranked[:-1])[:, 0]",
        f"{_UNIT}/test_claim.py::test_half_a_digest_in_common_is_no_unit_in_common",
    ),
    Mutant(
        "the last hashes are not compared",
        "pipelines/statistics_store/claim.py",
        "np.searchsorted(halves, ends), [halves.size]]",
        "np.searchsorted(halves, ends), [0]]",
        f"{_UNIT}/test_claim.py::test_the_largest_hashes_are_compared_too",
    ),
    Mutant(
        "what is known about the last source holds for all",
        _ENGINE,
        "if self._last is None or self._last.source is not source:",
        "if self._last is None:",
        f"{_PROPERTY}::test_every_run_equals_a_full_run",
    ),
    Mutant(
        "entries do not depend on the layout and the salt",
        _ENGINE,
        "context = view_digest(source) + code_digest()",
        "context = code_digest()",
        f"{_LAWS}::test_other_salts_bounds_and_filters_find_no_entries",
    ),
    Mutant(
        "entries do not depend on the request",
        _ENGINE,
        "[request, *dropped]",
        "dropped",
        f"{_LAWS}::test_all_requests_about_overlapping_files_equal_the_engine_itself",
    ),
    Mutant(
        "the facts of an entry run into each other",
        _STORE,
        'return len(part).to_bytes(8, "little") + hashlib.sha256(part).digest()',
        "return part",
        f"{_UNIT}/test_store.py::test_names_differ_by_kind_facts_their_borders_and_the_key",
    ),
    Mutant(
        "others may open the store",
        "pipelines/statistics_store/folder.py",
        "if mode & 0o077 or",
        "if",
        f"{_UNIT}/test_store.py::test_a_folder_that_others_may_open_is_refused",
    ),
    Mutant(
        "entries that a run has used make room for new ones",
        _STORE,
        "if excess <= 0 or entry.used >= self._opened:",
        "if excess <= 0:",
        f"{_UNIT}/test_store.py::test_a_full_store_removes_what_was_not_used_for_longest_but_nothing_of_this_run",
    ),
)
