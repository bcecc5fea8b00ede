"""Whether the manifest of a release was signed by the owner of a public key."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from dpcore.errors import ConfigError
from jobs.verification.findings import Finding, failed, not_checked, passed
from jobs.verification.manifest import MANIFEST, SIGNATURE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

CHECK: Final = "signature"
LARGEST_KEY: Final = 1 << 14
"""Bytes of a key file that are read; a PEM file of an Ed25519 key has about a hundred."""
_BYTES: Final = 64
_WANTED: Final = "an Ed25519 public key in PEM, as openssl pkey -in KEY -pubout writes it"


def ed25519() -> ModuleType:
    """The module of the signature scheme. Raises ConfigError when the package ``cryptography`` is not installed."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519 as module
    except ImportError as error:
        raise ConfigError(
            "signatures need the package cryptography, which is not installed; want pip install marquee[signature]"
        ) from error
    return module


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Reads a public key. Raises ConfigError that names the file when it holds none."""
    ed25519()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        with open(path, "rb") as file:
            key = load_pem_public_key(file.read(LARGEST_KEY))
    except OSError as error:
        raise ConfigError(f"--public-key: {path} cannot be read ({error.strerror}); want {_WANTED}") from error
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError(f"--public-key: {path} is no public key; want {_WANTED}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"--public-key: {path} is a key of another kind; want {_WANTED}")
    return key


def fingerprint(key: Ed25519PublicKey) -> str:
    """SHA-256 of the key's 32 bytes, as ``SHA256:`` and 64 hexadecimal digits."""
    return f"SHA256:{hashlib.sha256(key.public_bytes_raw()).hexdigest()}"


def signature_finding(folder: Path, key: Ed25519PublicKey | None) -> Finding:
    """Checks manifest.sig, the Ed25519 signature of manifest.json.

    folder: The folder of a release.
    key: The public key that the release should be signed with; None checks nothing.
    """
    path = folder / SIGNATURE
    if key is None:
        signed = "" if path.is_file() else ", and the release is not signed"
        return not_checked(CHECK, f"no public key was given{signed}")
    from cryptography.exceptions import InvalidSignature

    try:
        with open(path, "rb") as file:
            signature = file.read(_BYTES + 1)
        key.verify(signature, (folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        return failed(CHECK, f"{path} does not exist; want a release that the owner of {fingerprint(key)} has signed")
    except OSError as error:
        return failed(CHECK, f"{error.filename} cannot be read ({error.strerror}); restore the published file")
    except InvalidSignature:
        return failed(CHECK, f"{path} is no signature of {MANIFEST} by {fingerprint(key)}; do not use the release")
    return passed(CHECK, f"signed by {fingerprint(key)}")
