"""Faults of the journal."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        "an answer is used before it is on disk",
        "jobs/release/journal_file.py",
        "            file.flush()\n            os.fsync(file.fileno())\n        if not",
        "            file.flush()\n        if not",
        "tests/unit/jobs/release/test_journal.py"
        "::test_an_answer_is_synced_before_it_is_told_and_told_before_it_is_used",
    ),
    Mutant(
        "a new file's name is not durable",
        "jobs/release/journal_file.py",
        "            sync_folder(self.path.parent)\n        self._valid_bytes",
        "            pass\n        self._valid_bytes",
        "tests/unit/jobs/release/test_journal.py"
        "::test_an_answer_is_synced_before_it_is_told_and_told_before_it_is_used",
    ),
    Mutant(
        "what a killed process wrote is not synced",
        "jobs/release/journal_file.py",
        "            os.fsync(file.fileno())  # A process that was killed may have written lines without syncing them.\n",
        "",
        "tests/unit/jobs/release/test_journal.py::test_what_a_killed_process_wrote_is_synced_before_it_is_used",
    ),
    Mutant(
        "a cut line is used",
        "jobs/release/journal_file.py",
        '        if lines and (not lines[-1].endswith(b"\\n") or b"\\0" in lines[-1]):\n            lines.pop()\n',
        "",
        "tests/unit/jobs/release/test_journal.py::test_a_torn_last_line_is_dropped_and_overwritten",
    ),
    Mutant(
        "a cut line stays in the file",
        "jobs/release/journal_file.py",
        "            file.truncate(self._valid_bytes)\n",
        "",
        "tests/unit/jobs/release/test_journal.py::test_a_torn_line_longer_than_the_next_leaves_nothing_behind",
    ),
    Mutant(
        "zeros at the end are an answer",
        "jobs/release/journal_file.py",
        ' or b"\\0" in lines[-1]',
        "",
        "tests/unit/jobs/release/test_journal.py::test_zeros_where_the_last_line_never_arrived_are_dropped",
    ),
    Mutant(
        "a damaged line in the middle is dropped",
        "jobs/release/journal_file.py",
        "        if lines and (",
        '        while any(b"\\0" in line for line in lines) or lines and (',
        "tests/unit/jobs/release/test_journal.py::test_zeros_in_a_line_before_the_last_are_damage",
    ),
    Mutant(
        "the chain is not checked",
        "jobs/release/journal.py",
        "        if chain != _link(self.head or self._seed, index, request, packed):",
        "        if False:",
        "tests/unit/jobs/release/test_journal.py::test_damage_is_an_integrity_error_that_names_the_file",
    ),
    Mutant(
        "the chain leaves out the answer",
        "jobs/release/journal.py",
        "json.dumps([before, index, request, packed])",
        "json.dumps([before, index, request])",
        "tests/unit/jobs/release/test_journal.py::test_other_answers_at_the_same_place_do_not_agree",
    ),
    Mutant(
        "the chain leaves out what came before",
        "jobs/release/journal.py",
        "json.dumps([before, index, request, packed])",
        "json.dumps([index, request, packed])",
        "tests/unit/jobs/release/test_journal.py::test_the_journal_of_another_release_is_refused",
    ),
    Mutant(
        "the chain leaves out the request",
        "jobs/release/journal.py",
        "json.dumps([before, index, request, packed])",
        "json.dumps([before, index, packed])",
        "tests/unit/jobs/release/test_journal.py::test_a_changed_request_breaks_the_chain",
    ),
    Mutant(
        "every release begins alike",
        "jobs/release/journal.py",
        "hashlib.sha256(release_id.encode()).hexdigest()",
        'hashlib.sha256(b"").hexdigest()',
        "tests/unit/jobs/release/test_journal.py::test_the_journal_of_another_release_is_refused",
    ),
    Mutant(
        "another request is answered",
        "jobs/release/journal.py",
        "        if entry.request != request:",
        "        if False:",
        "tests/unit/jobs/release/test_journal.py::test_another_request_is_never_answered",
    ),
    Mutant(
        "answers in any order",
        "jobs/release/journal.py",
        "        if index != len(self._entries):",
        "        if False:",
        "tests/unit/jobs/release/test_journal.py::test_answers_come_in_order",
    ),
    Mutant(
        "an answer that was not reported is used",
        "jobs/release/journal.py",
        "        self._unreported = True\n",
        "",
        "tests/unit/jobs/release/test_journal.py"
        "::test_an_answer_that_could_not_be_told_is_neither_used_nor_drawn_again",
    ),
    Mutant(
        "answers are reported before they are on disk",
        "jobs/release/journal.py",
        "        self._append(line.encode())\n        self._unreported = True\n        self._report(index, self.head, head)\n",
        "        self._unreported = True\n        self._report(index, self.head, head)\n        self._append(line.encode())\n",
        "tests/unit/jobs/release/test_journal.py"
        "::test_an_answer_is_synced_before_it_is_told_and_told_before_it_is_used",
    ),
    Mutant(
        "two answers that the ledger lacks",
        "jobs/release/journal.py",
        "if len(self) > answers + 1:",
        "if len(self) > answers + 2:",
        "tests/unit/jobs/release/test_journal.py::test_a_journal_agrees_with_what_is_known_of_it",
    ),
    Mutant(
        "the last answer is not reported",
        "jobs/release/journal.py",
        "        if len(self) == answers + 1:\n            self._report(answers, head, self._heads[answers])\n",
        "",
        "tests/unit/jobs/release/test_journal.py"
        "::test_an_answer_that_could_not_be_told_is_neither_used_nor_drawn_again",
    ),
    Mutant(
        "a shorter journal is accepted",
        "jobs/release/journal.py",
        "if len(self) < answers or self.head_at(answers) != head:",
        "if self.head_at(min(answers, len(self))) != head:",
        "tests/unit/jobs/release/test_journal.py",
        equivalent="the head of fewer answers is a hash over fewer lines, and differs from the head of more: the second comparison refuses",
    ),
    Mutant(
        "other answers are accepted",
        "jobs/release/journal.py",
        "if len(self) < answers or self.head_at(answers) != head:",
        "if len(self) < answers:",
        "tests/unit/jobs/release/test_journal.py::test_other_answers_at_the_same_place_do_not_agree",
    ),
    Mutant(
        "a stored answer can be changed",
        "jobs/release/journal.py",
        "return entry.answer.copy()",
        "return entry.answer",
        "tests/unit/jobs/release/test_journal.py::test_a_recalled_answer_is_a_copy",
    ),
    Mutant(
        "parts of a journal overlap",
        "jobs/release/journal.py",
        "return self.journal.recall(self.first + index, request)",
        "return self.journal.recall(index, request)",
        "tests/unit/jobs/release/test_journal.py::test_a_part_of_a_journal_begins_where_it_says",
    ),
)
