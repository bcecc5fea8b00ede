"""``marquee``, whose first run stops for good once it is charged and has drawn its noise, until somebody kills it.

    python -m tests.support.stalled_release run release.yaml

The file that MARQUEE_STALLED names tells that the run has stopped; it holds the number of the process. While the file
exists, runs do not stop.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from jobs.cli import main
from jobs.release import run


def stall_once(marker: Path) -> None:
    """Stops the first run before it writes answers."""
    write = run.write_answers

    def stalled(*given: Any, **named: Any) -> Any:
        if not marker.exists():
            hidden = marker.with_name(f"{marker.name}.new")
            hidden.write_text(str(os.getpid()))
            hidden.rename(marker)
            while True:
                signal.pause()
        return write(*given, **named)

    run.write_answers = stalled  # type: ignore[assignment]


if __name__ == "__main__":
    stall_once(Path(os.environ["MARQUEE_STALLED"]))
    main(sys.argv[1:])
