"""Archives of arrays: contents come back, and nothing a file declares is believed before its size is checked."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from dpcore.errors import InputError
from dpcore.estimation.array_archive import checked_archive, new_archive, read_array, write_array, write_bytes

VALUES = np.arange(12.0).reshape(3, 4)


def saved() -> bytes:
    file = io.BytesIO()
    with new_archive(file) as archive:
        write_array(archive, "values", VALUES.T.copy().T, "<f8")
        write_bytes(archive, "text", b"abc")
    return file.getvalue()


def with_member(content: bytes, compression: int = zipfile.ZIP_STORED) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("values.npy", content)
    return file


def claim(shape: str, content: bytes = b"") -> bytes:
    """An array whose header declares a shape, followed by some content."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def test_arrays_and_bytes_come_back() -> None:
    with checked_archive(io.BytesIO(saved()), "file") as archive:
        assert np.array_equal(read_array(archive, "values", "<f8", "values", (3, 4)), VALUES)
        assert np.array_equal(read_array(archive, "values", "<f8", "values"), VALUES)
        assert archive.read("text") == b"abc"
    assert {member.date_time for member in zipfile.ZipFile(io.BytesIO(saved())).infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (claim("(1000000000000,)"), "values has 0 bytes|has [0-9]+ bytes; want 8000000000000"),
        (claim("(1000000, 1000000, 1000000, 1000000)"), "bytes; want 8000000000000000000000000"),
        (claim("(2,)", bytes(8)), "bytes; want 16"),
        (claim("(2,)", bytes(24)), "has 17 bytes; want 16"),
        (claim("(-2, -1)", bytes(16)), "not a file"),
        (claim("(-2,)", bytes(16)), "bytes; want -16"),
        (claim("(" + "1," * 2000 + ")", bytes(8)), "no array of numpy"),
        (b"text", "no array of numpy"),
        (b"", "no array of numpy"),
    ],
)
def test_declared_shapes_are_checked_before_anything_is_allocated(content: bytes, wanted: str) -> None:
    with pytest.raises(InputError, match=wanted), checked_archive(with_member(content), "file") as archive:
        read_array(archive, "values", "<f8", "values")


@pytest.mark.parametrize(("kind", "shape"), [("<i8", (3, 4)), ("<f8", (4, 3)), ("<f8", (12,))])
def test_other_types_and_shapes_are_refused(kind: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="want"), checked_archive(io.BytesIO(saved()), "file") as archive:
        read_array(archive, "values", kind, "values", shape)


def test_compressed_content_long_files_and_missing_members_are_refused() -> None:
    bomb = with_member(claim("(1000000,)", bytes(8_000_000)), zipfile.ZIP_DEFLATED)
    assert len(bomb.getvalue()) < 100_000
    with pytest.raises(InputError, match="compressed or cut short"), checked_archive(bomb, "file"):
        pass
    with pytest.raises(InputError, match="want at most 100"), checked_archive(io.BytesIO(saved()), "file", 100):
        pass
    with (
        pytest.raises(InputError, match="not a file.*KeyError"),
        checked_archive(io.BytesIO(saved()), "file") as archive,
    ):
        read_array(archive, "absent", "<f8", "absent")
