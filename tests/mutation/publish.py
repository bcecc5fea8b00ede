"""Faults of publishing."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        "a mount point is accepted",
        "jobs/release/publish.py",
        "output.is_symlink() or os.path.ismount(output)",
        "output.is_symlink()",
        "tests/unit/jobs/release/test_publish.py::test_a_mount_point_is_refused",
    ),
    Mutant(
        "a link is accepted",
        "jobs/release/publish.py",
        "output.is_symlink() or os.path.ismount(output)",
        "os.path.ismount(output)",
        "tests/unit/jobs/release/test_publish.py::test_a_link_where_no_rename_works_is_refused",
    ),
    Mutant(
        "an empty folder counts as something else",
        "jobs/release/publish.py",
        " or (output.is_dir() and not any(output.iterdir()))",
        "",
        "tests/unit/jobs/release/test_publish.py::test_a_link_where_no_rename_works_is_refused",
    ),
    Mutant(
        "another release's folder is taken over",
        "jobs/release/publish.py",
        "    if found != release_id:",
        "    if False:",
        "tests/unit/jobs/release/test_publish.py::test_what_is_not_ours_is_refused",
    ),
    Mutant(
        "a folder of something else is absent",
        "jobs/release/publish.py",
        "    if found is None:\n        raise",
        "    if False:\n        raise",
        "tests/unit/jobs/release/test_publish.py::test_what_is_not_ours_is_refused",
    ),
    Mutant(
        "a folder without the mark is complete",
        "jobs/release/publish.py",
        "PublicationState.DONE if (output / SUCCESS).exists() else PublicationState.RENAMED",
        "PublicationState.DONE",
        "tests/unit/jobs/release/test_publish.py::test_a_crash_after_the_rename_is_completed",
    ),
    Mutant(
        "staged leftovers are published",
        "jobs/release/publish.py",
        "        shutil.rmtree(staging)\n",
        "        pass\n",
        "tests/unit/jobs/release/test_publish.py::test_a_crash_before_the_rename_leaves_nothing",
    ),
    Mutant(
        "files are renamed before they are durable",
        "jobs/release/publish.py",
        "    for path in files:\n        _sync(path)\n",
        "",
        "tests/unit/jobs/release/test_publish.py::test_every_file_is_synced_before_the_rename",
    ),
    Mutant(
        "folders are renamed before they are durable",
        "jobs/release/publish.py",
        "        sync_folder(folder)\n    output.parent",
        "        pass\n    output.parent",
        "tests/unit/jobs/release/test_publish.py::test_every_file_is_synced_before_the_rename",
    ),
    Mutant(
        "the mark comes before the rename",
        "jobs/release/publish.py",
        "    os.rename(staging, output)\n    finish(output)",
        '    _write(staging / SUCCESS, b"")\n    os.rename(staging, output)',
        "tests/unit/jobs/release/test_publish.py::test_every_file_is_synced_before_the_rename",
    ),
    Mutant(
        "the mark is not durable",
        "jobs/release/publish.py",
        '    _write(output / SUCCESS, b"")\n    sync_folder(output)',
        '    _write(output / SUCCESS, b"")',
        "tests/unit/jobs/release/test_publish.py::test_every_file_is_synced_before_the_rename",
    ),
    Mutant(
        "the rename is not durable",
        "jobs/release/publish.py",
        "    sync_folder(output.parent)\n    _write(output / SUCCESS",
        "    _write(output / SUCCESS",
        "tests/unit/jobs/release/test_publish.py::test_every_file_is_synced_before_the_rename",
    ),
    Mutant(
        "changed bytes of the same size pass",
        "jobs/verification/manifest.py",
        " or sha256_of(path) != entry.sha256",
        "",
        "tests/unit/jobs/release/test_publish.py::test_every_byte_of_a_file_is_hashed",
    ),
    Mutant(
        "files of another size pass",
        "jobs/verification/manifest.py",
        " or path.stat().st_size != entry.size",
        "",
        "tests/unit/jobs/release/test_publish.py",
        equivalent="a file of another size has another SHA-256, which is compared next; the size only makes the refusal cheap",
    ),
    Mutant(
        "unknown files pass",
        "jobs/verification/manifest.py",
        "sorted((regular | others) - named_files)",
        "sorted(others - named_files)",
        "tests/unit/jobs/release/test_publish.py::test_a_file_that_the_manifest_does_not_name_is_an_integrity_error",
    ),
    Mutant(
        "links among the files pass",
        "jobs/verification/manifest.py",
        "sorted((regular | others) - named_files)",
        "sorted(regular - named_files)",
        "tests/unit/jobs/release/test_publish.py::test_a_link_that_the_manifest_does_not_name_is_an_integrity_error",
    ),
    Mutant(
        "entries of any type pass",
        "jobs/verification/manifest.py",
        "    if (type(entry.path), type(entry.size), type(entry.sha256)) != (str, int, str):",
        "    if False:",
        "tests/unit/jobs/release/test_publish.py::test_a_manifest_of_another_form_is_an_integrity_error",
    ),
    Mutant(
        "only the first bytes are hashed",
        "jobs/verification/manifest.py",
        "        while chunk := file.read(_CHUNK):\n            content.update(chunk)\n",
        "        content.update(file.read(16))\n",
        "tests/unit/jobs/release/test_publish.py::test_every_byte_of_a_file_is_hashed",
    ),
    Mutant(
        "written files are not synced",
        "jobs/release/publish.py",
        "        file.write(content)\n        file.flush()\n        os.fsync(file.fileno())",
        "        file.write(text)",
        "tests/unit/jobs/release/test_publish.py::test_every_file_is_synced_before_the_rename",
    ),
)
