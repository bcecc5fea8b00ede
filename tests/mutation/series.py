"""Faults of series: one charge for all steps, one release for each, and rows that do not change."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

_LEDGER = "jobs/ledger/series.py"
_TESTS = "tests/unit/jobs/ledger/test_series.py"
_HISTORY = "tests/unit/pipelines/engines/test_history.py"

MUTANTS: Final = (
    Mutant(
        "the noise of a step is that of its own rows",
        "dpcore/kernel/private_statistics.py",
        "basis = self.terms.measure_basis(strategy, share)",
        "basis = self.terms.measure_basis(part, share)",
        "tests/unit/dpcore/kernel/test_series.py::test_each_step_has_the_noise_of_the_whole_strategy_and_its_charge",
    ),
    Mutant(
        "a step may read later steps",
        "dpcore/kernel/series.py",
        'plain_integer("step", step) + 1 :].any()',
        'plain_integer("step", step) + 2 :].any()',
        "tests/unit/dpcore/kernel/test_series.py::test_what_is_no_part_of_a_series_is_refused",
    ),
    Mutant(
        "a step has several releases",
        _LEDGER,
        "if holder not in (None, release_id):",
        "if False:",
        f"{_TESTS}::test_a_step_belongs_to_one_release_for_ever",
    ),
    Mutant(
        "steps may be left out",
        _LEDGER,
        "if series.step != int(last) + 1:",
        "if series.step <= int(last):",
        f"{_TESTS}::test_steps_come_in_order_and_after_the_answers_before_them",
    ),
    Mutant(
        "a step follows one without answers",
        _LEDGER,
        "State(before.state).step < State.ESTIMATED.step",
        "State(before.state).step < State.RESERVED.step",
        f"{_TESTS}::test_steps_come_in_order_and_after_the_answers_before_them",
    ),
    Mutant(
        "a series begins with any step, at no charge",
        _LEDGER,
        "        if series.step != 1:\n",
        "        if series.step < 1:\n",
        f"{_TESTS}::test_steps_come_in_order_and_after_the_answers_before_them",
    ),
    Mutant(
        "another strategy is paid for",
        _LEDGER,
        "if (row.steps, row.strategy) != (series.steps, series.strategy):",
        "if row.steps != series.steps:",
        f"{_TESTS}::test_another_strategy_is_not_paid_for",
    ),
    Mutant(
        "earlier rows may change",
        _LEDGER,
        "if series.step > 1 and _history(",
        "if series.step > 2 and _history(",
        f"{_TESTS}::test_a_step_that_has_read_other_rows_is_refused",
    ),
    Mutant(
        "a free charge without a series passes",
        _LEDGER,
        "if {release for release, amount in amounts.items() if not amount} != later:",
        "if not later <= amounts.keys():",
        f"{_TESTS}::test_a_free_charge_without_a_series_is_seen",
    ),
    Mutant(
        "later rows are counted",
        "pipelines/engines/history.py",
        "table[self._step + 1 :] = 0",
        "table[self._step + 2 :] = 0",
        f"{_HISTORY}::test_later_steps_are_not_counted",
    ),
    Mutant(
        "the last earlier step is not compared",
        "pipelines/engines/history.py",
        "self._digest(about, table[: self._step])",
        "self._digest(about, table[: self._step - 1])",
        f"{_HISTORY}::test_what_a_step_has_read_is_what_the_next_one_compares",
    ),
    Mutant(
        "later rows displace earlier ones",
        "pipelines/contribution.py",
        "np.lexsort((hashes, steps, np.repeat(",
        "np.lexsort((steps, hashes, np.repeat(",
        "tests/unit/pipelines/test_contribution.py::test_rows_of_later_steps_never_displace_earlier_ones",
    ),
    Mutant(
        "a series truncates by the hash alone",
        "jobs/planning/job.py",
        "return replace(layout, earliest=mechanism.attribute)",
        "return layout",
        "tests/integration/test_series.py::test_later_rows_of_a_unit_never_displace_its_earlier_ones",
    ),
)
