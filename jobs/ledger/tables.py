"""The tables of the ledger. Amounts are exact fractions, stored as text. Charges and grants are append-only."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    event,
)

VERSION = 6
METADATA = MetaData()

# One row, which holds the layout version of all tables, and the id of the ledger, which is public and is drawn once, as
# is content_key, the key of all digests in contents. SENSITIVE: the key is never shown. Layout 1 had no such table.
INFO = Table(
    "ledger_info",
    METADATA,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("ledger_id", String(16), nullable=False),
    Column("content_key", LargeBinary, nullable=False),
)

# currency and total are null until the first reservation chooses the currency. spent is the sum of the charges, which
# changes in the transactions that append charges. unit (a column of the data), contribution ("rows" or "items"),
# max_per_unit (null for unbounded) and neighbours say whom the total protects; they are null until they are bound.
# shares_with is the dataset whose data this dataset may use too. salt and fingerprint_key are secrets that are drawn
# once per dataset. SENSITIVE: they are never shown.
DATASETS = Table(
    "datasets",
    METADATA,
    Column("name", String(200), primary_key=True),
    Column("path", Text),
    Column("shares_with", String(200)),
    Column("unit", Text),
    Column("contribution", String(10)),
    Column("max_per_unit", BigInteger),
    Column("neighbours", String(20)),
    Column("currency", String(20)),
    Column("total", Text),
    Column("spent", Text, nullable=False),
    Column("epsilon", Float, nullable=False),
    Column("delta", Float, nullable=False),
    Column("consumers_only", Boolean, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("fingerprint_key", LargeBinary, nullable=False),
    Column("created", String(40), nullable=False),
)

# refresh is the consumer's window. spent is the sum of its charges in the window that starts at window_start.
CONSUMERS = Table(
    "consumers",
    METADATA,
    Column("dataset", String(200), ForeignKey("datasets.name"), primary_key=True),
    Column("name", String(200), primary_key=True),
    Column("refresh", String(10), nullable=False),
    Column("epsilon", Float, nullable=False),
    Column("delta", Float, nullable=False),
    Column("total", Text),
    Column("spent", Text, nullable=False),
    Column("window_start", String(10), nullable=False),
    Column("created", String(40), nullable=False),
)

# answers is the number of answers in the journal, and journal_head is the hash in the journal's last line.
# manifest_sha256 is null until the release is published. version is the version of Marquee that planned the release,
# and identity the digest that other versions find for the same config. repeats is the release of another version that
# this release makes again with a new charge, because the operator has asked for it.
RELEASES = Table(
    "releases",
    METADATA,
    Column("release_id", String(64), primary_key=True),
    Column("dataset", String(200), ForeignKey("datasets.name"), nullable=False),
    Column("consumer", String(200)),
    Column("currency", String(20), nullable=False),
    Column("amount", Text, nullable=False),
    Column("unit", Text),  # Null for a release of layouts 1 and 2, as are the next three columns.
    Column("contribution", String(10)),
    Column("max_per_unit", BigInteger),
    Column("neighbours", String(20)),
    Column("state", String(20), nullable=False),
    Column("fingerprint", String(64), nullable=False),  # SENSITIVE
    Column("state_folder", Text, nullable=False),
    Column("answers", Integer),  # Null for a release of layout 1.
    Column("journal_head", String(64)),
    Column("output", Text),
    Column("manifest_sha256", String(64)),
    Column("version", String(40)),  # Null for a release of layouts 1 and 2, as is the next column.
    Column("identity", String(64)),
    Column("repeats", String(64)),
    Column("created", String(40), nullable=False),
    Column("updated", String(40), nullable=False),
)

# spent and consumer_spent are the sums of the dataset's charges and of the consumer's charges in this window, including
# this charge; spent of a partitioned dataset is what a unit has lost at most. The sums in the rows of datasets and
# consumers can be changed, and are checked against these sums, which cannot. These columns have no default, so that a
# program of layout 1, which stores no sums, cannot append a charge.
CHARGES = Table(
    "charges",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("dataset", String(200), ForeignKey("datasets.name"), nullable=False),
    Column("consumer", String(200)),
    Column("window_start", String(10), nullable=False),
    Column("release_id", String(64), ForeignKey("releases.release_id"), nullable=False, unique=True),
    Column("amount", Text, nullable=False),
    Column("spent", Text, nullable=False),
    Column("consumer_spent", Text, nullable=False),
    Column("charged", String(40), nullable=False),
    Index("charges_of_dataset", "dataset", "number"),
    Index("charges_of_consumer", "dataset", "consumer", "number"),
)

# Every change of what a dataset (consumer null) or one of its consumers may spend, and of whom a dataset protects.
GRANTS = Table(
    "grants",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("dataset", String(200), ForeignKey("datasets.name"), nullable=False, index=True),
    Column("consumer", String(200)),
    Column("refresh", String(10), nullable=False),
    Column("epsilon", Float, nullable=False),
    Column("delta", Float, nullable=False),
    Column("currency", String(20)),
    Column("amount", Text),
    Column("unit", Text),  # Null for a consumer, as are the next three columns.
    Column("contribution", String(10)),
    Column("max_per_unit", BigInteger),
    Column("neighbours", String(20)),
    Column("reason", Text, nullable=False),
    Column("granted", String(40), nullable=False),
)

# Every place where data of a dataset have been: the path of its configs, and each file outside that path to which a
# link in it has led. A place stays bound after the dataset has moved.
PLACES = Table(
    "places",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("dataset", String(200), ForeignKey("datasets.name"), nullable=False, index=True),
    Column("path", Text, nullable=False),
    Column("bound", String(40), nullable=False),
)

# What identifies the content of each file that a run of a dataset has read: keyed digests of its footer and of the
# sizes and statistics of its row groups, as 32 hexadecimal digits. Layouts 1 and 2 recorded none.
CONTENTS = Table(
    "contents",
    METADATA,
    Column("digest", String(32), primary_key=True),
    Column("dataset", String(200), ForeignKey("datasets.name"), primary_key=True, index=True),
    Column("bound", String(40), nullable=False),
)

# How a dataset is partitioned: the column, in how many partitions a unit is counted ("one_partition" or
# "many_partitions"), and the largest number of them (null for all). Datasets without a row are not partitioned. Layouts
# 1 to 3 had no such table, nor the next one.
PARTITIONINGS = Table(
    "partitionings",
    METADATA,
    Column("dataset", String(200), ForeignKey("datasets.name"), primary_key=True),
    Column("partition_column", Text, nullable=False),
    Column("units_in", String(20), nullable=False),
    Column("max_per_unit", BigInteger),
    Column("bound", String(40), nullable=False),
)

# The partitions that a release is about, each as text with its type ("text", "integer" or "date"). A release without a
# row is about the whole dataset. A partition has no name in two types, because all charges of a dataset have one.
RELEASE_BLOCKS = Table(
    "release_blocks",
    METADATA,
    Column("release_id", String(64), ForeignKey("releases.release_id"), primary_key=True),
    Column("block", Text, primary_key=True),
    Column("kind", String(10), nullable=False),
)


def append_only(table: Table, same_row: str) -> None:
    """Adds triggers that refuse every change of an existing row.

    same_row: SQL condition under which an insertion would replace an existing row. SQLite needs it, because INSERT OR
        REPLACE does not run the DELETE trigger.
    """
    refusal = f"BEGIN SELECT RAISE(ABORT, '{table.name} are append-only'); END"
    for verb in ("UPDATE", "DELETE"):
        _after_create(
            table, "sqlite", f"CREATE TRIGGER {table.name}_refuse_{verb} BEFORE {verb} ON {table.name} {refusal}"
        )
    replaces = f"WHEN EXISTS (SELECT 1 FROM {table.name} WHERE {same_row})"
    _after_create(
        table,
        "sqlite",
        f"CREATE TRIGGER {table.name}_refuse_replace BEFORE INSERT ON {table.name} {replaces} {refusal}",
    )
    _after_create(
        table,
        "postgresql",
        "CREATE OR REPLACE FUNCTION marquee_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '%% are append-only', TG_TABLE_NAME; END $$",
    )
    _after_create(
        table,
        "postgresql",
        f"CREATE TRIGGER {table.name}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table.name} "
        "FOR EACH STATEMENT EXECUTE FUNCTION marquee_append_only()",
    )


def _after_create(table: Table, dialect: str, statement: str) -> None:
    ddl = DDL(statement)  # type: ignore[no-untyped-call]
    event.listen(table, "after_create", ddl.execute_if(dialect=dialect))


append_only(CHARGES, "number = NEW.number OR release_id = NEW.release_id")
append_only(GRANTS, "number = NEW.number")
append_only(PLACES, "number = NEW.number")
append_only(CONTENTS, "digest = NEW.digest AND dataset = NEW.dataset")
append_only(PARTITIONINGS, "dataset = NEW.dataset")
append_only(RELEASE_BLOCKS, "release_id = NEW.release_id AND block = NEW.block")
