"""Faults of the contribution bound."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        "units over their bound by one are kept",
        "pipelines/contribution.py",
        "    over = np.flatnonzero(groups.sizes > bound)\n    codes, sizes",
        "    over = np.flatnonzero(groups.sizes > bound + 1)\n    codes, sizes",
        "tests/unit/pipelines/test_contribution.py::test_a_table_keeps_the_rows_with_the_smallest_hashes",
    ),
    Mutant(
        "one row too many is kept",
        "pipelines/contribution.py",
        "for rank in range(min(bound, order.size)):",
        "for rank in range(min(bound + 1, order.size)):",
        "tests/unit/pipelines/test_contribution.py::test_a_table_keeps_the_rows_with_the_smallest_hashes",
    ),
    Mutant(
        "one row too few is kept",
        "pipelines/contribution.py",
        "for rank in range(min(bound, order.size)):",
        "for rank in range(min(bound - 1, order.size)):",
        "tests/unit/pipelines/test_contribution.py::test_a_table_keeps_the_rows_with_the_smallest_hashes",
    ),
    Mutant(
        "rows are kept by their position",
        "pipelines/contribution.py",
        "order = np.argsort(hashes[starts[unit] : starts[unit + 1]])",
        "order = np.arange(starts[unit + 1] - starts[unit])",
        "tests/unit/pipelines/test_contribution.py::test_a_table_keeps_the_rows_with_the_smallest_hashes",
    ),
    Mutant(
        "the hash leaves out the unit",
        "pipelines/contribution.py",
        "words[0] = unit_words(rows.units.take(integers(candidates)), salt)",
        "words[0] = 0",
        "tests/unit/pipelines/test_contribution.py::test_a_table_keeps_the_rows_with_the_smallest_hashes",
    ),
    Mutant(
        "the hash leaves out the row",
        "pipelines/contribution.py",
        "words[1:] = rows.rows[:, candidates]",
        "words[1:] = 0",
        "tests/unit/pipelines/test_contribution.py::test_a_table_keeps_the_rows_with_the_smallest_hashes",
    ),
    Mutant(
        "the hash has no key",
        "pipelines/contribution.py",
        "return hash_words(words, key_of(salt))",
        "return hash_words(words, key_of(bytes(16)))",
        "tests/unit/pipelines/test_contribution.py::test_a_table_keeps_the_rows_with_the_smallest_hashes",
    ),
    Mutant(
        "rows that lie together are always one unit",
        "pipelines/contribution.py",
        "    if bool((heads[1:] > heads[:-1]).all()):\n        return Groups(None, starts)\n",
        "    return Groups(None, starts)\n",
        "tests/unit/pipelines/test_contribution.py::test_groups_rows_by_unit_and_reorders_only_scattered_ones",
    ),
    Mutant(
        "runs are never joined",
        "pipelines/contribution.py",
        "    if distinct == heads.size:\n",
        "    if True:\n",
        "tests/unit/pipelines/test_contribution.py::test_groups_rows_by_unit_and_reorders_only_scattered_ones",
    ),
    Mutant(
        "every row is a run",
        "pipelines/contribution.py",
        "        runs += keys[row] != keys[row - 1]\n",
        "        runs += 1\n",
        "tests/unit/pipelines/test_contribution.py::test_groups_rows_by_unit_and_reorders_only_scattered_ones",
    ),
    Mutant(
        "rows of a unit start late",
        "pipelines/contribution.py",
        "np.repeat(self.starts[units] - starts[:-1], sizes)",
        "np.repeat(self.starts[units] - starts[:-1] + 1, sizes)",
        "tests/unit/pipelines/test_contribution.py::test_groups_rows_by_unit_and_reorders_only_scattered_ones",
    ),
    Mutant(
        "shards without the salt",
        "pipelines/contribution.py",
        "hashes = hash_words(unit_words(units, salt)[None, :], key_of(salt))",
        "hashes = hash_words(unit_words(units, bytes(16))[None, :], key_of(bytes(16)))",
        "tests/unit/pipelines/test_contribution.py::test_shards_depend_on_the_unit_and_the_salt_alone",
    ),
    Mutant(
        "a shard that does not exist",
        "pipelines/contribution.py",
        "hashes % np.uint64(shards)",
        "hashes % np.uint64(shards + 1)",
        "tests/unit/pipelines/test_contribution.py::test_shards_depend_on_the_unit_and_the_salt_alone",
    ),
    Mutant(
        "baskets at the bound are never cut",
        "pipelines/contribution.py",
        "if bound < layout.items else",
        "if bound < layout.items - 1 else",
        "tests/unit/pipelines/test_contribution.py::test_a_bound_one_below_the_number_of_items_cuts_who_has_all",
    ),
)
