"""Tables of the ledger. Amounts are exact fractions stored as text; charges are only ever appended."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    event,
)

METADATA = MetaData()

# salt and fingerprint_key are secrets, drawn once a dataset. SENSITIVE, never shown.
DATASETS = Table(
    "datasets",
    METADATA,
    Column("name", String(200), primary_key=True),
    Column("path", Text, unique=True),
    Column("currency", String(20), nullable=False),
    Column("total", Text, nullable=False),
    Column("epsilon", Float, nullable=False),
    Column("delta", Float, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("fingerprint_key", LargeBinary, nullable=False),
    Column("created", String(40), nullable=False),
)

RELEASES = Table(
    "releases",
    METADATA,
    Column("release_id", String(64), primary_key=True),
    Column("dataset", String(200), ForeignKey("datasets.name"), nullable=False),
    Column("currency", String(20), nullable=False),
    Column("amount", Text, nullable=False),
    Column("state", String(20), nullable=False),
    Column("fingerprint", String(64), nullable=False),  # SENSITIVE
    Column("state_folder", Text, nullable=False),
    Column("journal_head", String(64)),
    Column("output", Text),
    Column("created", String(40), nullable=False),
    Column("updated", String(40), nullable=False),
)

CHARGES = Table(
    "charges",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("dataset", String(200), ForeignKey("datasets.name"), nullable=False),
    Column("release_id", String(64), ForeignKey("releases.release_id"), nullable=False, unique=True),
    Column("amount", Text, nullable=False),
    Column("charged", String(40), nullable=False),
)

for _verb in ("UPDATE", "DELETE"):
    _trigger = DDL(  # type: ignore[no-untyped-call]
        f"CREATE TRIGGER charges_refuse_{_verb.lower()} BEFORE {_verb} ON charges "
        "BEGIN SELECT RAISE(ABORT, 'charges are append-only'); END"
    )
    event.listen(CHARGES, "after_create", _trigger.execute_if(dialect="sqlite"))
