"""CONTRIBUTING names files to copy from, commands and modules: all of them exist."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.support.checks import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PATHS = sorted({path for path in re.findall(r"`([\w./-]+)`", TEXT) if "/" in path and not path.startswith("..")})
TARGETS = sorted(set(re.findall(r"`make ([a-z-]+)", TEXT)))
RECIPES = ("A mechanism", "An estimator", "An aggregator", "A query type", "An engine")


@pytest.mark.parametrize("path", PATHS)
def test_a_named_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("target", TARGETS)
def test_a_named_target_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_names_one_file_to_copy_from(recipe: str) -> None:
    section = TEXT.split(f"### {recipe}\n")[1].split("\n##")[0]
    (source,) = re.findall(r"1\. Copy `([\w/]+\.py)`", section)
    importlib.import_module(source.removesuffix(".py").replace("/", "."))


def test_the_contract_suite_is_imported_as_shown() -> None:
    snippet = TEXT.split("```python\n")[1].split("```")[0]
    for module, names in re.findall(r"^from ([\w.]+) import (.+)$", snippet, re.MULTILINE):
        assert all(hasattr(importlib.import_module(module), name) for name in names.split(", "))
