"""Faults of what is read: deleted rows, filtered rows, folders of tables, and the claim of clustered files."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

_CLAIM = "tests/unit/pipelines/engines/test_claim.py"
_FILTER = "tests/unit/pipelines/test_row_filter.py"
_FORMATS = "tests/integration/test_table_formats.py"

MUTANTS: Final = (
    Mutant(
        "batches are counted again after an answer that broke off",
        "pipelines/source/batches.py",
        "columns, row_groups), passed, None)",
        "columns, row_groups), 0, None)",
        "tests/unit/pipelines/test_source.py::test_a_file_whose_answer_breaks_off_is_read_on_where_it_was",
    ),
    Mutant(
        "ranges that touch count as disjoint",
        "pipelines/engines/claim.py",
        "all(first.high < second.low for",
        "all(first.high <= second.low for",
        f"{_CLAIM}::test_disjoint_ranges",
    ),
    Mutant(
        "ranges are compared in the order of the files",
        "pipelines/engines/claim.py",
        "in pairwise(sorted(ranges))",
        "in pairwise(ranges)",
        f"{_CLAIM}::test_disjoint_ranges",
    ),
    Mutant(
        "units that break the claim are counted",
        "pipelines/engines/claim.py",
        "return counts if broken is None else count(broken)[0]",
        "return counts",
        f"{_CLAIM}::test_units_are_compared_only_where_ranges_overlap",
    ),
    Mutant(
        "what was found for one source holds for all",
        "pipelines/engines/claim.py",
        "if self._source is source:",
        "if self._source is not None:",
        f"{_CLAIM}::test_another_source_of_the_same_files_is_checked_anew",
    ),
    Mutant(
        "the range of a file is that of its first batch",
        "pipelines/engines/claim.py",
        "min(end.low for end in self._ends), max(end.high for end in self._ends)",
        "self._ends[0].low, self._ends[0].high",
        f"{_CLAIM}::test_the_range_of_batches_is_that_of_all_of_them",
    ),
    Mutant(
        "null passes a filter",
        "pipelines/row_filter.py",
        "passing &= ~null",
        "passing |= null",
        f"{_FILTER}::test_equals_the_slow_reading",
    ),
    Mutant(
        "unlisted values pass a filter",
        "pipelines/row_filter.py",
        "return marked_codes(column, self._listed) >= 0",
        "return marked_codes(column, self._listed) >= -1",
        f"{_FILTER}::test_equals_the_slow_reading",
    ),
    Mutant(
        "one condition is enough",
        "pipelines/row_filter.py",
        "passing &= condition.passes(batch.column(condition.column))",
        "passing = condition.passes(batch.column(condition.column))",
        f"{_FILTER}::test_all_conditions_must_be_met",
    ),
    Mutant(
        "files are read without the filter",
        "pipelines/partition_rows.py",
        "yield layout.where.apply(batch).select(names)",
        "yield batch.select(names)",
        f"{_FILTER}::test_a_filtered_source_is_the_source_of_the_filtered_rows",
    ),
    Mutant(
        "deleted rows are read",
        "pipelines/source/batches.py",
        "if live is not None:",
        "if live is None:",
        f"{_FORMATS}::test_deletion_vectors_find_their_files_whatever_the_partition_is_called",
    ),
    Mutant(
        "every batch is taken for the first of its file",
        "pipelines/source/batches.py",
        "        first_row += batch.num_rows\n",
        "",
        f"{_FORMATS}::test_deleted_rows_are_found_in_every_row_group",
    ),
    Mutant(
        "row groups before the first one are forgotten",
        "pipelines/source/batches.py",
        "before = range(min(row_groups, default=0)) if row_groups is not None else ()",
        "before = ()",
        f"{_FORMATS}::test_deleted_rows_are_found_in_every_row_group",
    ),
    Mutant(
        "a deletion vector that meets no file is ignored",
        "pipelines/source/delta.py",
        "if live or len(",
        "if len(",
        f"{_FORMATS}::test_refuses_a_list_of_deleted_rows_that_meets_no_file",
    ),
    Mutant(
        "lists that spell paths in another way are ignored",
        "pipelines/source/iceberg.py",
        "deletes[_normal(name)].append(positions)",
        "deletes[name].append(positions)",
        f"{_FORMATS}::test_lists_of_deleted_rows_find_their_files_in_every_spelling",
    ),
    Mutant(
        "the folder of a table is read as plain files",
        "pipelines/source/listing.py",
        "            raise _is_table(_LOGS[info.base_name], above, path)\n",
        "            pass\n",
        f"{_FORMATS}::test_refuses_the_folder_of_a_hudi_table",
    ),
    Mutant(
        "links into a table are followed",
        "pipelines/source/listing.py",
        "for folder in sorted({real for spelled, real in places if real != spelled}):",
        "for folder in ():",
        f"{_FORMATS}::test_refuses_links_into_a_table",
    ),
    Mutant(
        "rows deleted beside a file do not change the fingerprint",
        "pipelines/source/content.py",
        "_sized(size, footer) + facts_outside, key=key",
        "_sized(size, footer), key=key",
        f"{_FORMATS}::test_deleted_rows_change_the_fingerprint",
    ),
)
