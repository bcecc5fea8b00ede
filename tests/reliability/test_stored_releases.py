"""Releases with no durable local disk: killed at every named point, continued on another machine; failing stores."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from jobs.ledger import SqlLedger
from jobs.objects.folder import StoredFolder
from jobs.planning.job import load_job
from jobs.release.run import release
from tests.audit.small_releases import SHAPES
from tests.support.faults import Point, drawn
from tests.support.object_stores import Store, contents, s3
from tests.support.postgres import Server, server
from tests.support.recorded_randomness import recorded
from tests.support.stored_runs import POINTS, Machine, moved_to
from tests.support.unreliable_proxy import Faults, proxy

_NUMBERS = itertools.count()
KILLED = -9
ANSWERS = 11


@pytest.fixture(scope="module")
def bucket() -> Iterator[Store]:
    with s3() as running:
        yield running


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server(durable=False) as running:
        yield running


def stored(folder: Path, store: Store, ledger: str | None, through: Store | None = None) -> tuple[Path, StoredFolder]:
    """A config whose data and output are in a store, and the output.

    through: The same store behind a proxy, which the config names in its place.
    """
    key = f"run-{next(_NUMBERS)}"
    config = SHAPES["table"](folder, "local", ledger)
    files, _ = fs.FileSystem.from_uri(store.url(key))
    for file in sorted((folder / "data").iterdir()):
        pq.write_table(pq.read_table(file), f"bucket/{key}/data/{file.name}", filesystem=files)
        file.unlink()
    named = through or store
    moved_to(config, named.url(f"{key}/data"), named.url(f"{key}/out/release"))
    return config, store.folder(f"{key}/out/release")


def charges(config: Path) -> list[Fraction]:
    job = load_job(config)
    return [entry.amount for entry in SqlLedger(job.config.privacy.ledger).history("people")]


@pytest.mark.smoke(4)
@pytest.mark.slow
@pytest.mark.parametrize("where", POINTS, ids=lambda point: point.name)
def test_a_run_killed_here_goes_on_from_another_machine(
    tmp_path: Path, bucket: Store, postgres: Server, where: Point
) -> None:
    config, output = stored(tmp_path / "release", bucket, postgres.emptied())
    state = output.parent / ".marquee" / load_job(config).release_id
    first, second, tally = Machine(tmp_path / "first"), Machine(tmp_path / "second"), tmp_path / "draws"
    code, err = first.run(config, where, tally)
    assert code == KILLED, err
    before = contents(state / "journal")
    made = drawn(tally)
    assert len(made) - len(before) in (0, 1)
    assert sum(charges(config), Fraction(0)) >= sum(made, Fraction(0))
    code, err = second.run(config, tally=tally)
    assert code == 0, err
    after = contents(state / "journal")
    assert (len(after), before.items() <= after.items()) == (ANSWERS, True)
    assert len(drawn(tally)) - len(made) == len(after) - len(before)
    assert len(charges(config)) == 1
    assert second.written() == set()
    # Without its output the release is published again: the same bytes, and no draw.
    published = contents(output)
    output.delete(published)
    code, err = first.run(config)
    assert (code, contents(output), drawn(first.folder / "draws")) == (0, published, []), err
    assert not {name for name in state.sizes() if name.startswith("staging")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, bucket: Store) -> dict[str, bytes | None]:
    """What a release publishes when no request fails."""
    config, output = stored(tmp_path_factory.mktemp("whole") / "release", bucket, None)
    with recorded("draws"):
        release(load_job(config))
    return contents(output)


SEEDS = range(24)


@pytest.mark.smoke(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_that_fails_one_request_in_twenty_changes_nothing(
    tmp_path: Path, bucket: Store, undisturbed: dict[str, bytes | None], seed: int
) -> None:
    """Also where the store has applied a conditional put, and its answer is lost: the retry finds its own object."""
    faults = Faults(0.05, seed)
    check_undisturbed(tmp_path, bucket, undisturbed, faults)
    assert faults.requests > 60
    assert faults.failed


@pytest.mark.smoke(1)
@pytest.mark.parametrize("seed", range(3))
def test_one_request_in_four_fails(
    tmp_path: Path, bucket: Store, undisturbed: dict[str, bytes | None], seed: int
) -> None:
    faults = Faults(0.25, seed)
    check_undisturbed(tmp_path, bucket, undisturbed, faults)
    assert faults.failed.total() >= 5


def check_undisturbed(tmp_path: Path, bucket: Store, undisturbed: dict[str, bytes | None], faults: Faults) -> None:
    """Data and output go through a proxy that makes requests fail; the release is the same, and charged once."""
    with proxy(bucket.address, faults) as address:
        config, output = stored(tmp_path / "release", bucket, None, bucket.at(address))
        with recorded("draws"):
            release(load_job(config))
        published = contents(output)
    differing = {"certificate.json", "manifest.json"}  # They name the ledger, and the time of the charge.
    assert published.keys() == undisturbed.keys()
    assert {name for name in published if published[name] != undisturbed[name]} <= differing
    assert len(charges(config)) == 1
