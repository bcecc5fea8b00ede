"""The tables of series of releases, of which all steps are charged once. All of them are append-only."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Integer, String, Table, Text

from jobs.ledger.tables import METADATA, append_only

# Every series that has been charged: with its first step, which is the release of step 1. strategy is a digest of what
# all steps together measure, and with which noise; no step may measure anything else. matrix is the strategy itself,
# because another machine may plan one that differs in its last bits.
SERIES = Table(
    "series",
    METADATA,
    Column("series_id", String(64), primary_key=True),
    Column("dataset", String(200), ForeignKey("datasets.name"), nullable=False, index=True),
    Column("steps", Integer, nullable=False),
    Column("strategy", String(64), nullable=False),
    Column("matrix", Text, nullable=False),
    Column("started", String(40), nullable=False),
)

# Every step that may have been drawn: its release, which is the only one of this step for ever.
SERIES_STEPS = Table(
    "series_steps",
    METADATA,
    Column("series_id", String(64), ForeignKey("series.series_id"), primary_key=True),
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("release_id", String(64), ForeignKey("releases.release_id"), nullable=False, unique=True),
)

# A keyed digest of the exact counts of all steps up to this one, as this step has read them. SENSITIVE.
SERIES_HISTORY = Table(
    "series_history",
    METADATA,
    Column("series_id", String(64), ForeignKey("series.series_id"), primary_key=True),
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("counts", String(64), nullable=False),
)

append_only(SERIES, "series_id = NEW.series_id")
append_only(SERIES_STEPS, "series_id = NEW.series_id AND step = NEW.step OR release_id = NEW.release_id")
append_only(SERIES_HISTORY, "series_id = NEW.series_id AND step = NEW.step")
