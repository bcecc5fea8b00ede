"""python -m tests.mutation [WORD ...]: plants every fault, one at a time, and prints those that no test notices.

With words, only mutants whose area, file or name contains one of them. The faults are planted in copies of the
repository, never in the working tree. First the named tests must pass without any fault; then each mutant runs the one
test that must fall. A mutant survives when its test passes. Exit code 1 where a mutant survives that is not proved
equivalent, or where the tests fail without a fault.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutation.areas import AREAS
from tests.mutation.mutant import PYTEST_FAILED, Mutant
from tests.support.checks import ROOT

WORKERS = 2
LIMIT_S = 600  # A fault may turn a loop endless: that is noticed too.


def chosen(words: Sequence[str]) -> list[Mutant]:
    """The mutants of the areas, files or names that contain one of the words; all of them without words."""
    return [
        mutant
        for area, mutants in AREAS.items()
        for mutant in mutants
        if not words or any(word in f"{area} {mutant.file} {mutant.name}" for word in words)
    ]


def copy_of_the_repository(target: Path) -> Path:
    """Every file that git knows or would add, with the changes of the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and "benchmarks/results" not in name:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


def pytest_code(root: Path, tests: Sequence[str]) -> tuple[int, str]:
    """pytest's exit code, and the end of what it printed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, check=False, capture_output=True, text=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return PYTEST_FAILED, "did not end"
    return done.returncode, done.stdout[-2000:]


def is_noticed(mutant: Mutant, root: Path) -> bool:
    """Whether the test falls. Raises RuntimeError where it cannot even be collected."""
    path = root / mutant.file
    source = path.read_text(encoding="utf-8")
    path.write_text(mutant.apply(source), encoding="utf-8")
    try:
        code, printed = pytest_code(root, [mutant.test])
    finally:
        path.write_text(source, encoding="utf-8")
    if code > PYTEST_FAILED:  # A negative code is a crash of the process, which nobody overlooks.
        raise RuntimeError(f"mutant {mutant.name!r}: pytest ended with {code}\n{printed}")
    return code != 0


def main(words: Sequence[str]) -> int:
    """Plants the chosen faults and prints the survivors."""
    mutants, start = chosen(words), time.monotonic()
    if not mutants:
        print(f"no mutant has an area, file or name with {' or '.join(words)}; leave the words out for all of them")
        return 2
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(WORKERS):
            copies.put(copy_of_the_repository(Path(folder) / str(number)))
        first = copies.get()
        code, printed = pytest_code(first, sorted({mutant.test for mutant in mutants}))
        copies.put(first)
        if code:
            print(f"the tests fail without a fault:\n{printed}")
            return 1

        def survives(mutant: Mutant) -> bool:
            root = copies.get()
            try:
                return not is_noticed(mutant, root)
            finally:
                copies.put(root)

        with ThreadPoolExecutor(WORKERS) as pool:
            for number, (mutant, survived) in enumerate(zip(mutants, pool.map(survives, mutants), strict=True), 1):
                if survived:
                    survivors.append(mutant)
                    print(f"SURVIVES {mutant.name} ({mutant.file})")
                if sys.stderr.isatty():
                    print(f"\r{number} of {len(mutants)}", end="", file=sys.stderr)
    unexplained = [mutant for mutant in survivors if not mutant.equivalent]
    for mutant in survivors:
        if mutant.equivalent:
            print(f"equivalent, {mutant.name}: {mutant.equivalent}")
    seconds = time.monotonic() - start
    print(f"{len(mutants)} mutants, {len(survivors)} survive, {len(unexplained)} of them unexplained; {seconds:.0f} s")
    return 1 if unexplained else 0


sys.exit(main(sys.argv[1:]))
