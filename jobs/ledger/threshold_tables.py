"""The table of releases that have discovered items, and of what they have taken from delta. It is append-only."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, String, Table, Text

from jobs.ledger.tables import METADATA, append_only

# threshold_delta is the probability that the threshold of the release lets a name pass that only one unit has: an exact
# fraction. surcharge is the part of its charge that pays for this, beside the budget of its noise.
THRESHOLDS = Table(
    "thresholds",
    METADATA,
    Column("release_id", String(64), ForeignKey("releases.release_id"), primary_key=True),
    Column("dataset", String(200), ForeignKey("datasets.name"), nullable=False, index=True),
    Column("threshold_delta", Text, nullable=False),
    Column("surcharge", Text, nullable=False),
)

append_only(THRESHOLDS, "release_id = NEW.release_id")
