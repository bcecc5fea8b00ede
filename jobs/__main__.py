"""python -m jobs: the command line where no script is installed."""

from __future__ import annotations

from jobs.cli import main

main()
