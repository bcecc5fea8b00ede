"""URLs of folders in object stores."""

from __future__ import annotations

import pytest

from dpcore.errors import ConfigError
from jobs.objects.address import address_of, with_settings_of
from jobs.objects.failures import described, is_passing

AZURE = "abfss://box@account.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("url", "shown", "bucket", "key"),
    [
        ("s3://bucket/a/b", "s3://bucket/a/b", "bucket", "a/b"),
        ("S3A://bucket/a/b/?region=eu-west-1", "s3://bucket/a/b", "bucket", "a/b"),
        ("gcs://bucket", "gs://bucket", "bucket", ""),
        (f"{AZURE}/day=2026-11-24", f"{AZURE}/day=2026-11-24", "box", "day=2026-11-24"),
        (f"abfs{AZURE[5:]}/a b", f"{AZURE}/a b", "box", "a b"),
    ],
)
def test_a_url_names_a_folder(url: str, shown: str, bucket: str, key: str) -> None:
    address = address_of("output.path", url)
    assert (str(address), address.bucket, address.key) == (shown, bucket, key)


@pytest.mark.parametrize(
    ("url", "client", "config", "http"),
    [
        ("s3://b/a", "s3://b", {}, False),
        ("s3://b/a?region=eu-west-1", "s3://b", {"region": "eu-west-1"}, False),
        ("s3://b/a?endpoint_override=h:9000", "s3://b", {"endpoint": "https://h:9000"}, False),
        ("s3://b/a?endpoint_override=h:9000&scheme=http", "s3://b", {"endpoint": "http://h:9000"}, True),
        ("s3://b/a?endpoint_override=http://h:9000", "s3://b", {"endpoint": "http://h:9000"}, True),
        ("gs://b/a?endpoint_override=h&scheme=http", "gs://b", {"base_url": "http://h"}, True),
        (f"{AZURE}/a", AZURE, {"account_name": "account"}, False),
        (
            f"{AZURE}/a?blob_storage_authority=h:1&enable_tls=false",
            AZURE,
            {"account_name": "account", "endpoint": "http://h:1/account"},
            True,
        ),
    ],
)
def test_pyarrow_s_settings_are_those_of_the_client(url: str, client: str, config: dict[str, str], http: bool) -> None:
    assert address_of("output.path", url).client() == (client, {"config": config, "allow_http": http})


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://host/a", "is in a store http://; want a local folder, or one in s3://, gs:// or abfss://"),
        ("s3://user:hunter2@bucket/a", "does not begin with s3://bucket/; want that, and credentials in the"),
        ("s3://bucket:9000/a", "does not begin with s3://bucket/"),
        ("abfss://box:hunter2@account.dfs.core.windows.net/a", "does not begin with abfss://container@account"),
        ("s3://bucket/a//b", "holds the name ''"),
        ("s3://bucket/../b", "holds the name '..'"),
        ("s3://bucket/a#b", "holds the name 'a#b', which is none in every store"),
        ("s3://bucket/a?secret_key=hunter2", "has an unknown setting secret_key; want endpoint_override, scheme, reg"),
    ],
)
def test_other_urls_are_refused_without_their_secrets(url: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        address_of("output.path", url)
    assert str(refused.value).startswith(f"output.path {says}")
    assert "hunter2" not in str(refused.value)


def test_a_recorded_url_has_the_settings_of_the_config() -> None:
    config = address_of("output.path", "s3://new/a?endpoint_override=h:1")
    recorded = with_settings_of("the ledger's record", "s3://old/b", config)
    assert (str(recorded), recorded.client()[1]["config"]) == ("s3://old/b", {"endpoint": "https://h:1"})
    assert with_settings_of("the ledger's record", "gs://old/b", config).client()[1]["config"] == {}


class GenericError(Exception):
    """As the client library's."""


class PermissionDeniedError(Exception):
    """As the client library's."""


@pytest.mark.parametrize(
    ("error", "passing", "kind", "says"),
    [
        (GenericError("503 Slow Down"), True, "EngineError", "could not be reached in its store (GenericError)"),
        (GenericError("<Code>NoSuchBucket</Code>"), False, "ConfigError", "is in a bucket that does not exist"),
        (GenericError("GET http://169.254.169.254/latest"), False, "ConfigError", "cannot be opened without cred"),
        (GenericError("status code: 401"), False, "ConfigError", "does not accept the credentials; want valid ones"),
        (PermissionDeniedError("AccessDenied"), False, "ConfigError", "may not be read or written with these cred"),
        (PermissionDeniedError("SignatureDoesNotMatch"), False, "ConfigError", "does not accept the credentials"),
        (FileNotFoundError("ContainerNotFound"), False, "ConfigError", "is in a bucket that does not exist"),
    ],
)
def test_a_failure_says_what_is_wrong(error: Exception, passing: bool, kind: str, says: str) -> None:
    error.args = (f"{error} key hunter2",)
    result = described(address_of("output.path", "s3://bucket/a"), error)
    assert (is_passing(error), type(result).__name__, says in str(result)) == (passing, kind, True), result
    assert "hunter2" not in str(result)
