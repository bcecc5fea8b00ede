"""The reliability suite at full size: python -m tests.reliability [part ...] runs parts and writes RESULTS.md."""

from __future__ import annotations

import sys

from tests.audit.suite import Result, Suite, result_lines
from tests.reliability.parts import PARTS, load_part


def report(results: list[Result]) -> str:
    """RESULTS.md, from the stored results."""
    lines = [
        "# Reliability: results",
        "",
        "Written by `make soak`; do not edit. `make test` runs a fast version of each part.",
        "",
    ]
    if not results:
        lines += ["No part has been run at full size yet.", ""]
    for result in results:
        lines += result_lines(result)
    return "\n".join(lines)


RELIABILITY = Suite("reliability", "part", PARTS, load_part, report)

if __name__ == "__main__":
    sys.exit(RELIABILITY.main(sys.argv[1:]))
