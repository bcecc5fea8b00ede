"""``python -m jobs`` runs the command line where the script ``marquee`` is not installed."""

from __future__ import annotations

from jobs.cli import main

main()
