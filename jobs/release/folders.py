"""What a run does with the folders of a release, on this machine or in an object store."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path, PurePosixPath

from dpcore.errors import ConfigError
from jobs.objects.folder import StoredFolder
from jobs.objects.output import Output
from jobs.planning.identity import bound_path, is_name, local_path
from jobs.planning.job import Job
from jobs.release import publish, stored
from jobs.release.lock import only_run
from jobs.release.publish import PublicationState
from jobs.release.signing import Signer
from pipelines.source.stores import without_settings


def publication_state(output: Output, release_id: str) -> PublicationState:
    """How much of a release a folder holds. Raises: ConfigError when it holds something else."""
    if isinstance(output, StoredFolder):
        return stored.publication_state(output, release_id)
    return publish.publication_state(output, release_id)


def state_folder(output: Output, release_id: str) -> Output:
    """The folder of a release's journal, beside its output."""
    if isinstance(output, StoredFolder):
        return stored.state_folder(output, release_id)
    return publish.state_folder(output, release_id)


def trace_of_another_ledger(output: Output, release_id: str) -> Output | None:
    """A folder that only a run of this release can have made; None when there is none."""
    if isinstance(output, StoredFolder):
        return stored.trace_of_another_ledger(output, release_id)
    return publish.trace_of_another_ledger(output, release_id)


def check_usable(output: Output, release_id: str) -> None:
    """Checks a store before anything is charged: see ``stored.check_conditional_puts``."""
    if isinstance(output, StoredFolder):
        stored.check_conditional_puts(output, release_id)


def only_run_in(state: Output) -> AbstractContextManager[None]:
    """Keeps other runs away from a local state folder. In a store, conditional puts keep their answers apart."""
    return nullcontext() if isinstance(state, StoredFolder) else only_run(state)


@contextmanager
def staging_of(output: Output, release_id: str) -> Iterator[Path]:
    """An empty local folder for the files of a release.

    For a local output it lies in the state folder. For a store it is a private temporary folder (TMPDIR), deleted at
    the end, which needs room for the files of one release; nothing in it is needed after a crash.
    """
    if isinstance(output, StoredFolder):
        with tempfile.TemporaryDirectory(prefix="marquee-") as name:
            yield Path(name)
        return
    yield publish.fresh_staging(publish.state_folder(output, release_id))


def publish_files(
    staging: Path, output: Output, release_id: str, *, signer: Signer | None, record: Callable[[str], None]
) -> None:
    """Publishes what is staged: see ``publish.publish`` and ``stored.publish``."""
    if isinstance(output, StoredFolder):
        stored.publish(staging, output, release_id, signer=signer, record=record)
    else:
        publish.publish(staging, output, release_id, signer=signer, record=record)


def finish(output: Output, release_id: str) -> None:
    """Marks a folder that has all files of a release as complete."""
    if isinstance(output, StoredFolder):
        stored.mark(output, release_id)
    else:
        publish.finish(output)


def check_outside(job: Job, folder: Output, *files: str) -> None:
    """Refuses an output folder whose files the next release would read as data.

    job: The release, which names the data.
    folder: The output folder.
    files: Paths, relative to that folder, that will be written.

    Raises: ConfigError when one of the files would be among the data.
    """
    if is_name(job.config.dataset.root):
        return
    path = without_settings(local_path(job.config.dataset.root))
    data = bound_path(path)
    if isinstance(folder, StoredFolder):
        output, pattern = bound_path(str(folder)), path.partition("://")[2]
        inside = output == data or output.startswith(f"{data}/")
        if pattern and glob.has_magic(pattern) and "**" not in pattern:
            below = PurePosixPath(output.partition("://")[2])
            inside = any((below / file).match(pattern) for file in files)
    else:
        real = Path(os.path.realpath(folder))
        deep = "**" in path or os.path.isdir(path)
        inside = deep and real.is_relative_to(data)
        inside = inside or any((real / file).match(os.path.abspath(path)) for file in files)
    if inside:
        raise ConfigError(f"output {folder} is inside the folder of the data, {data}; want a folder outside it")
