"""One planted fault: a small change of the source that a named test must notice."""

from __future__ import annotations

from dataclasses import dataclass

PYTEST_FAILED = 1


@dataclass(frozen=True)
class Mutant:
    """A fault, and the test that must fall.

    name: What is wrong, in words; unique.
    file: Path of the source file from the root of the repository.
    old: Text that occurs in the file exactly once.
    new: What takes its place.
    test: The test to run, as pytest names it: a file, or a file with ``::function``.
    equivalent: For a change that no test can notice, the proof that the program stays the same; else empty.
    """

    name: str
    file: str
    old: str
    new: str
    test: str
    equivalent: str = ""

    def apply(self, source: str) -> str:
        """The source with the fault. Raises ValueError where the text to replace does not occur exactly once."""
        count = source.count(self.old)
        if count != 1:
            raise ValueError(f"mutant {self.name!r}: {self.old!r} occurs {count} times in {self.file}; want once")
        return source.replace(self.old, self.new)
