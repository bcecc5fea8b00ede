"""Plays the people who adopt Marquee, each in a clean environment and from the documents alone.

``python -m tests.roles`` builds the wheel, installs it into a new environment, and runs every snippet of the README and
of the guides that it sends each role to, as written. ``results.json`` has the commands, their seconds, exit codes and
every message that a person would have met. ``steps`` takes a page apart, and ``playing`` runs its steps.
"""

from __future__ import annotations
