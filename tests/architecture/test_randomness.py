"""Where randomness may be drawn: the kernel's entropy, and Generators that estimation and oracles are given or make."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.checks import ROOT

ENTROPY = "dpcore/kernel/entropy.py"
POST_PROCESSING = ("dpcore/estimation/", "dpcore/oracles/")  # They draw from an explicit numpy Generator.
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
