"""Publication: the folder appears whole or not at all, and an interrupted publication can be completed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from dpcore.errors import ConfigError, IntegrityError
from jobs.release import publish
from jobs.release.publish import PublicationState

RELEASE, OTHER = "a" * 64, "b" * 64


def staged(folder: Path) -> Path:
    staging = publish.fresh_staging(publish.state_folder(folder / "out", RELEASE))
    (staging / "answers.parquet").write_bytes(b"answers")
    (staging / "synthetic").mkdir()
    (staging / "synthetic" / "part-00000.parquet").write_bytes(b"rows")
    return staging


def test_a_release_is_published_with_its_hashes(tmp_path: Path) -> None:
    output = tmp_path / "out"
    assert publish.publication_state(output, RELEASE) is PublicationState.ABSENT
    publish.publish(staged(tmp_path), output, RELEASE)
    assert publish.publication_state(output, RELEASE) is PublicationState.DONE
    publish.verify(output)
    manifest = json.loads((output / "manifest.json").read_text())
    assert manifest["release_id"] == RELEASE
    assert [entry["path"] for entry in manifest["files"]] == ["answers.parquet", "synthetic/part-00000.parquet"]
    assert manifest["files"][0]["sha256"] == hashlib.sha256(b"answers").hexdigest()


def test_an_empty_folder_may_be_there_already(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    publish.publish(staged(tmp_path), tmp_path / "out", RELEASE)
    assert publish.publication_state(tmp_path / "out", RELEASE) is PublicationState.DONE


@pytest.mark.parametrize("there", [True, False])
def test_a_link_where_no_rename_works_is_refused(tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    with pytest.raises(ConfigError, match="a link or a mount point"):
        publish.publication_state(tmp_path / "link", RELEASE)


def test_a_mount_point_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out"
    output.mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == output)
    with pytest.raises(ConfigError, match="a link or a mount point"):
        publish.publication_state(output, RELEASE)


@pytest.mark.parametrize("changed", [0, 5_000, 2_999_999])
def test_every_byte_of_a_file_is_hashed(tmp_path: Path, changed: int) -> None:
    """Also beyond the first block that is read."""
    staging, output = staged(tmp_path), tmp_path / "out"
    content = bytearray(3_000_000)
    (staging / "answers.parquet").write_bytes(content)
    publish.publish(staging, output, RELEASE)
    publish.verify(output)
    content[changed] = 1
    (output / "answers.parquet").write_bytes(content)
    with pytest.raises(IntegrityError, match=r"answers\.parquet"):
        publish.verify(output)


def test_every_file_is_synced_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    sync, rename = os.fsync, os.rename

    def synced(handle: int) -> None:
        events.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        sync(handle)

    def renamed(source: Path, target: Path) -> None:
        events.append("rename")
        rename(source, target)

    staging = staged(tmp_path)
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    publish.publish(staging, tmp_path / "out", RELEASE)
    before = events[: events.index("rename")]
    assert set(before) == {"answers.parquet", "part-00000.parquet", "manifest.json", "staging", "synthetic"}
    assert events[events.index("rename") + 1 :] == [tmp_path.name, "_SUCCESS", "out"]


def test_a_crash_before_the_rename_leaves_nothing(tmp_path: Path) -> None:
    staged(tmp_path)
    assert publish.publication_state(tmp_path / "out", RELEASE) is PublicationState.ABSENT
    staging = staged(tmp_path)  # A second try starts with an empty folder.
    assert sorted(path.name for path in staging.iterdir()) == ["answers.parquet", "synthetic"]


def test_a_crash_after_the_rename_is_completed(tmp_path: Path) -> None:
    output = tmp_path / "out"
    publish.publish(staged(tmp_path), output, RELEASE)
    (output / "_SUCCESS").unlink()
    assert publish.publication_state(output, RELEASE) is PublicationState.RENAMED
    publish.verify(output)
    publish.finish(output)
    assert publish.publication_state(output, RELEASE) is PublicationState.DONE


def foreign(output: Path) -> None:
    output.mkdir()
    (output / "notes.txt").write_text("mine")


def another(output: Path) -> None:
    publish.publish(staged(output.parent), output, OTHER)


def a_file(output: Path) -> None:
    output.write_text("mine")


def not_ours(output: Path) -> None:
    output.mkdir()
    (output / "manifest.json").write_text("[]")


@pytest.mark.parametrize("fill", [foreign, another, a_file, not_ours], ids=lambda fill: fill.__name__)
def test_what_is_not_ours_is_refused(tmp_path: Path, fill: object) -> None:
    assert callable(fill)
    fill(tmp_path / "out")
    with pytest.raises(ConfigError, match="out holds"):
        publish.publication_state(tmp_path / "out", RELEASE)


@pytest.mark.parametrize("damage", ["same size", "shorter", "gone"])
def test_a_changed_file_is_an_integrity_error(tmp_path: Path, damage: str) -> None:
    output = tmp_path / "out"
    publish.publish(staged(tmp_path), output, RELEASE)
    answers = output / "answers.parquet"
    if damage == "gone":
        answers.unlink()
    else:
        answers.write_bytes(b"ANSWERS" if damage == "same size" else b"a")
    with pytest.raises(IntegrityError, match=r"answers\.parquet"):
        publish.verify(output)


ENTRY: dict[str, Any] = {"path": "answers.parquet", "bytes": 7, "sha256": hashlib.sha256(b"answers").hexdigest()}
MANIFESTS: list[Any] = [
    {}, {"files": None}, {"files": 3}, {"files": "ab"}, {"files": ["answers.parquet"]}, {"files": [None]},
    {"files": [{"path": "answers.parquet"}]}, {"files": [ENTRY | {"path": 3}]}, {"files": [ENTRY | {"bytes": "7"}]},
    {"files": [ENTRY | {"sha256": None}]}, {"files": [ENTRY], "marquee": None},
]  # fmt: skip


@pytest.mark.parametrize("content", MANIFESTS, ids=json.dumps)
def test_a_manifest_of_another_form_is_an_integrity_error(tmp_path: Path, content: Any) -> None:
    output = tmp_path / "out"
    publish.publish(staged(tmp_path), output, RELEASE)
    (output / "manifest.json").write_text(json.dumps({"release_id": RELEASE, "marquee": "1", **content}))
    assert publish.publication_state(output, RELEASE) is PublicationState.DONE
    with pytest.raises(IntegrityError, match=r"manifest\.json is not a manifest of a release"):
        publish.verify(output)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", None])
def test_an_unreadable_manifest_is_an_integrity_error(tmp_path: Path, content: bytes | None) -> None:
    output = tmp_path / "out"
    publish.publish(staged(tmp_path), output, RELEASE)
    (output / "manifest.json").unlink()
    if content is not None:
        (output / "manifest.json").write_bytes(content)
    with pytest.raises(IntegrityError, match=r"manifest\.json"):
        publish.verify(output)


@pytest.mark.parametrize("name", ["more.parquet", ".hidden", "synthetic/part-00001.parquet", "synthetic/manifest.json"])
def test_a_file_that_the_manifest_does_not_name_is_an_integrity_error(tmp_path: Path, name: str) -> None:
    output = tmp_path / "out"
    publish.publish(staged(tmp_path), output, RELEASE)
    (output / name).write_bytes(b"more")
    with pytest.raises(IntegrityError, match=f"{name} is not listed in the manifest of the release"):
        publish.verify(output)


def test_a_link_that_the_manifest_does_not_name_is_an_integrity_error(tmp_path: Path) -> None:
    output = tmp_path / "out"
    publish.publish(staged(tmp_path), output, RELEASE)
    (output / "link").symlink_to(tmp_path)
    with pytest.raises(IntegrityError, match="link is not listed in the manifest of the release"):
        publish.verify(output)


def test_a_manifest_below_the_top_is_a_file_like_any_other(tmp_path: Path) -> None:
    staging, output = staged(tmp_path), tmp_path / "out"
    (staging / "synthetic" / "manifest.json").write_text("{}")
    publish.publish(staging, output, RELEASE)
    publish.verify(output)
    (output / "synthetic" / "manifest.json").write_text("[]")
    with pytest.raises(IntegrityError, match=r"synthetic/manifest\.json"):
        publish.verify(output)


def test_files_of_others_beside_the_output_stop_no_release(tmp_path: Path) -> None:
    nested, piped = tmp_path / "nested", tmp_path / "piped"
    nested.mkdir()
    piped.mkdir()
    (nested / "manifest.json").write_text("[" * 100_000)
    os.mkfifo(piped / "manifest.json")
    assert publish.trace_of_another_ledger(tmp_path / "out", RELEASE) is None
