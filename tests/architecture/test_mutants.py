"""Planted faults: each has a name of its own, applies to the present source, and names a test that exists."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.areas import AREAS
from tests.mutation.mutant import Mutant
from tests.support.checks import ROOT

MUTANTS = [mutant for mutants in AREAS.values() for mutant in mutants]


def test_every_area_is_a_module_and_every_name_is_unique() -> None:
    modules = {path.stem for path in (ROOT / "tests" / "mutation").glob("*.py")} - {"__main__", "areas", "mutant"}
    assert modules == set(AREAS)
    assert max(Counter(mutant.name for mutant in MUTANTS).values()) == 1


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_and_names_its_test(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    changed = mutant.apply(source)
    assert changed != source
    ast.parse(changed)
    file, _, function = mutant.test.partition("::")
    assert Path(file).parts[0] == "tests"
    functions = {
        node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.FunctionDef)
    }
    assert function.partition("[")[0] in functions or not function


def test_a_mutant_that_does_not_apply_is_refused() -> None:
    mutant = Mutant("twice", "a.py", "x", "y", "tests/test_a.py")
    with pytest.raises(ValueError, match=r"mutant 'twice': 'x' occurs 2 times in a.py; want once"):
        mutant.apply("x + x")
