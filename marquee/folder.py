"""Where the files of a release are read: its folder, or a copy of one in an object store."""

from __future__ import annotations

import weakref
from pathlib import Path

from dpcore.errors import ConfigError
from jobs.objects.output import Output, local_copy
from jobs.reading.release_folder import ReleaseFolder


def readable(folder: Output) -> ReleaseFolder:
    """Opens the folder of a release. One in an object store is copied first, for as long as this process runs.

    folder: The folder of a published release.

    Raises: ConfigError when there is no complete release.
    """
    if isinstance(folder, Path):
        return ReleaseFolder.open(folder)
    names = list(folder.sizes())
    if not names:
        raise ConfigError(f"{folder} holds no objects; want the folder of a published release")
    context = local_copy(folder, names)
    copy = context.__enter__()
    release = ReleaseFolder.open(copy)
    weakref.finalize(release, context.__exit__, None, None, None)
    return release
