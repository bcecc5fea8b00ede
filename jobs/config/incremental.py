"""The section ``engine.incremental`` of a config: the store of exact statistics that later runs add to."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from jobs.config.section import Positive, Section, Text


def _local_folder(value: object) -> object:
    if isinstance(value, str) and "://" in value:
        raise ValueError("is a URL; want a folder on this machine, which only its owner may open")
    return value


class Incremental(Section):
    """Exact statistics of each file are kept, encrypted, so that the next run reads only new or changed ones.

    It affects the speed: every release is the same as without a store.
    """

    path: Annotated[Text, BeforeValidator(_local_folder)] = Field(
        description="Folder of the store, which holds exact statistics (SENSITIVE) and which only its owner may open. "
        "A relative path starts at the folder of the config file."
    )
    group_by: Literal["file", "folder"] = Field(
        default="file",
        description="What is counted together: each file, or all files in a folder, which takes fewer entries.",
    )
    keep_days: Positive = Field(
        default=30, description="Days after its last use after which an entry is removed, at least 1."
    )
    max_mb: Positive = Field(
        default=10_000,
        description="Size of the store in millions of bytes, at least 1. Beyond it, entries that were not used for "
        "longest are removed.",
    )
    key_command: Annotated[tuple[Text, ...], Field(min_length=1, strict=False)] | None = Field(
        default=None,
        description="Program and arguments, run without a shell, that print the key of the store: 32 bytes in base64. "
        "By default the key is the content of the environment variable MARQUEE_STORE_KEY.",
    )
