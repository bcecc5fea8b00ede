"""Settings of mechanisms: checked, named anew with a warning, or retired with a way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import jobs.mechanisms
from dpcore.errors import ConfigError
from dpcore.mechanisms.aim.aim import Aim
from dpcore.mechanisms.registry import MECHANISMS
from jobs.config import MechanismChoice
from jobs.mechanisms import mechanism_of


def choice(name: str, **settings: Any) -> MechanismChoice:
    return MechanismChoice.model_validate({"name": name, **settings})


@dataclass(frozen=True)
class Renamed:
    """A mechanism with a setting that had another name."""

    rounds: int = 3

    renamed: ClassVar[dict[str, str]] = {"steps": "rounds"}


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr(jobs.mechanisms.log, "warning", heard.append)
    monkeypatch.setitem(MECHANISMS, "renamed", Renamed)  # type: ignore[arg-type]
    return heard


def test_an_old_name_is_taken_with_a_warning_that_names_the_new_one(warnings: list[str]) -> None:
    assert mechanism_of(choice("renamed", steps=5)) == Renamed(5)
    assert warnings == ["config key 'mechanism.steps' is deprecated; want 'mechanism.rounds'"]


def test_the_present_name_is_taken_in_silence(warnings: list[str]) -> None:
    assert mechanism_of(choice("renamed", rounds=5)) == Renamed(5)
    assert warnings == []


@pytest.mark.parametrize("order", [("steps", "rounds"), ("rounds", "steps")])
def test_both_names_at_once_are_refused(warnings: list[str], order: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match="rounds is set twice, once by its old name steps; want rounds alone"):
        mechanism_of(choice("renamed", **dict.fromkeys(order, 5)))


def test_a_retired_setting_says_what_to_do_instead() -> None:
    with pytest.raises(ConfigError, match="batch_share is no longer a setting of mechanism aim: .* published"):
        mechanism_of(choice("aim", batch_share=0.5))


@pytest.mark.parametrize(
    ("name", "setting", "instead"),
    [(name, *item) for name, kind in MECHANISMS.items() for item in getattr(kind, "retired", {}).items()],
)
def test_what_is_retired_is_no_setting_any_more(name: str, setting: str, instead: str) -> None:
    assert setting not in MECHANISMS[name].__dataclass_fields__  # type: ignore[attr-defined]
    assert len(instead.split()) > 3


def test_the_profile_of_aim() -> None:
    assert mechanism_of(choice("aim", profile="published")) == Aim(profile="published")
    with pytest.raises(ConfigError, match=r"mechanism.profile .*'default' or 'published'"):
        mechanism_of(choice("aim", profile="printed"))


def test_settings_that_would_never_end_are_refused(warnings: list[str]) -> None:
    assert mechanism_of(choice("renamed", rounds=1_000_000)) == Renamed(1_000_000)
    with pytest.raises(ConfigError, match=r"mechanism\.rounds is 1,000,001; want at most 1,000,000$"):
        mechanism_of(choice("renamed", rounds=1_000_001))
