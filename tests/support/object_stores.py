"""Object stores for tests: S3 by moto in this process, Azure by Azurite, Google's by a small server of its own.

Each yields a ``Store``: URLs of folders in it, and the variables with which programs reach it.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from pyarrow import fs

from jobs.objects.folder import StoredFolder
from jobs.objects.output import output_of
from tests.support.datasets import ROOT
from tests.support.google_xml import google_xml

AZURITE = "3.37.0"
_ACCOUNT = "devstoreaccount1"
# The emulator's published key, which opens nothing else.
_AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Store:
    """A running store with one bucket, named ``bucket``.

    start: What the URLs of its folders begin with. settings: What follows them. environment: Credentials.
    address: Its host and port.
    """

    start: str
    settings: str
    environment: dict[str, str]
    address: tuple[str, int]

    def url(self, key: str) -> str:
        return f"{self.start}/{key}{self.settings}"

    def folder(self, key: str) -> StoredFolder:
        folder = output_of("test", self.url(key))
        assert isinstance(folder, StoredFolder)
        return folder

    def at(self, address: tuple[str, int]) -> Store:
        """The same store behind a proxy."""
        old, new = (f"{host}:{port}" for host, port in (self.address, address))
        return Store(self.start, self.settings.replace(old, new), self.environment, address)


def contents(folder: StoredFolder) -> dict[str, bytes | None]:
    """Every object of a folder, by its name."""
    names = sorted(folder.sizes())
    return dict(zip(names, folder.read_all(names), strict=True))


@contextmanager
def credentials(store: Store) -> Iterator[Store]:
    """The variables of a store, in this process and those that it starts."""
    with mock.patch.dict(os.environ, store.environment):
        yield store


@contextmanager
def s3() -> Iterator[Store]:
    """moto's server in a thread of this process."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        keys = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "not-a-secret", "AWS_REGION": "us-east-1"}
        # The machine's own files and metadata are not asked.
        outside = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull}
        store = Store("s3://bucket", f"?endpoint_override={host}:{port}&scheme=http", keys | outside, (host, port))
        with credentials(store):
            made, _ = fs.FileSystem.from_uri(f"s3://bucket{store.settings}&allow_bucket_creation=true")
            made.create_dir("bucket")
            yield store
    finally:
        server.stop()


@contextmanager
def azure() -> Iterator[Store]:
    """Azurite, the emulator of Azure Blob Storage, which keeps everything in memory."""
    program, port = azurite(), _free_port()
    command = [program, "--silent", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
    command += ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        settings = f"?blob_storage_authority=127.0.0.1:{port}&dfs_storage_authority=127.0.0.1:{port}&enable_tls=false"
        keys = {"AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": _AZURE_KEY}
        start = f"abfss://bucket@{_ACCOUNT}.dfs.core.windows.net"
        store = Store(start, settings, keys, ("127.0.0.1", port))
        with credentials(store):
            azure_files(store).create_dir("bucket")
            yield store
    finally:
        process.terminate()
        process.wait()


def azure_files(store: Store) -> fs.FileSystem:
    """pyarrow's file system of the emulator."""
    host, port = store.address
    authority = {f"{kind}_storage_authority": f"{host}:{port}" for kind in ("blob", "dfs")}
    plain = {"blob_storage_scheme": "http", "dfs_storage_scheme": "http"}
    return fs.AzureFileSystem(_ACCOUNT, account_key=_AZURE_KEY, **authority, **plain)


@contextmanager
def google(folder: Path) -> Iterator[Store]:
    """A server with the part of Google's XML interface that the client uses.

    folder: Gets a file of credentials.
    """
    with google_xml("bucket") as address, _google_at(address, folder) as store:
        yield store


@contextmanager
def google_json(folder: Path) -> Iterator[Store]:
    """The emulator gcp-storage-emulator, which has Google's JSON interface only, not the XML one.

    folder: Gets a file of credentials.
    """
    from gcp_storage_emulator.server import create_server

    port = _free_port()
    logging.getLogger("gcp_storage_emulator").setLevel(logging.CRITICAL)
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket="bucket")
    server.start()
    try:
        with _google_at(("127.0.0.1", port), folder) as store:
            yield store
    finally:
        server.stop()


@contextmanager
def _google_at(address: tuple[str, int], folder: Path) -> Iterator[Store]:
    account = folder / "account.json"
    account.write_text('{"disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}')
    settings = f"?endpoint_override={address[0]}:{address[1]}&scheme=http"
    with credentials(Store("gs://bucket", settings, {"GOOGLE_SERVICE_ACCOUNT": str(account)}, address)) as store:
        yield store


def azurite() -> Path:
    """The program, installed from the npm registry when it is first needed.

    Raises:
        RuntimeError: It cannot be installed. The message says what npm said.
    """
    folder = ROOT / ".azurite"
    program = folder / "node_modules" / ".bin" / "azurite-blob"
    stamp = folder / ".version"
    if not (program.exists() and stamp.exists() and stamp.read_text() == AZURITE):
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError("npm is missing; want Node.js 20 or later, with which Azurite runs")
        folder.mkdir(exist_ok=True)
        command = [
            npm,
            "install",
            "--prefix",
            str(folder),
            "--no-save",
            "--no-audit",
            "--no-fund",
            f"azurite@{AZURITE}",
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"Azurite cannot be installed; want a registry that npm reaches:\n{done.stderr}")
        stamp.write_text(AZURITE)
    return program


def _free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(600):
        with closing(socket.socket()) as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"nothing listens on port {port} after a minute")
