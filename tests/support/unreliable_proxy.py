"""A proxy before an object store that makes some requests fail, before or after the store has done what they ask.

It speaks real HTTP on both sides. Which requests fail is a function of the seed and of the number of the request, but
none fails more than twice in a row: a client that makes every request three times is always served.
"""

from __future__ import annotations

import http.client
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MOST_IN_A_ROW = 2
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-connection"}


class Failure(Enum):
    """How a request fails."""

    UNAVAILABLE = "503 before the store has seen it"
    ERROR_AFTER = "500 after the store has applied it"
    RESET_BEFORE = "the connection is reset before the store has seen it"
    RESET_AFTER = "the connection is reset after the store has applied it"
    CUT = "the body of the answer is cut"


class Faults:
    """Decides which requests fail, and counts them by failure and method.

    share: Share of the requests that fail. seed: Of the choice.
    """

    def __init__(self, share: float, seed: int) -> None:
        self._share = share
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.requests = 0
        self.failed: Counter[tuple[Failure, str]] = Counter()
        self._in_a_row: Counter[tuple[str, str]] = Counter()

    def next(self, method: str, path: str) -> Failure | None:
        """The failure of the next request; None if it goes through.

        path: What tells a request from others of its method.
        """
        with self._lock:
            self.requests += 1
            failing = self._random.random() < self._share
            failure = self._random.choice(list(Failure))
            if not failing or self._in_a_row[method, path] == MOST_IN_A_ROW:
                self._in_a_row[method, path] = 0
                return None
            self._in_a_row[method, path] += 1
            self.failed[failure, method] += 1
            return failure


@contextmanager
def proxy(target: tuple[str, int], faults: Faults, dropped: str = "") -> Iterator[tuple[str, int]]:
    """Host and port of a proxy before the server at ``target``.

    dropped: A header of requests that it loses, in lower case, as a store does that does not know it.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self._body()
            failure = faults.next(self.command, f"{self.path} {self.headers.get('Range', '')}")
            if failure is Failure.UNAVAILABLE:
                self._answer(503, [], b"<Error><Code>SlowDown</Code></Error>")
            elif failure is Failure.RESET_BEFORE:
                self._reset()
            else:
                self._after(failure, *self._asked(body))

        def _after(self, failure: Failure | None, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            if failure is Failure.ERROR_AFTER:
                self._answer(500, [], b"<Error><Code>InternalError</Code></Error>")
            elif failure is Failure.RESET_AFTER or (failure is Failure.CUT and not content):
                self._reset()
            elif failure is Failure.CUT:
                self._answer(status, headers, content, len(content) // 2)
                self._reset()
            else:
                self._answer(status, headers, content)

        def _body(self) -> bytes:
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                parts = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def _asked(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection(*target, timeout=60)
            try:
                headers = {
                    name: value for name, value in self.headers.items() if name.lower() not in {*_HOP_BY_HOP, dropped}
                }
                headers["Content-Length"] = str(len(body))
                connection.request(self.command, self.path, body or None, headers)
                response = connection.getresponse()
                return response.status, response.getheaders(), response.read()
            finally:
                connection.close()

        def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, sent: int | None = None) -> None:
            self.send_response_only(status)
            length = str(len(content))
            for name, value in headers:
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = value
                elif name.lower() not in _HOP_BY_HOP | {"content-length"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content[:sent])
            self.wfile.flush()

        def _reset(self) -> None:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RD)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _forward

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def shutdown_request(self, request: object) -> None:
            self.close_request(request)  # type: ignore[arg-type] # Without the polite shutdown, which is no reset.

        def handle_error(self, *_: object) -> None:
            """Clients go away."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield ("127.0.0.1", server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
