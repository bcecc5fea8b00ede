"""Faults of the journal."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        "an answer is used before it is on disk",
        "jobs/release/journal.py",
        "            file.flush()\n            os.fsync(file.fileno())\n        if not",
        "            file.flush()\n        if not",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "a new file's name is not durable",
        "jobs/release/journal.py",
        "            sync_folder(self._path.parent)\n        self._valid_bytes",
        "            pass\n        self._valid_bytes",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "what a killed process wrote is not synced",
        "jobs/release/journal.py",
        "            os.fsync(file.fileno())  # A process that was killed may have written lines and not synced them.\n",
        "",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "a cut line is used",
        "jobs/release/journal.py",
        '            if number == len(lines) - 1 and (not line.endswith(b"\\n") or b"\\0" in line):\n                break\n',
        "",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "a cut line stays in the file",
        "jobs/release/journal.py",
        "            file.truncate(self._valid_bytes)\n",
        "",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "zeros at the end are an answer",
        "jobs/release/journal.py",
        ' or b"\\0" in line',
        "",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "a damaged line in the middle is dropped",
        "jobs/release/journal.py",
        "if number == len(lines) - 1 and (",
        "if (",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "the chain is not checked",
        "jobs/release/journal.py",
        "        if chain != _link(self.head or self._seed, index, request, packed):",
        "        if False:",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "the chain leaves out the answer",
        "jobs/release/journal.py",
        "json.dumps([before, index, request, packed])",
        "json.dumps([before, index, request])",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "the chain leaves out what came before",
        "jobs/release/journal.py",
        "json.dumps([before, index, request, packed])",
        "json.dumps([index, request, packed])",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "the chain leaves out the request",
        "jobs/release/journal.py",
        "json.dumps([before, index, request, packed])",
        "json.dumps([before, index, packed])",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "every release begins alike",
        "jobs/release/journal.py",
        "hashlib.sha256(release_id.encode()).hexdigest()",
        'hashlib.sha256(b"").hexdigest()',
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "another request is answered",
        "jobs/release/journal.py",
        "        if entry.request != request:",
        "        if False:",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "answers in any order",
        "jobs/release/journal.py",
        "        if index != len(self._entries):",
        "        if False:",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "an answer that was not reported is used",
        "jobs/release/journal.py",
        "        self._unreported = True\n",
        "",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "answers are reported before they are on disk",
        "jobs/release/journal.py",
        "        self._append(line.encode())\n        self._unreported = True\n        self._report(index, self.head, head)\n",
        "        self._unreported = True\n        self._report(index, self.head, head)\n        self._append(line.encode())\n",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "two answers that the ledger lacks",
        "jobs/release/journal.py",
        "if len(self) > answers + 1:",
        "if len(self) > answers + 2:",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "the last answer is not reported",
        "jobs/release/journal.py",
        "        if len(self) == answers + 1:\n            self._report(answers, head, self._heads[answers])\n",
        "",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "a shorter journal is accepted",
        "jobs/release/journal.py",
        "if len(self) < answers or self.head_at(answers) != head:",
        "if self.head_at(min(answers, len(self))) != head:",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "other answers are accepted",
        "jobs/release/journal.py",
        "if len(self) < answers or self.head_at(answers) != head:",
        "if len(self) < answers:",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "a stored answer can be changed",
        "jobs/release/journal.py",
        "return entry.answer.copy()",
        "return entry.answer",
        "tests/unit/jobs/release/test_journal.py",
    ),
    Mutant(
        "parts of a journal overlap",
        "jobs/release/journal.py",
        "return self.journal.recall(self.first + index, request)",
        "return self.journal.recall(index, request)",
        "tests/unit/jobs/release/test_journal.py",
    ),
)
