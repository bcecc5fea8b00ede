"""Signs the manifest of a release with Ed25519 (RFC 8032): a reader without the ledger can then check who made it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dpcore.errors import ConfigError
from jobs.verification.signature import LARGEST_KEY, ed25519, fingerprint

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_VARIABLE: Final = "MARQUEE_SIGNING_KEY"
_WANTED: Final = "an unencrypted Ed25519 private key in PEM, as openssl genpkey -algorithm ed25519 writes it"


@dataclass(frozen=True)
class Signer:
    """A private key that signs manifests.

    key: The key. SECRET.
    """

    key: Ed25519PrivateKey = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """The public key's fingerprint, as ``marquee verify`` prints it."""
        return fingerprint(self.key.public_key())

    def signature(self, manifest: Path) -> bytes:
        """The signature of a manifest, 64 bytes. The same key and the same manifest give the same signature."""
        return self.key.sign(manifest.read_bytes())


def signer(key_file: str | None, environment: Mapping[str, str] = os.environ) -> Signer | None:
    """The signer of a release; None if no key is named.

    key_file: The file in ``output.signing_key``; None reads the key itself from the variable MARQUEE_SIGNING_KEY.
    environment: The variables of this process.

    Raises: ConfigError that names the key's place when there is no usable key. The key itself is in no message.
    """
    if key_file is not None:
        return Signer(_private_key(f"output.signing_key: {key_file}", _content(Path(key_file))))
    text = environment.get(KEY_VARIABLE)
    return None if not text else Signer(_private_key(f"the variable {KEY_VARIABLE}", text.encode()))


def _content(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST_KEY)
    except OSError as error:
        raise ConfigError(
            f"output.signing_key: {path} cannot be read ({error.strerror}); want a file with {_WANTED}"
        ) from error


def _private_key(place: str, content: bytes) -> Ed25519PrivateKey:
    ed25519()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(f"{place} is no key that can be read; want {_WANTED}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{place} is a key of another kind; want {_WANTED}")
    return key
