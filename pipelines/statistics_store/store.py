"""Encrypted entries in a folder, each under a name that follows from what it says. SENSITIVE.

An entry is encrypted and authenticated with AES-256-GCM (NIST SP 800-38D) under a key of its own, and its name is part
of what is authenticated. Names and keys are HMAC-SHA-256 values under the store's key. So whoever may read the folder
learns the number, sizes and times of entries, and whoever may write to it can remove entries or bring back old ones,
which say the same as they did: the name of an entry covers everything that its content depends on.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from dpcore.errors import ConfigError
from pipelines.statistics_store import folder as files

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
"""Size of a store's key."""

DAY: Final = 86_400.0
"""Seconds of a day."""

_log = logging.getLogger(__name__)

_MAGIC: Final = b"marquee1"
_NONCE: Final = 12
_ID: Final = 8


@dataclass(frozen=True)
class StoreLimits:
    """How long and how much a store keeps. Reaching a limit costs time, and never changes a count.

    keep_days: Days after its last use after which an entry is removed, at least 1.
    max_bytes: Bytes of all entries, at least 1. Beyond it, the entries that were not used for longest are removed.

    Raises: ConfigError for a limit below 1.
    """

    keep_days: int = 30
    max_bytes: int = 10 << 30

    def __post_init__(self) -> None:
        if self.keep_days < 1 or self.max_bytes < 1:
            raise ConfigError("keep_days or max_bytes of a statistics store is below 1; want >= 1")


@final
@dataclass(eq=False)
class StatisticsStore:
    """The entries of a folder under one key. SENSITIVE. Several runs may use the folder at once.

    path: The folder, which is made if it does not exist. Only its owner may open it.
    key: 32 secret bytes. Under another key no entry is found; those of the old key expire.
    limits: What is removed.
    warn: Is told in words without values what went wrong. Nothing that goes wrong with an entry fails a run.

    Raises: ConfigError when the key has another length, the library ``cryptography`` is not installed, or others may
        open the folder.
    """

    path: Path
    key: bytes = field(repr=False)
    limits: StoreLimits = StoreLimits()
    warn: Callable[[str], None] = field(default=_log.warning, repr=False)
    _opened: float = field(default=0.0, init=False, repr=False)
    _size: int = field(default=0, init=False, repr=False)  # SENSITIVE
    _warned: set[str] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise ConfigError(f"the key of the statistics store has another length; want {KEY_BYTES} bytes")
        _cipher(self.key)
        files.open_folder(self.path)
        self._opened = time.time()
        self.clean()

    def derived(self, purpose: str) -> bytes:
        """32 secret bytes that follow from the key and a purpose."""
        return hmac.digest(self.key, f"marquee statistics store, {purpose}".encode(), "sha256")

    def name(self, kind: str, facts: Sequence[bytes]) -> str:
        """The name of an entry.

        kind: What the entry says, in a word.
        facts: Everything that its content depends on.
        """
        parts = [kind.encode(), *facts]
        return hmac.digest(self.derived("names"), b"".join(_sized(part) for part in parts), "sha256").hex()

    def get(self, name: str) -> bytes | None:
        """The content of an entry; None if there is none, or it is damaged. SENSITIVE."""
        path = files.path_of(self.path, name)
        stored = files.read(path)
        if stored is None:
            return None
        content = self._decrypted(name, stored)
        if content is None:
            # Whoever damages an entry must not be able to stop a release, and the files can still be counted.
            self._warn_once("damaged", "entries of the statistics store are damaged or forged, and are counted again")
            path.unlink(missing_ok=True)
        return content

    def put(self, name: str, content: bytes) -> None:
        """Writes an entry. What cannot be kept is left out, with one warning."""
        if "full" in self._warned:  # Whatever could be removed was removed.
            return
        nonce, header = os.urandom(_NONCE), self._header
        sealed = _cipher(self._key_of(name)).encrypt(nonce, content, header + name.encode())
        stored = header + nonce + sealed
        if self._size + len(stored) > self.limits.max_bytes:
            self._make_room(len(stored))
        if self._size + len(stored) > self.limits.max_bytes:
            self._warn_once("full", "the statistics store is full, so that files are read again; want a larger max_mb")
            return
        try:
            files.write(files.path_of(self.path, name), stored)
        except OSError as error:
            self._warn_once(
                "unwritten", f"the statistics store cannot be written ({error.strerror}), so that files are read again"
            )
            return
        self._size += len(stored)

    def clean(self, keep_days: int | None = None) -> tuple[int, int]:
        """Removes what has expired, and what killed runs have left; returns the removed files and bytes. SENSITIVE.

        keep_days: Days after the last use; those of the limits by default.
        """
        now = time.time()
        days = self.limits.keep_days if keep_days is None else keep_days
        return_value, self._size = clean_folder(self.path, days, now)
        return return_value

    @property
    def _header(self) -> bytes:
        return _MAGIC + self.derived("identity")[:_ID]

    def _key_of(self, name: str) -> bytes:
        return hmac.digest(self.derived("entries"), name.encode(), "sha256")

    def _decrypted(self, name: str, stored: bytes) -> bytes | None:
        from cryptography.exceptions import InvalidTag

        header, start = self._header, len(_MAGIC) + _ID
        if not hmac.compare_digest(stored[:start], header):
            return None
        nonce, sealed = stored[start : start + _NONCE], stored[start + _NONCE :]
        try:
            return _cipher(self._key_of(name)).decrypt(nonce, sealed, header + name.encode())
        except (InvalidTag, ValueError):
            return None

    def _make_room(self, needed: int) -> None:
        """Removes the entries that were not used for longest, but none that this run has used."""
        known = sorted(files.entries(self.path), key=lambda entry: entry.used)
        self._size = sum(entry.size for entry in known)
        excess = self._size + needed - self.limits.max_bytes
        chosen = []
        for entry in known:
            if excess <= 0 or entry.used >= self._opened:
                break
            chosen.append(entry)
            excess -= entry.size
        self._size -= files.remove(chosen)[1]

    def _warn_once(self, about: str, text: str) -> None:
        if about not in self._warned:
            self._warned.add(about)
            self.warn(text)


def clean_folder(folder: Path, keep_days: int, now: float) -> tuple[tuple[int, int], int]:
    """Removes the entries of a folder that have expired, and what killed runs have left. No key is needed. SENSITIVE.

    folder: The folder of a store.
    keep_days: Days after its last use after which an entry is removed; 0 for all.
    now: The time, in seconds since 1970.

    Returns: The number and bytes of the removed files, and the bytes of the remaining entries.
    """
    files.check_private(folder)
    expired, remaining = [], 0
    for entry in files.entries(folder):
        if entry.used <= now - keep_days * DAY:
            expired.append(entry)
        else:
            remaining += entry.size
    return files.remove([*expired, *files.unfinished(folder, now)]), remaining


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(8, "little") + hashlib.sha256(part).digest()


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError as error:
        raise ConfigError("a statistics store needs 'cryptography'; install marquee[incremental]") from error
    return AESGCM(key)
