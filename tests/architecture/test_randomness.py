"""Where randomness may be drawn: the kernel's entropy, and Generators that estimation and oracles are given or make.

Tests put a recorded stream in place of the kernel's entropy; nothing in the packages can.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from dpcore.kernel import entropy
from tests.support.checks import PACKAGES, ROOT
from tests.support.recorded_randomness import recorded

ENTROPY = "dpcore/kernel/entropy.py"
POST_PROCESSING = ("dpcore/estimation/", "dpcore/oracles/", "dpcore/testing/")  # From an explicit numpy Generator.
SOURCES_OF_THE_SYSTEM = ("os.urandom", "os.getrandom", "secrets", "random", "uuid")
ONLY_A_TYPE = "numpy.random.Generator"  # May be named in annotations; it is made from nothing outside post-processing.


def test_dpcore_draws_randomness_in_its_places_alone() -> None:
    drawn = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in (ROOT / "dpcore").rglob("*.py")
        for name in forbidden(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    }
    assert drawn == set()


CODE = [
    ("dpcore/kernel/draw.py", "import numpy as np\nx = np.random.default_rng()", False),
    ("dpcore/kernel/draw.py", "import numpy\nx = numpy.random.normal()", False),
    ("dpcore/kernel/draw.py", "import numpy.random\nx = numpy.random.normal()", False),
    ("dpcore/kernel/draw.py", "import numpy.random as r\nx = r.normal()", False),
    ("dpcore/kernel/draw.py", "from numpy.random import default_rng\nx = default_rng()", False),
    ("dpcore/kernel/draw.py", "from numpy import random\nx = random.normal()", False),
    ("dpcore/mechanisms/draw.py", "import numpy as np\nx = np.random.laplace(size=3)", False),
    ("dpcore/mechanisms/draw.py", "import numpy as np\nx = np.random.Generator(np.random.PCG64(1))", False),
    ("dpcore/mechanisms/draw.py", "from numpy.random import Generator, PCG64\nx = Generator(PCG64(1))", False),
    ("dpcore/mechanisms/draw.py", "import random\nx = random.random()", False),
    ("dpcore/mechanisms/draw.py", "from random import choice", False),
    ("dpcore/mechanisms/draw.py", "import os\nx = os.urandom(8)", False),
    ("dpcore/mechanisms/draw.py", "from os import urandom", False),
    ("dpcore/mechanisms/draw.py", "import secrets\nx = secrets.randbelow(8)", False),
    ("dpcore/estimation/draw.py", "import secrets\nx = secrets.randbelow(8)", False),
    ("dpcore/oracles/draw.py", "import os\nx = os.urandom(8)", False),
    (ENTROPY, "import os\nimport secrets\nx = os.urandom(8)", True),
    (ENTROPY, "import numpy as np\nx = np.random.default_rng()", False),
    (
        "dpcore/kernel/draw.py",
        "import numpy as np\ndef f(g: np.random.Generator) -> float:\n    return g.random()",
        True,
    ),
    ("dpcore/mechanisms/draw.py", "from numpy.random import Generator\ndef f(g: Generator): return g.random()", True),
    ("dpcore/estimation/draw.py", "import numpy as np\nx = np.random.default_rng(1)", True),
    ("dpcore/oracles/draw.py", "import numpy as np\nx = np.random.default_rng(1)", True),
]


@pytest.mark.parametrize(("file", "code", "allowed"), CODE)
def test_a_draw_elsewhere_is_seen(file: str, code: str, allowed: bool) -> None:
    assert (not list(forbidden(file, code))) == allowed


def test_entropy_takes_nothing_but_how_much_is_drawn() -> None:
    """No seed, no setting, no environment variable, no state that a caller could set."""
    tree = ast.parse((ROOT / ENTROPY).read_text(encoding="utf-8"))
    assert {name for name in _used(tree) if name.startswith(("os", "sys"))} == {"os", "os.urandom"}
    assert not [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign | ast.ClassDef)]
    functions = {node.name: [argument.arg for argument in node.args.args] for node in _functions(tree)}
    assert functions == {"words": ["count"], "below": ["bound"], "each_below": ["bounds"], "_masks": ["bounds"]}


def test_no_package_puts_anything_in_place_of_the_entropy() -> None:
    replaced = [
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if _replaces_entropy(node)
    ]
    assert replaced == []


@pytest.mark.parametrize("code", [
    "entropy.words = print", "setattr(entropy, 'words', print)", "vars(entropy)['words'] = print",
    "entropy.__dict__['words'] = print", "del entropy.words",
])  # fmt: skip
def test_a_replacement_is_seen(code: str) -> None:
    assert any(map(_replaces_entropy, ast.walk(ast.parse(code))))


def test_a_stream_is_a_function_of_its_name() -> None:
    draws = []
    for name in ("a", "a", "b"):
        with recorded(name):
            draws.append((entropy.words(5).tolist(), entropy.below(10**30), entropy.below(1), entropy.below(2)))
    assert draws[0] == draws[1] != draws[2]
    assert all(0 <= draw[1] < 10**30 and draw[2] == 0 for draw in draws)


def test_a_recorded_stream_is_uniform() -> None:
    with recorded("uniform"):
        counts = np.bincount([entropy.below(6) for _ in range(6000)], minlength=6)
        bits = np.unpackbits(entropy.words(2000).view(np.uint8)).mean()
    assert len(counts) == 6
    assert (abs(counts - 1000) < 150).all()  # Five standard deviations.
    assert abs(bits - 0.5) < 0.01


def test_this_test_draws_from_a_stream_and_a_process_of_its_own_does_not() -> None:
    assert entropy.words.__module__ != "dpcore.kernel.entropy"
    program = "from dpcore.kernel import entropy; print(entropy.words.__module__, entropy.words(2).tolist())"
    drawn = {
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    }
    assert len(drawn) == 2
    assert all(line.startswith("dpcore.kernel.entropy ") for line in drawn)


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _replaces_entropy(node: ast.AST) -> bool:
    """Whether a node assigns to, deletes or reaches for the attributes of a name ``entropy``."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "entropy":
        return not isinstance(node.ctx, ast.Load) or node.attr == "__dict__"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        is_entropy = [isinstance(argument, ast.Name) and argument.id == "entropy" for argument in node.args]
        return node.func.id in ("setattr", "delattr", "vars") and any(is_entropy)
    return False


def forbidden(file: str, code: str) -> Iterator[str]:
    """Names of sources of randomness that ``code`` uses and that ``file`` may not use."""
    for name in _used(ast.parse(code)):
        of_numpy = name.startswith("numpy.random") and name not in (ONLY_A_TYPE, "numpy.random")
        of_the_system = any(name == source or name.startswith(f"{source}.") for source in SOURCES_OF_THE_SYSTEM)
        if (of_numpy and not file.startswith(POST_PROCESSING)) or (of_the_system and file != ENTROPY):
            yield name


def _used(tree: ast.Module) -> Iterator[str]:
    """Full dotted names that are imported, and attributes of imported names."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
                yield alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            parts = [node.attr]
            inner = node.value
            while isinstance(inner, ast.Attribute):
                parts.append(inner.attr)
                inner = inner.value
            if isinstance(inner, ast.Name) and inner.id in names:
                yield ".".join([names[inner.id], *reversed(parts)])
