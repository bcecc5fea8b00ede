"""Faults of releases in object stores."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

_FOLDER: Final = "tests/unit/jobs/objects/test_folder.py"
_STORES: Final = "tests/integration/test_object_stores.py"

MUTANTS: Final = (
    Mutant(
        "a repeated put takes its own object for another's",
        "jobs/objects/folder.py",
        "return self._try(put) or self.read(name) == content",
        "return self._try(put)",
        f"{_FOLDER}::test_a_put_whose_answer_is_lost_finds_its_own_object",
    ),
    Mutant(
        "a put replaces what another run has stored",
        "jobs/objects/folder.py",
        'content, mode="create")',
        'content, mode="overwrite")',
        f"{_FOLDER}::test_one_of_two_answers_with_one_number_is_stored",
    ),
    Mutant(
        "an answer is used although another was stored",
        "jobs/release/journal_objects.py",
        "if not self._folder.create(_name(index), line):",
        "if self._folder.create(_name(index), line) is None:",
        f"{_FOLDER}::test_one_of_two_answers_with_one_number_is_stored",
    ),
    Mutant(
        "two ledgers share a journal",
        "jobs/release/journal_objects.py",
        "        if owner != self._owner:",
        "        if False:",
        f"{_FOLDER}::test_a_journal_of_another_ledger_is_refused",
    ),
    Mutant(
        "a journal with a gap is read",
        "jobs/release/journal_objects.py",
        "if numbers != list(range(len(numbers))):",
        "if False:",
        f"{_FOLDER}::test_a_gap_is_damage",
    ),
    Mutant(
        "answers that were deleted are drawn again",
        "jobs/release/journals.py",
        "    journal.check_holds(before.answers or 0, before.journal_head)\n    after",
        "    after",
        f"{_STORES}::test_answers_that_were_deleted_are_not_drawn_again",
    ),
    Mutant(
        "a store that ignores conditions is used",
        "jobs/release/stored.py",
        ' or state.create(_PROBE, b"twice\\n")',
        "",
        f"{_STORES}::test_nothing_is_charged_where_conditional_puts_are_ignored",
    ),
    Mutant(
        "another run's manifest is completed with these files",
        "jobs/release/stored.py",
        "    if not output.create(MANIFEST, manifest):",
        "    if output.create(MANIFEST, manifest) is None:",
        f"{_STORES}::test_a_run_with_other_bytes_does_not_mix_with_one_that_has_begun",
    ),
    Mutant(
        "a manifest that the ledger does not know is completed",
        "jobs/release/finished.py",
        "        if record.manifest_sha256 != publish.manifest_sha256(job.output):",
        "        if False:",
        f"{_STORES}::test_a_manifest_that_the_ledger_does_not_know_is_not_completed",
    ),
    Mutant(
        "a snapshot changes the settings of a URL",
        "jobs/config/output_path.py",
        " or (in_store and _NO_KEY.search(value))",
        "",
        f"{_STORES}::test_a_snapshot_cannot_change_the_settings_of_a_url",
    ),
    Mutant(
        "the message of a store is shown",
        "jobs/objects/failures.py",
        "could not be reached in its store ({kind})",
        "could not be reached in its store ({message})",
        "tests/unit/jobs/objects/test_address.py::test_a_failure_says_what_is_wrong",
    ),
)
