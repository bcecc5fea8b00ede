"""Reads a text file that a person wrote: UTF-8 of bounded size, whatever the file is."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Final

from dpcore.errors import ConfigError

_ENCODINGS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def read_text(path: Path, wanted: str, largest: int) -> str:
    """The text of a file without its byte-order mark.

    path: The file. Devices and pipes are read, too, but no more than ``largest`` bytes of them.
    wanted: What the file should be, for error messages: 'a YAML config'.
    largest: Maximum size, in bytes.

    Raises: ConfigError that names the file, and the line that is not UTF-8.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(largest + 1)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist; want {wanted}") from error
    except IsADirectoryError as error:
        raise ConfigError(f"{path} is a folder; want {wanted}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); want {wanted}") from error
    if len(content) > largest:
        raise ConfigError(f"{path} is larger than {largest >> 20} MiB; want at most that, as {wanted}")
    if content.startswith(b"PAR1"):
        raise ConfigError(f"{path} is a Parquet file; want {wanted}")
    encoding = next((name for mark, name in _ENCODINGS if content.startswith(mark)), None)
    if encoding is None and b"\0" in content:
        encoding = "binary, UTF-16 or UTF-32"
    if encoding is not None:
        raise ConfigError(f"{path} cannot be read, because it is {encoding}; save the file as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
        raise ConfigError(
            f"{path}, line {line} is not UTF-8 text (byte 0x{byte:02X}); save the file as UTF-8"
        ) from error
