"""A release whose manifest is signed: who can check it, and what is refused before anything is charged."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from jobs.ledger import SqlLedger
from tests.support.keys import private_pem, public_pem
from tests.support.releases import LEDGER, World, table_world

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
RSA_KEY = rsa.generate_private_key(65537, 2048)
FINGERPRINT = "SHA256:56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.delenv("MARQUEE_SIGNING_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.set("output.synthetic_rows", 0)
    world.budget()
    (tmp_path / "public.pem").write_text(public_pem(KEY))
    (tmp_path / "other.pem").write_text(public_pem(OTHER_KEY))
    return world


def signed_by_file(world: World) -> None:
    (world.folder / "private.pem").write_text(private_pem(KEY))
    world.config["output"]["signing_key"] = "private.pem"
    world.save()


def test_the_owner_of_the_key_has_signed_it(world: World) -> None:
    signed_by_file(world)
    assert f"signed by  {FINGERPRINT}" in world.marquee("plan", "release.yaml")[1]
    assert world.run()[0] == 0
    code, out, err = world.marquee("verify", "out/people", "--public-key", "public.pem")
    assert (code, err) == (0, "")
    assert f"passed       signature: signed by {FINGERPRINT}" in out
    code, out, err = world.marquee("verify", "out/people", "--public-key", "other.pem")
    assert code == 7
    assert "FAILED       signature: out/people/manifest.sig is no signature of manifest.json by SHA256:" in out
    assert "fails the checks: signature" in err
    assert world.run()[1].startswith("already published")


def test_openssl_agrees(world: World) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    signed_by_file(world)
    assert world.run()[0] == 0
    command = [
        "openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "public.pem", "-rawin", "-in", "out/people/manifest.json",
        "-sigfile", "out/people/manifest.sig",
    ]  # fmt: skip
    subprocess.run(command, cwd=world.folder, check=True, capture_output=True)


def test_the_key_in_the_environment_signs_the_same(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARQUEE_SIGNING_KEY", private_pem(KEY))
    assert world.run()[0] == 0
    assert world.marquee("verify", "out/people", "--public-key", "public.pem")[0] == 0
    signature = world.folder / "out/people/manifest.sig"
    signature.write_bytes(OTHER_KEY.sign((world.folder / "out/people/manifest.json").read_bytes()))
    assert world.marquee("verify", "out/people", "--public-key", "public.pem")[0] == 7


@pytest.mark.parametrize("content", [b"", b"\0" * 64, b"x" * 65, None])
def test_a_signature_that_is_none(world: World, content: bytes | None) -> None:
    signed_by_file(world)
    assert world.run()[0] == 0
    signature = world.folder / "out/people/manifest.sig"
    signature.unlink() if content is None else signature.write_bytes(content)
    assert world.marquee("verify", "out/people")[0] == 0
    assert world.marquee("verify", "out/people", "--public-key", "public.pem")[0] == 7


def test_a_release_without_a_signature(world: World) -> None:
    assert world.run()[0] == 0
    assert not (world.folder / "out/people/manifest.sig").exists()
    out = world.marquee("verify", "out/people")[1]
    assert "not checked  signature: because no public key was given, and the release is not signed" in out
    code, out, _ = world.marquee("verify", "out/people", "--public-key", "public.pem")
    assert code == 7
    assert "manifest.sig does not exist; want a release that the owner of SHA256:" in out


SECRET = private_pem(KEY).splitlines()[1]
PRIVATE = {
    "no file": (None, "cannot be read (No such file or directory)"),
    "no key": ("hello", "is no key that can be read"),
    "a damaged key": (private_pem(KEY).replace(SECRET, SECRET[:-9]), "is no key that can be read"),
    "a public key": (public_pem(KEY), "is no key that can be read"),
    "an encrypted key": (
        KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")).decode(),
        "is no key that can be read",
    ),
    "an RSA key": (
        RSA_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(), "is a key of another kind",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_key_that_cannot_sign_is_refused_before_the_charge(world: World, name: str, command: str) -> None:
    content, problem = PRIVATE[name]
    if content is not None:
        (world.folder / "private.pem").write_text(content)
    world.config["output"]["signing_key"] = "private.pem"
    world.save()
    code, _, err = world.marquee(command, "release.yaml")
    assert (code, problem in err) == (2, True), err
    assert "openssl genpkey -algorithm ed25519" in err
    assert SECRET[:-9] not in err
    assert SqlLedger(LEDGER).history("people") == []


def test_the_key_in_the_environment_is_named_and_not_shown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARQUEE_SIGNING_KEY", SECRET)
    code, out, err = world.run()
    assert code == 2
    assert "the variable MARQUEE_SIGNING_KEY is no key" in err
    assert SECRET not in out + err


@pytest.mark.parametrize(("content", "problem"), [
    (None, "cannot be read"), ("hello", "is no public key"), (private_pem(KEY), "is no public key"),
    (RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(), "another kind"),
])  # fmt: skip
def test_a_public_key_that_is_none_is_refused(world: World, content: str | None, problem: str) -> None:
    assert world.run()[0] == 0
    if content is not None:
        (world.folder / "key.pem").write_text(content)
    code, _, err = world.marquee("verify", "out/people", "--public-key", "key.pem")
    assert (code, problem in err) == (2, True), err


def test_without_the_package_the_error_names_the_extra(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    signed_by_file(world)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    code, _, err = world.run()
    assert code == 2
    assert "pip install marquee[signature]" in err
