"""Text files of people are read in bounded bytes, and other encodings are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcore.errors import ConfigError
from pipelines.text_file import read_text


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("caf\u00e9".encode("utf-8-sig"))
    assert read_text(tmp_path / "a", "text", 10) == "caf\u00e9"


@pytest.mark.parametrize(("content", "says"), [
    (b"x" * 11, "is larger than 0 MiB; want at most that, as text"),
    (b"PAR1", "is a Parquet file; want text"),
    ("x".encode("utf-16"), "it is UTF-16; save the file as UTF-8"),
    ("x".encode("utf-32"), "it is UTF-32; save the file as UTF-8"),
    ("x".encode("utf-16-le"), "it is binary, UTF-16 or UTF-32; save the file as UTF-8"),
    (b"a\nb\n\xe9", r"a, line 3 is not UTF-8 text \(byte 0xE9\); save the file as UTF-8"),
])  # fmt: skip
def test_what_is_no_text_is_named(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        read_text(tmp_path / "a", "text", 10)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, says in (
        (tmp_path, "is a folder; want text"),
        (tmp_path / "none", "does not exist; want text"),
        (tmp_path / "file" / "x", "cannot be read \\(Not a directory\\); want text"),
        (Path("/dev/zero"), "is larger than 1 MiB"),
    ):
        with pytest.raises(ConfigError, match=says):
            read_text(path, "text", 1 << 20)
