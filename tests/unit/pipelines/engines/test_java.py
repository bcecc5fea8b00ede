"""The choice of a Java, and the shim for one that lacks a module which Spark requests."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpcore.errors import EngineError
from pipelines.engines import java

MODULE = "--add-modules=jdk.incubator.vector"
HOSTILE_ARGUMENTS = ["-cp", "a b/*", "", "$HOME", 'quo"te', "it's", "-Dx=*", "--add-modules=jdk.other", "last\n"]


def fake_java(home: Path, version: str, *, has_module: bool = True) -> Path:
    """A program that answers as Java does when asked for its settings, and otherwise prints its arguments."""
    refusal = "" if has_module else f'[ "$argument" = "{MODULE}" ] && exit 1'
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"""#!/bin/sh
asked=no
for argument do
  {refusal}
  [ "$argument" = "-XshowSettings:properties" ] && asked=yes
done
[ $asked = no ] && {{ printf '%s\\0' "$@"; exit 0; }}
echo "Picked up JAVA_TOOL_OPTIONS: -Dx=y" >&2
echo "    java.home = {home}" >&2
echo "    java.specification.version = {version}" >&2
""")
    program.chmod(0o755)
    return home


@pytest.fixture
def no_packaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_packaged", tuple)


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    home = fake_java(tmp_path / "packaged", "25", has_module=False)
    monkeypatch.setattr(java, "_packaged", lambda: (home / "bin" / "java",))
    return home


@pytest.mark.usefixtures("no_packaged")
@pytest.mark.parametrize(
    ("of_home", "of_path", "wanted"),
    [
        ("17", None, "home"),
        ("17", "21", "home"),
        ("11", "21", "path"),
        ("1.8", "17", "path"),
        (None, "17", "path"),
        ("11", "16", None),
        (None, None, None),
    ],
)
def test_the_first_java_that_is_new_enough_wins(
    tmp_path: Path, of_home: str | None, of_path: str | None, wanted: str | None
) -> None:
    environment = {"PATH": "", "HOME": str(tmp_path)}
    if of_home:
        environment["JAVA_HOME"] = str(fake_java(tmp_path / "home", of_home))
    if of_path:
        environment["PATH"] = str(fake_java(tmp_path / "path", of_path) / "bin")
    if wanted:
        assert java.find_java(environment).home == tmp_path / wanted
    else:
        with pytest.raises(EngineError, match=r"Java 17 or later.*pip install marquee\[spark,java\]"):
            java.find_java(environment)


def test_a_java_home_without_a_program_is_passed_over(tmp_path: Path, packaged: Path) -> None:
    environment = {"PATH": "", "JAVA_HOME": str(tmp_path / "nothing"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert java.find_java(environment).version == 25


def test_the_packaged_java_is_forced_over_a_good_one_of_the_machine(tmp_path: Path, packaged: Path) -> None:
    environment = {"JAVA_HOME": str(fake_java(tmp_path / "home", "17")), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert java.find_java(environment).version == 17
    assert java.find_java({**environment, "MARQUEE_JAVA": "packaged"}).version == 25


def test_a_choice_that_does_not_exist_is_refused() -> None:
    with pytest.raises(EngineError, match="MARQUEE_JAVA is 'system'; want 'packaged'"):
        java.find_java({"MARQUEE_JAVA": "system"})


def test_the_shim_drops_the_module_and_passes_everything_else_unchanged(tmp_path: Path, packaged: Path) -> None:
    environment = {"MARQUEE_JAVA": "packaged", "XDG_CACHE_HOME": str(tmp_path / "ca'che")}
    shim = java.find_java(environment).home / "bin" / "java"
    arguments = [MODULE, *HOSTILE_ARGUMENTS, MODULE]
    answer = subprocess.run([str(shim), *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout == "".join(f"{argument}\0" for argument in HOSTILE_ARGUMENTS)


def test_a_damaged_shim_is_repaired(tmp_path: Path, packaged: Path) -> None:
    environment = {"MARQUEE_JAVA": "packaged", "HOME": str(tmp_path)}
    shim = java.find_java(environment).home / "bin" / "java"
    whole = shim.read_text()
    shim.write_text(whole[:20])
    assert java.find_java(environment).home == shim.parents[1]
    assert shim.read_text() == whole


def test_an_unusable_cache_folder_gives_a_private_temporary_one(tmp_path: Path, packaged: Path) -> None:
    blocked = tmp_path / "a_file"
    blocked.write_text("")
    home = java.find_java({"MARQUEE_JAVA": "packaged", "XDG_CACHE_HOME": str(blocked)}).home
    assert blocked not in home.parents
    assert home.parents[1].stat().st_mode & 0o077 == 0
    assert (home / "bin" / "java").exists()


def test_processes_that_start_at_once_all_find_a_whole_shim(tmp_path: Path, packaged: Path) -> None:
    environment = {"MARQUEE_JAVA": "packaged", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with ThreadPoolExecutor(8) as threads:
        homes = set(threads.map(lambda _: java.find_java(environment).home, range(16)))
    (home,) = homes
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]
