"""A folder in an object store, with the few operations that a release needs."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar, final

from dpcore.errors import ConfigError, MarqueeError
from jobs.objects.address import Address
from jobs.objects.failures import ATTEMPTS, described, has_no_bucket, is_passing

T = TypeVar("T")
_RETRIES: Final = 4  # By the client library, for what it knows to be safe to repeat.
_FIRST_WAIT: Final = 0.1
_THREADS: Final = 16
_PUT_AT_ONCE: Final = 64 << 20  # Larger files are sent in parts.
_COPIED_AT_ONCE: Final = 4 << 30  # S3 copies objects of up to 5 GB by one request.
_CHUNK: Final = 8 << 20


@final
@dataclass(frozen=True)
class StoredFolder:
    """All objects whose keys begin with the key of a folder and a slash. A name is the rest of such a key.

    address: The folder.

    Guarantees:
        * An object appears whole or not at all, and is durable when a method that writes it returns.
        * ``create`` never replaces an object, whoever else writes and however often its request is repeated.

    Raises (all methods): ConfigError when the bucket does not exist, or credentials are missing or insufficient, or the
        library is not installed; EngineError when the store cannot be reached within a bounded number of attempts.
    """

    address: Address

    def __str__(self) -> str:
        return str(self.address)

    @property
    def name(self) -> str:
        """The last part of the folder's key."""
        return self.address.key.rpartition("/")[2]

    @property
    def parent(self) -> StoredFolder:
        """The folder above."""
        return self._with_key(self.address.key.rpartition("/")[0])

    def __truediv__(self, name: str) -> StoredFolder:
        """A folder in this folder."""
        return self._with_key(self._key(name))

    def read(self, name: str) -> bytes | None:
        """The content of an object; None if there is none."""

        def get(client: Any, store: Any) -> bytes | None:
            try:
                return bytes(client.get(store, self._key(name)).bytes())
            except FileNotFoundError as error:
                if has_no_bucket(error):
                    raise
                return None

        return self._try(get)

    def read_all(self, names: Iterable[str]) -> list[bytes | None]:
        """The contents of many objects, in their order."""
        with ThreadPoolExecutor(_THREADS) as threads:
            return list(threads.map(self.read, names))

    def create(self, name: str, content: bytes) -> bool:
        """Writes an object unless there is one, by one conditional put.

        A request whose answer was lost is made again and then finds its own object: equal content counts as written.

        Returns: Whether the object now has this content; False if it has another.
        """

        def put(client: Any, store: Any) -> bool:
            try:
                client.put(store, self._key(name), content, mode="create")
            except _exceptions().AlreadyExistsError:
                return False
            return True

        return self._try(put) or self.read(name) == content

    def upload(self, name: str, file: Path) -> None:
        """Writes a file as an object, and replaces an object that is there."""
        parts = file.stat().st_size > _PUT_AT_ONCE
        self._try(lambda client, store: client.put(store, self._key(name), file, use_multipart=parts))

    def copy(self, source: StoredFolder, source_name: str, name: str, size: int) -> bool:
        """Copies an object of another folder of this bucket, and replaces an object that is there.

        A very large one goes through a temporary file, because S3 does not copy it by one request.

        size: Its size in bytes.

        Returns: Whether there is such an object.
        """

        def copied(client: Any, store: Any) -> bool:
            start, end = source._key(source_name), self._key(name)
            try:
                if size <= _COPIED_AT_ONCE:
                    client.copy(store, start, end)
                    return True
                with tempfile.TemporaryFile() as file:
                    for chunk in client.get(store, start).stream(min_chunk_size=_CHUNK):
                        file.write(chunk)
                    file.seek(0)
                    client.put(store, end, file, use_multipart=True)
            except FileNotFoundError as error:
                if has_no_bucket(error):
                    raise
                return False
            return True

        return self._try(copied)

    def sizes(self) -> dict[str, int]:
        """The size of every object in the folder in bytes, by its name.

        Empty objects that stand for a folder of other objects, as consoles and file systems create them, are left out.
        """
        start = f"{self.address.key}/" if self.address.key else ""

        def listed(client: Any, store: Any) -> dict[str, int]:
            objects = [entry for batch in client.list(store, self.address.key or None) for entry in batch]
            sizes = {entry["path"][len(start) :]: entry["size"] for entry in objects if entry["path"].startswith(start)}
            above = {str(parent) for name in sizes for parent in PurePosixPath(name).parents}
            return {name: size for name, size in sizes.items() if size or name not in above}

        return self._try(listed)

    def folders(self) -> list[str]:
        """The names of the folders directly in this folder."""

        def listed(client: Any, store: Any) -> list[str]:
            prefixes = client.list_with_delimiter(store, self.address.key or None)["common_prefixes"]
            return [prefix.rstrip("/").rpartition("/")[2] for prefix in prefixes]

        return self._try(listed)

    def sha256(self, name: str) -> str | None:
        """SHA-256 of an object as 64 hexadecimal digits; None if there is none. It is never held in memory whole."""

        def hashed(chunks: Iterator[bytes]) -> str:
            content = hashlib.sha256()
            for chunk in chunks:
                content.update(chunk)
            return content.hexdigest()

        return self._streamed(name, hashed)

    def download(self, name: str, file: Path) -> bool:
        """Writes an object to a file. Returns whether there is such an object."""

        def written(chunks: Iterator[bytes]) -> bool:
            with open(file, "wb") as target:
                for chunk in chunks:
                    target.write(chunk)
            return True

        return bool(self._streamed(name, written))

    def delete(self, names: Iterable[str]) -> None:
        """Deletes objects that nothing needs any more. Where that fails, they stay."""
        for key in map(self._key, names):
            with suppress(MarqueeError):
                self._try(partial(_delete, key))

    def _streamed(self, name: str, use: Callable[[Iterator[bytes]], T]) -> T | None:
        def get(client: Any, store: Any) -> T | None:
            try:
                result = client.get(store, self._key(name))
            except FileNotFoundError as error:
                if has_no_bucket(error):
                    raise
                return None
            return use(bytes(chunk) for chunk in result.stream(min_chunk_size=_CHUNK))

        return self._try(get)

    def _try(self, request: Callable[[Any, Any], T]) -> T:
        """Makes a request, and makes it again after failures that may pass."""
        client = _client()
        failure: Exception | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(_FIRST_WAIT * 2**attempt)
            try:
                return request(client, _store(*_frozen(self.address)))
            except MarqueeError:
                raise
            except (_exceptions().BaseError, OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno:  # A local file, not the store.
                    raise
                failure = error
                if not is_passing(error):
                    break
        assert failure is not None
        raise described(self.address, failure) from None

    def _key(self, name: str) -> str:
        return f"{self.address.key}/{name}" if self.address.key else name

    def _with_key(self, key: str) -> StoredFolder:
        return StoredFolder(Address(self.address.scheme, self.address.host, key, self.address.settings))


def _delete(key: str, client: Any, store: Any) -> None:
    with suppress(FileNotFoundError):
        client.delete(store, key)


def _client() -> Any:
    """The client library, which is an extra."""
    try:
        import obstore
    except ImportError:
        raise ConfigError(
            "output.path is in an object store, but the client library is not installed; install marquee[objects]"
        ) from None
    return obstore


def _exceptions() -> Any:
    from obstore import exceptions

    return exceptions


def _frozen(address: Address) -> tuple[str, bool, tuple[tuple[str, str], ...]]:
    url, settings = address.client()
    return url, settings["allow_http"], tuple(sorted(settings["config"].items()))


@lru_cache(maxsize=64)
def _store(url: str, allow_http: bool, config: tuple[tuple[str, str], ...]) -> Any:
    from obstore import store

    stores: Any = store  # Its stubs name every key of every store, and may be missing.
    return stores.from_url(
        url,
        config=dict(config),
        client_options={"allow_http": allow_http, "timeout": "300s", "connect_timeout": "10s"},
        retry_config={
            "max_retries": _RETRIES,
            "retry_timeout": timedelta(seconds=60),
            "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=2), "base": 2},
        },
    )
