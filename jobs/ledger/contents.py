"""The content of a dataset's files: the same data get no second total under another name, wherever their files are.

The ledger keeps keyed digests of the footer of each file and of the statistics and sizes of each row group that a run
of a dataset has found. Two rules decide whether files hold data of another dataset:

- A file with the footer of another dataset's file belongs to that dataset. The footers of small files may be equal by
  chance (the same few values, in a placeholder for example), so one file is enough only from ``SMALLEST_FILE`` rows on.
- The files of a run, of any size, belong to other datasets if those know the row groups with at least half of the rows.
  A few row groups may be equal by chance, or be common to many datasets, but not most of the rows.

A digest belongs to the first dataset that had it, and to those that may share its data; no other dataset records it. A
dataset that was allowed to start with a small share of such rows can therefore not go on with them alone.

A file without rows, and row groups without statistics, are ignored (``pipelines.source.content``). What was rewritten
with other row groups, columns, compression or encodings has other digests, and is not recognised.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import JSON, Connection, FromClause, cast, exists, func, insert, literal, select

from dpcore.errors import ConfigError
from jobs.ledger.records import DatasetBudget
from jobs.ledger.rows import stamp
from jobs.ledger.schema import lock_layout, read_content_key
from jobs.ledger.tables import CONTENTS, DATASETS
from pipelines.source.content import FileContent

SMALLEST_FILE = 100  # Rows. A footer of fewer rows says too little for a refusal because of one file.
_DIGEST_BYTES = 16


def bind_contents(
    connection: Connection, dataset: DatasetBudget, contents: Sequence[FileContent], now: datetime
) -> None:
    """Checks that the files of a run hold no data of another dataset, and records what identifies their content.

    Raises: ConfigError when they hold data of another dataset, unless the operator has let both share data.
    """
    # Equal contents have no common row that could be locked, so of two first runs over copies one waits here.
    lock_layout(connection)
    stored = _stored_digests(connection, contents)
    owners = _owners(connection, stored.values())
    others = _of_others(dataset, stored, owners)
    _check_own(dataset, contents, others)
    new_digests = {
        digest for plain, digest in stored.items() if plain not in others and dataset.name not in owners.get(digest, {})
    }
    if new_digests:
        rows = [{"dataset": dataset.name, "digest": digest, "bound": stamp(now)} for digest in sorted(new_digests)]
        connection.execute(insert(CONTENTS), rows)


def check_moved(connection: Connection, dataset: DatasetBudget, path: str, contents: Sequence[FileContent]) -> None:
    """Checks that the files at a new path hold content of the dataset, and no data of another dataset.

    Raises: ConfigError when no footer and no row group is known as the dataset's, or the files hold data of another.
    """
    stored = _stored_digests(connection, contents)
    owners = _owners(connection, stored.values())
    _check_own(dataset, contents, _of_others(dataset, stored, owners))
    if not any(dataset.name in owners.get(digest, {}) for digest in stored.values()):
        raise ConfigError(
            f"no file at {path} has the footer or a row group of a file that runs of dataset {dataset.name!r} have "
            "read; want the path of the moved data; if the data were rewritten or replaced on the way, add "
            "--new-content, which is recorded with the reason"
        )


def is_content_known(connection: Connection, name: str) -> bool:
    """Whether the ledger can recognise data of a dataset. Runs of layouts 1 and 2 recorded nothing."""
    return bool(connection.execute(select(exists().where(CONTENTS.c.dataset == name))).scalar_one())


def how_to_share(name: str) -> str:
    """What the operator can do about a refusal, because of data that belong to the dataset ``name``."""
    return (
        f"want dataset.name: {name}. If a second total must cover data there too, create a dataset with a new name: "
        f"marquee budget create --dataset NAME --epsilon EPSILON --delta DELTA --shares-with {shlex.quote(name)} "
        "--reason REASON; nothing then bounds what a unit loses through both"
    )


def _stored_digests(connection: Connection, contents: Sequence[FileContent]) -> dict[bytes, str]:
    """The digests as the ledger stores them, by the digests without a key. SENSITIVE."""
    key = read_content_key(connection)  # SENSITIVE
    return {
        digest: hashlib.blake2b(digest, key=key, digest_size=_DIGEST_BYTES).hexdigest()
        for content in contents
        for digest in content.digests
    }


def _owners(connection: Connection, digests: Iterable[str]) -> dict[str, dict[str, str]]:
    """For each digest that the ledger knows: the datasets that had it, with the names that own their data."""
    wanted = _as_table(connection, sorted(digests))
    query = (
        select(CONTENTS.c.digest, DATASETS.c.name, DATASETS.c.shares_with)
        .join(DATASETS, DATASETS.c.name == CONTENTS.c.dataset)
        .join(wanted, wanted.c.value == CONTENTS.c.digest)
        .order_by(DATASETS.c.name)
    )
    owners: dict[str, dict[str, str]] = {}
    for row in connection.execute(query):
        owners.setdefault(row.digest, {})[row.name] = row.shares_with or row.name
    return owners


def _as_table(connection: Connection, texts: Sequence[str]) -> FromClause:
    """A table with one column, value, as one parameter: databases limit the number of parameters of a query."""
    document = literal(json.dumps(texts))
    if connection.dialect.name == "sqlite":
        return func.json_each(document).table_valued("value")
    return func.json_array_elements_text(cast(document, JSON)).table_valued("value")


def _of_others(
    dataset: DatasetBudget, stored: Mapping[bytes, str], owners: Mapping[str, Mapping[str, str]]
) -> dict[bytes, str]:
    """The digests without a key that belong to another dataset, with its name."""
    return {
        plain: name
        for plain, digest in stored.items()
        for name, owner in owners.get(digest, {}).items()
        if owner != dataset.data_owner
    }


def _check_own(dataset: DatasetBudget, contents: Sequence[FileContent], others: Mapping[bytes, str]) -> None:
    """Applies both rules. Raises ConfigError when files hold data of another dataset.

    others: Digests without a key that belong to another dataset, with its name.
    """
    known_rows, known_files = Counter[str](), dict[str, str]()
    for content in contents:
        if not content.is_file and content.footer in others:  # The digest of all its rows.
            raise _belongs_to(others[content.footer], dataset, f"{content.file} has the same rows as data of")
        if content.rows >= SMALLEST_FILE and content.footer in others:
            what = f"file {content.file} has the same footer as a file of"
            raise _belongs_to(others[content.footer], dataset, what)
        for group in content.row_groups:
            name = others.get(group.digest)
            if name is not None:
                known_rows[name] += group.rows
                known_files.setdefault(name, content.file)
    if known_rows and 2 * known_rows.total() >= sum(content.rows for content in contents):
        name = known_rows.most_common(1)[0][0]
        what = f"at least half of the rows are in row groups, as in {known_files[name]}, with the same statistics as in"
        raise _belongs_to(name, dataset, what)


def _belongs_to(name: str, dataset: DatasetBudget, what: str) -> ConfigError:
    return ConfigError(
        f"{what} dataset {name!r} in this ledger, so the data belong to {name!r} and not to dataset "
        f"{dataset.name!r}; {how_to_share(name)}"
    )
