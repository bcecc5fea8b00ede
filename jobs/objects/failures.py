"""What a failed request to an object store means, and what the operator does next."""

from __future__ import annotations

from typing import Final

from dpcore.errors import ConfigError, EngineError, MarqueeError
from jobs.objects.address import Address

ATTEMPTS: Final = 5
"""How often a request is made, beside what the client library repeats by itself."""

_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist")
# Where a client without credentials looks for those of the machine that it runs on.
_NO_CREDENTIALS: Final = (
    "169.254.169.254", "169.254.170.2", "metadata.google.internal", "Missing AccessKeyId", "Missing SecretAccessKey",
)  # fmt: skip
_REFUSED: Final = (
    "InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthenticationFailed", "ExpiredToken", "InvalidToken",
    "Invalid Access Key", "status code: 401",
)  # fmt: skip
_FORBIDDEN: Final = ("AccessDenied", "AuthorizationPermissionMismatch", "status code: 403")
_WRONG: Final = ("Unknown configuration key", "Unable to parse", "builder error")


def has_no_bucket(error: Exception) -> bool:
    """Whether the bucket itself is missing, and not an object in it."""
    return any(sign in str(error) for sign in _NO_BUCKET)


def is_passing(error: Exception) -> bool:
    """Whether the same request may succeed when it is made again."""
    return type(error).__name__ in ("GenericError", "JoinError") and not any(
        sign in str(error) for sign in (*_NO_BUCKET, *_NO_CREDENTIALS, *_REFUSED, *_FORBIDDEN, *_WRONG)
    )


def described(address: Address, error: Exception) -> MarqueeError:
    """The exception that says what is wrong with a store. The library's message is not shown: it may quote a secret.

    address: The folder that was read or written.
    error: What the client library raised.

    Returns: A ConfigError if the config or the credentials are wrong; an EngineError if a later attempt may succeed.
    """
    message, kind = str(error), type(error).__name__
    if has_no_bucket(error):
        return ConfigError(f"{address} is in a bucket that does not exist; want the name of an existing bucket")
    if any(sign in message for sign in _NO_CREDENTIALS):
        return ConfigError(
            f"{address} cannot be opened without credentials; want those of {_credentials(address)} in the environment"
        )
    if kind == "UnauthenticatedError" or any(sign in message for sign in _REFUSED):
        return ConfigError(
            f"the store of {address} does not accept the credentials; want valid ones of {_credentials(address)} in "
            "the environment"
        )
    if kind in ("PermissionDeniedError", "PermissionError") or any(sign in message for sign in _FORBIDDEN):
        return ConfigError(
            f"{address} may not be read or written with these credentials; want permission to list the bucket, and to "
            "get, put and delete objects there"
        )
    if any(sign in message for sign in _WRONG):
        return ConfigError(f"{address} cannot be opened; check the endpoint and the settings after the URL")
    return EngineError(
        f"{address} could not be reached in its store ({kind}); check the endpoint, the credentials and the network, "
        "and run the same command again"
    )


def _credentials(address: Address) -> str:
    return {
        "s3": "AWS (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the role of this machine)",
        "gs": "Google (GOOGLE_APPLICATION_CREDENTIALS, or the service account of this machine)",
        "abfss": "Azure (AZURE_STORAGE_ACCOUNT_KEY, or the identity of this machine)",
    }[address.scheme]
