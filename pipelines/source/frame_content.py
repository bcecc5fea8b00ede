"""What identifies the content of a frame: sums of keyed hashes of its encoded rows."""

from __future__ import annotations

import hashlib
import json
from typing import Final

from pipelines.aggregators.row_hashes import KEY_BYTES, RowSums
from pipelines.layout import Layout
from pipelines.source.content import FileContent, RowGroupContent

LEDGER_KEY: Final = b"marquee frames 1"
"""The key of the hashes that datasets are compared by. It is no secret: the ledger has a key of its own for them."""

_DIGEST_BYTES: Final = 32


def secret_key(key: bytes) -> bytes:
    """The key of a dataset's own hashes, 16 bytes. SENSITIVE.

    key: 1 to 64 secret bytes.
    """
    return hashlib.blake2b(key=key, person=b"frame rows", digest_size=KEY_BYTES).digest()


def frame_content(name: str, layout: Layout, sums: RowSums, key: bytes) -> FileContent:
    """The content of a frame, as the ledger records that of a file. SENSITIVE.

    name: The frame in words.
    layout: The public layout of the rows.
    sums: The sums with ``secret_key(key)`` and with ``LEDGER_KEY``.
    key: 1 to 64 secret bytes.
    """
    own, public = (sum_.to_bytes(8, "little") for sum_ in sums.hashes)
    facts = json.dumps([type(layout).__name__, list(layout.columns), sums.rows]).encode()
    digest = hashlib.blake2b(facts + public, person=b"frame", digest_size=_DIGEST_BYTES).digest()
    keyed = hashlib.blake2b(facts + own, key=key, person=b"frame", digest_size=_DIGEST_BYTES).digest()
    groups = (RowGroupContent(sums.rows, digest),) if sums.rows else ()
    return FileContent(name, sums.rows, digest, groups, keyed, is_file=False)
