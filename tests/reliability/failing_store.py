"""A store behind an fsspec driver that fails or is slow: local files under a scheme of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEME = "troubled"


class DriverError(Exception):
    """What a driver raises that is no OSError, as those of HTTP libraries are not."""


FAILURES: dict[str, Callable[[], Exception]] = {
    "input/output error": lambda: OSError(5, "secret in the message"),
    "connection reset": lambda: ConnectionResetError("secret in the message"),
    "timeout": lambda: TimeoutError("secret in the message"),
    "permission denied": lambda: PermissionError(13, "secret in the message"),
    "not found": lambda: FileNotFoundError(2, "secret in the message"),
    "the driver's own exception": lambda: DriverError("secret in the message"),
}


@dataclass(frozen=True)
class Trouble:
    """What the store does.

    failure: A key of FAILURES; empty for none. first: The call that fails first, from 1. failures: How many calls fail.
    seconds: Delay of each call.
    """

    failure: str
    first: int
    failures: int = 1_000_000
    seconds: float = 0.0


def install(trouble: Trouble) -> None:
    """Registers the driver in this process, as the entry point of a package does."""
    import fsspec  # type: ignore[import-untyped]
    from fsspec.implementations.local import LocalFileOpener, LocalFileSystem  # type: ignore[import-untyped]

    calls = [0]

    def called() -> None:
        calls[0] += 1
        time.sleep(trouble.seconds)
        if trouble.failure and 0 <= calls[0] - trouble.first < trouble.failures:
            raise FAILURES[trouble.failure]()

    class TroubledFile(LocalFileOpener):  # type: ignore[misc]
        def read(self, *given: Any) -> Any:
            called()
            return self.f.read(*given)

    class TroubledStore(LocalFileSystem):  # type: ignore[misc]
        protocol = SCHEME
        cachable = False

        def info(self, path: str, **named: Any) -> Any:
            called()
            return super().info(path, **named)

        def find(self, path: str, *given: Any, **named: Any) -> Any:
            called()
            return super().find(path, *given, **named)

        def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **named: Any) -> Any:
            called()
            return TroubledFile(str(Path("/") / path), mode, fs=self, **named)

    fsspec.register_implementation(SCHEME, TroubledStore, clobber=True)
