"""URLs of folders in object stores: what they may contain, and what the client library is told about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, final
from urllib.parse import parse_qsl

from dpcore.errors import ConfigError
from pipelines.source.stores import ALIASES, settings_of, without_settings

SCHEMES: Final = ("s3", "gs", "abfss")
_HOST: Final = {"s3": "bucket", "gs": "bucket", "abfss": "container@account.dfs.core.windows.net"}
_SETTINGS: Final = {
    "s3": ("endpoint_override", "scheme", "region"),
    "gs": ("endpoint_override", "scheme"),
    "abfss": ("blob_storage_authority", "dfs_storage_authority", "enable_tls"),
}
_AZURE: Final = re.compile(r"(?P<container>[a-z0-9$-]+)@(?P<account>[a-z0-9]+)\.(?:dfs|blob)\.(?P<suffix>[a-z0-9.-]+)")
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Other characters have a meaning in URLs or in lists of keys, or are written differently by different programs.
_NAME: Final = re.compile(r"[\w.=+@,()!~ -]+")


@final
@dataclass(frozen=True)
class Address:
    """A folder in a bucket.

    scheme: s3, gs or abfss.
    host: The bucket, or for abfss ``container@account.dfs.core.windows.net``.
    key: The folder's key, without slashes at its ends; empty for the whole bucket.
    settings: Settings of the client, by the names that pyarrow has for them. They are no part of the folder's name.
    """

    scheme: str
    host: str
    key: str
    settings: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def bucket(self) -> str:
        """The bucket or container."""
        return self.host.partition("@")[0]

    def __str__(self) -> str:
        """The URL without settings."""
        return f"{self.scheme}://{self.host}/{self.key}".rstrip("/")

    def client(self) -> tuple[str, dict[str, Any]]:
        """The URL of the bucket and the configuration of the client. Credentials come from the environment alone."""
        settings = self.settings
        plain = settings.get("scheme", "https") == "http" or settings.get("enable_tls", "true") == "false"
        config: dict[str, Any] = {}
        endpoint = settings.get("endpoint_override") or settings.get("blob_storage_authority")
        if endpoint is not None:
            url = endpoint if "://" in endpoint else f"{'http' if plain else 'https'}://{endpoint}"
            plain = url.startswith("http://")
            if self.scheme == "abfss":
                url = f"{url}/{self._azure_account}"
            config["base_url" if self.scheme == "gs" else "endpoint"] = url
        if "region" in settings:
            config["region"] = settings["region"]
        if self.scheme == "abfss":
            config["account_name"] = self._azure_account
        return f"{self.scheme}://{self.host}", {"config": config, "allow_http": plain}

    @property
    def _azure_account(self) -> str:
        return self.host.partition("@")[2].partition(".")[0]


def is_url(path: str) -> bool:
    """Whether a path is the URL of a store, and not a local path."""
    return "://" in path


def address_of(key: str, url: str) -> Address:
    """The folder that a URL names.

    key: The config key or argument that holds the URL, with which errors begin.
    url: The URL, which pyarrow's settings may follow: ``s3://bucket/folder?endpoint_override=host:9000&scheme=http``.

    Raises: ConfigError when the scheme is no object store, the URL holds credentials, or a part of it is no name.
    """
    written, text = without_settings(url), settings_of(url)
    scheme, _, rest = written.partition("://")
    scheme = ALIASES.get(scheme.lower(), scheme.lower())
    if scheme not in SCHEMES:
        raise ConfigError(f"{key} is in a store {scheme}://; want a local folder, or one in s3://, gs:// or abfss://")
    host, _, folder = rest.partition("/")
    # Before anything quotes the URL: what stands in it may be a password.
    valid = _AZURE.fullmatch(host) if scheme == "abfss" else _BUCKET.fullmatch(host)
    if not valid:
        raise ConfigError(
            f"{key} does not begin with {scheme}://{_HOST[scheme]}/; want that, and credentials in the environment only"
        )
    return Address(scheme, host, _key(key, folder), _settings(key, scheme, text))


def with_settings_of(key: str, url: str, other: Address) -> Address:
    """A folder that is known by its URL without settings: it has those of another folder of the same kind of store.

    key: As for ``address_of``.
    url: The URL.
    other: The other folder, of this or of another bucket.
    """
    address = address_of(key, url)
    return Address(address.scheme, address.host, address.key, other.settings if other.scheme == address.scheme else {})


def _key(key: str, folder: str) -> str:
    parts = folder.strip("/").split("/") if folder.strip("/") else []
    for part in parts:
        if part in (".", "..") or not _NAME.fullmatch(part):
            raise ConfigError(
                f"{key} holds the name {part!r}, which is none in every store; want letters, digits and any of "
                "._-=+@,()!~ between single slashes"
            )
    return "/".join(parts)


def _settings(key: str, scheme: str, text: str) -> dict[str, str]:
    settings = dict(parse_qsl(text[1:], keep_blank_values=True))
    for name in settings:
        if name not in _SETTINGS[scheme]:
            raise ConfigError(f"{key} has an unknown setting {name}; want {', '.join(_SETTINGS[scheme])}")
    return settings
