"""A store with any number of Parquet files that have the same content, and counts the requests that it gets.

It is a file system of fsspec, so that a dataset at ``manyfiles://`` is listed and read as in any other store.
"""

from __future__ import annotations

import io
import threading
from typing import Any

import fsspec
from fsspec import AbstractFileSystem

PROTOCOL = "manyfiles"


class ManyFiles(AbstractFileSystem):
    """The store: ``CONTENT`` under the names ``data/part-0000000.parquet`` and so on.

    A file is one request to ask for its size, and one for each range that is read.
    """

    protocol = PROTOCOL
    cachable = False
    content = b""
    number = 0
    requests = 0
    _lock = threading.Lock()

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """All files of the folder ``data``; a listing is one request for each thousand names, as in S3."""
        names = [f"data/part-{number:07}.parquet" for number in range(self.number)]
        if self._strip_protocol(path).strip("/") != "data":
            names = []
        self._count(1 + len(names) // 1000)
        infos = [{"name": name, "size": len(self.content), "type": "file"} for name in names]
        return infos if detail else names

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """What the store says about one name."""
        self._count(1)
        name = self._strip_protocol(path).strip("/")
        if name == "data":
            return {"name": "data", "size": 0, "type": "directory"}
        if name.startswith("data/part-"):
            return {"name": name, "size": len(self.content), "type": "file"}
        raise FileNotFoundError(path)

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> io.BytesIO:
        self._count(2)  # Its size, and the one range at its end that holds the footer.
        return io.BytesIO(self.content)

    def _count(self, requests: int) -> None:
        with self._lock:
            type(self).requests += requests


def serve(content: bytes, number: int) -> None:
    """Sets what the store holds, and forgets the requests."""
    ManyFiles.content, ManyFiles.number, ManyFiles.requests = content, number, 0
    fsspec.register_implementation(PROTOCOL, ManyFiles, clobber=True)
