"""``marquee verify``: a release passes, and every forgery of the table is seen, with and without the ledger."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from sqlalchemy import create_engine, text
from structlog.testing import capture_logs

from dpcore.errors import IntegrityError
from jobs.ledger import SqlLedger
from jobs.planning.job import Job, load_job
from jobs.release.run import release
from jobs.verification.findings import Outcome
from jobs.verification.release import Verification, check_published, verify_release
from tests.support.forgeries import FORGERIES, edit, mend, put, read_json
from tests.support.keys import private_pem
from tests.support.releases import World, baskets_world, table_world

# What a run checks before it says that a release is already published.
QUICK = {"files", "certificate", "sum of charges"}


@dataclass(frozen=True)
class Original:
    """A published release that tests copy.

    folder: Its folder.
    ledger: URL of the ledger.
    key: The public key that it is signed with.
    """

    folder: Path
    ledger: str
    key: Ed25519PublicKey


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """A release whose every call is fixed in advance, with a model and synthetic rows."""
    folder = tmp_path_factory.mktemp("original")
    ledger = f"sqlite:///{folder / 'marquee.db'}"
    with pytest.MonkeyPatch.context() as patch, capture_logs():  # The log of an earlier test may be closed.
        patch.chdir(folder)
        world = table_world(folder, None)  # type: ignore[arg-type]
        world.config["mechanism"] = {"name": "mwem_pgm", "rounds": 3}
        world.config["privacy"] |= {"ledger": ledger, "accounting": "zcdp"}
        world.save()
        SqlLedger(ledger).create_dataset("people", 1.0, 1e-6)
        key = Ed25519PrivateKey.generate()
        patch.setenv("MARQUEE_SIGNING_KEY", private_pem(key))
        made = release(load_job("release.yaml"))
    return Original(made.output, ledger, key.public_key())


def copied(original: Original, folder: Path) -> Path:
    copy = folder / "copy" / "people"
    shutil.copytree(original.folder, copy, symlinks=True)
    return copy


def failing(verification: Verification) -> set[str]:
    return {finding.check for finding in verification.failures}


def test_a_release_passes(original: Original) -> None:
    alone = verify_release(original.folder)
    assert failing(alone) == set()
    unknown = {one.check for one in alone.findings if one.outcome is Outcome.NOT_CHECKED}
    assert unknown == {"signature", "manifest in the ledger", "charge in the ledger", "journal in the ledger"}
    everything = verify_release(original.folder, SqlLedger(original.ledger), original.key)
    assert {finding.outcome for finding in everything.findings} == {Outcome.PASSED}
    check_published(original.folder, SqlLedger(original.ledger))


def test_at_least_20_forgeries_are_seen_without_the_ledger() -> None:
    assert sum(bool(forgery.seen_by) for forgery in FORGERIES.values()) >= 20


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_seen(original: Original, tmp_path: Path, name: str) -> None:
    forgery, folder = FORGERIES[name], copied(original, tmp_path)
    forgery.change(folder)
    if forgery.mended:
        mend(folder)
    assert failing(verify_release(folder)) == forgery.seen_by
    same_manifest = (folder / "manifest.json").read_bytes() == (original.folder / "manifest.json").read_bytes()
    signature = set() if same_manifest else {"signature"}
    assert failing(verify_release(folder, None, original.key)) == forgery.seen_by | signature
    ledger = SqlLedger(original.ledger)
    both = failing(verify_release(folder, ledger))
    assert both == forgery.seen_by | forgery.ledger_sees
    assert both
    if both & QUICK or forgery.ledger_sees:
        with pytest.raises(IntegrityError, match=r"people|manifest"):
            check_published(folder, ledger)


ANY: dict[str, object] = {
    "null": None, "negative": -1, "list": [], "object": {}, "large": 1e308, "digits": "9" * 3999, "surrogate": "\ud800",
    "verb": "retain", "true": True,
}  # fmt: skip


def _places(content: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a JSON value; of lists only the first two entries."""
    if place:
        yield place
    keys = list(content) if isinstance(content, dict) else range(len(content[:2])) if isinstance(content, list) else ()
    for key in keys:
        yield from _places(content[key], (*place, key))


@pytest.mark.full
@pytest.mark.parametrize("kind", ANY)
def test_any_value_at_any_place_is_a_finding_and_no_crash(original: Original, tmp_path: Path, kind: str) -> None:
    folder = copied(original, tmp_path)
    for place in _places(read_json(original.folder / "certificate.json")):
        shutil.copy(original.folder / "certificate.json", folder)
        edited = read_json(folder / "certificate.json")
        part = edited
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = ANY[kind]
        (folder / "certificate.json").write_text(json.dumps(edited))
        mend(folder)
        found = failing(verify_release(folder, SqlLedger(original.ledger)))
        assert found & {"certificate", "manifest in the ledger"}, place


def test_another_ledger_has_no_such_release(original: Original, tmp_path: Path) -> None:
    other = SqlLedger(f"sqlite:///{tmp_path / 'other.db'}")
    other.create_dataset("people", 1.0, 1e-6)
    wanted = {"manifest in the ledger", "charge in the ledger", "journal in the ledger"}
    assert failing(verify_release(original.folder, other)) == wanted


def test_without_a_recorded_manifest_the_charge_is_still_compared(original: Original, tmp_path: Path) -> None:
    """A ledger that was migrated from layout 2 knows the charge, and no manifest."""
    shutil.copy(original.ledger.removeprefix("sqlite:///"), tmp_path / "old.db")
    url = f"sqlite:///{tmp_path / 'old.db'}"
    with create_engine(url).begin() as connection:
        connection.execute(text("UPDATE releases SET manifest_sha256 = NULL"))
    folder = copied(original, tmp_path)
    assert failing(verify_release(folder, SqlLedger(url))) == set()
    edit(lambda content: content["guarantee"]["reserved_in_the_ledger"].update(amount="1", amount_as_number=1.0))(
        folder
    )
    mend(folder)
    assert failing(verify_release(folder, SqlLedger(url))) == {"charge in the ledger", "epsilon"}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    made = table_world(tmp_path, capsys)
    made.budget()
    assert made.run()[0] == 0
    return made


def test_a_run_does_not_say_already_of_a_mended_certificate(world: World) -> None:
    """The attack of the audit: epsilon in the certificate and the hash in the manifest are both changed."""
    folder = world.folder / "out" / "people"
    put(0.1, "guarantee", "epsilon")(folder)
    mend(folder)
    code, out, err = world.run()
    assert (code, out) == (7, "")
    assert "manifest.json is not the manifest that was published" in err


def test_a_run_without_a_recorded_manifest_compares_the_charges(world: World) -> None:
    """As above, for a ledger that has recorded no manifest: a dropped charge and a lowered reservation are seen."""
    with create_engine("sqlite:///marquee.db").begin() as connection:
        connection.execute(text("UPDATE releases SET manifest_sha256 = NULL"))
    folder = world.folder / "out" / "people"
    edit(lambda content: content["charges"].pop())(folder)
    mend(folder)
    code, _, err = world.run()
    assert code == 7
    assert "sum of charges" in err


def test_the_command_lists_every_finding(world: World) -> None:
    code, out, err = world.marquee("verify", "out/people", "--ledger", "sqlite:///marquee.db")
    assert (code, err) == (0, "")
    assert "FAILED" not in out
    assert "passed       epsilon: the reservation implies epsilon 1 at delta 1e-06" in out
    folder = world.folder / "out" / "people"
    put(0.1, "guarantee", "epsilon")(folder)
    (folder / "more").touch()
    code, out, err = world.marquee("verify", "out/people", "--json")
    said = json.loads(out)
    failed = {finding["check"] for finding in said["findings"] if finding["outcome"] == "failed"}
    assert (code, said["passed"], failed) == (7, False, {"files", "epsilon", "promise"})
    assert err == "marquee: out/people fails the checks: files, promise, epsilon; do not use this release\n"


def test_what_is_no_release_is_refused(world: World) -> None:
    code, _, err = world.marquee("verify", "out/none")
    assert (code, err) == (2, "marquee: out/none is not a folder; want the folder of a published release\n")
    code, out, _ = world.marquee("verify", "data")
    assert code == 7
    assert "manifest.json is not a manifest of a release" in out
    code, _, err = world.marquee("verify", "out/people", "--ledger", "sqlite:///none.db")
    assert code == 4
    assert "there is no ledger" in err
    assert world.marquee("verify")[0] == 2


def test_the_schema_of_a_certificate_is_printed(world: World) -> None:
    code, out, _ = world.marquee("verify", "--schema")
    assert (code, json.loads(out)["title"]) == (0, "Certificate")


def test_control_characters_of_a_forged_name_do_not_reach_the_terminal(world: World) -> None:
    (world.folder / "out" / "people" / "\x1b[2Jpassed").touch()
    code, out, _ = world.marquee("verify", "out/people")
    assert code == 7
    assert "\x1b" not in out
    assert r"\x1b[2Jpassed" in out


MECHANISMS: dict[str, dict[str, object]] = {
    "laplace": {"mechanism": {"name": "laplace"}, "privacy": {"delta": 0}},
    "gaussian": {"mechanism": {"name": "gaussian"}},
    "hdmm": {"mechanism": {"name": "hdmm"}, "privacy": {"accounting": "zcdp"}},
    "aim, replaced": {"mechanism": {"name": "aim"}, "privacy": {"neighbours": "replace_one_unit", "units": 300}},
    "mwem, pure": {"mechanism": {"name": "mwem", "rounds": 2}, "privacy": {"delta": 0}},
    "dual_query, gdp": {"mechanism": {"name": "dual_query"}, "privacy": {"accounting": "gdp"}},
    "dqrs": {"mechanism": {"name": "dqrs"}, "privacy": {"accounting": "zcdp"}},
    "priv_bayes, pure": {"mechanism": {"name": "priv_bayes"}, "privacy": {"delta": 0}},
    "baskets": {},
    "baskets, dual_query": {"mechanism": {"name": "dual_query", "samples": 20, "rounds": 8}},
}


@pytest.mark.smoke(4)
@pytest.mark.parametrize("name", MECHANISMS)
def test_releases_of_every_kind_pass(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = (baskets_world if name.startswith("baskets") else table_world)(tmp_path, capsys)
    for section, values in MECHANISMS[name].items():
        assert isinstance(values, dict)
        made.config[section] = values if section == "mechanism" else {**made.config[section], **values}
    made.save()
    made.budget(epsilon=20.0, delta=made.config["privacy"]["delta"])
    code, _, err = made.run()
    assert code == 0, err
    job: Job = made.job()
    verification = verify_release(job.output, SqlLedger(job.config.privacy.ledger))
    assert [f"{finding.check}: {finding.text}" for finding in verification.failures] == []
    assert made.run()[1].startswith("already published")
