"""The part of the XML interface of Google Cloud Storage that the client library uses, over objects in memory.

No emulator in the package registries has it (gcp-storage-emulator has the JSON interface alone). It follows Google's
reference: https://cloud.google.com/storage/docs/xml-api/reference-headers#xgoogifgenerationmatch and
https://cloud.google.com/storage/docs/xml-api/get-bucket-list.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

DATE = 1_790_000_000.0  # The emulator's objects are all of one time.


@dataclass(frozen=True)
class _Object:
    content: bytes
    generation: int

    @property
    def headers(self) -> dict[str, str]:
        etag = hashlib.md5(self.content, usedforsecurity=False).hexdigest()
        dates = {"Last-Modified": formatdate(DATE, usegmt=True)}
        return {"ETag": f'"{etag}"', "x-goog-generation": str(self.generation), **dates}


@contextmanager
def google_xml(bucket: str) -> Iterator[tuple[str, int]]:
    """Host and port of a server with one bucket."""
    objects: dict[str, _Object] = {}
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with lock:
                if (key := self._key()) is not None:
                    self._answer(*self._stored(key, content))

        def _stored(self, key: str, content: bytes) -> tuple[int, bytes, dict[str, str]]:
            """Stores an object, or a copy of another one; what is answered."""
            source = self.headers.get("x-goog-copy-source")
            if source is not None:
                named = unquote(source).lstrip("/").partition("/")[2]
                if named not in objects:
                    return _error(404, "NoSuchKey")
                content = objects[named].content
            wanted = self.headers.get("x-goog-if-generation-match")
            generation = objects[key].generation if key in objects else 0
            if wanted is not None and int(wanted) != generation:
                return _error(412, "PreconditionFailed")
            objects[key] = _Object(content, generation + 1)
            return 200, b"<CopyObjectResult/>" if source is not None else b"", objects[key].headers

        def do_GET(self) -> None:
            with lock:
                key = self._key()
                if key == "":
                    self._listed()
                elif key in objects:
                    self._answer(200, objects[key].content, objects[key].headers)
                elif key is not None:
                    self._answer(*_error(404, "NoSuchKey"))

        do_HEAD = do_GET

        def do_DELETE(self) -> None:
            with lock:
                if (key := self._key()) is not None:
                    gone = objects.pop(key, None)
                    self._answer(*((204, b"", {}) if gone is not None else _error(404, "NoSuchKey")))

        def _key(self) -> str | None:
            """The object that a request names; empty for the bucket, and None after the answer for another bucket."""
            name, _, key = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
            if name == bucket:
                return key
            self._answer(*_error(404, "NoSuchBucket"))
            return None

        def _listed(self) -> None:
            prefix = parse_qs(urlsplit(self.path).query).get("prefix", [""])[0]
            entries = "".join(
                f"<Contents><Key>{escape(key)}</Key><Generation>{one.generation}</Generation>"
                f"<LastModified>2026-09-21T00:00:00.000Z</LastModified><ETag>{one.headers['ETag']}</ETag>"
                f"<Size>{len(one.content)}</Size></Contents>"
                for key, one in sorted(objects.items())
                if key.startswith(prefix)
            )
            start = f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
            self._answer(200, f"{start}<IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode(), {})

        def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield "127.0.0.1", server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _error(status: int, code: str) -> tuple[int, bytes, dict[str, str]]:
    return status, f"<Error><Code>{code}</Code></Error>".encode(), {}
