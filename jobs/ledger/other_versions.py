"""Releases that another version of the program has made: an upgrade must not charge the same release again."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.engine import Row

from dpcore.errors import ChargedBeforeError
from jobs.ledger.records import OtherVersion
from jobs.ledger.rows import release_of
from jobs.ledger.tables import CHARGES, RELEASES
from jobs.planning.identity import Identity


def charged_by_others(connection: Connection, identity: Identity) -> list[OtherVersion]:
    """The charged releases of other versions that are the same as this one, the latest charge first.

    identity: The release. Its dataset is one of the facts that it was hashed from.
    """
    same = (RELEASES.c.identity == identity.digest) | RELEASES.c.release_id.in_(identity.older)
    query = (
        select(RELEASES, CHARGES.c.charged)
        .join(CHARGES, CHARGES.c.release_id == RELEASES.c.release_id)
        .where(same, RELEASES.c.release_id != identity.release_id)
        .order_by(CHARGES.c.number.desc())
    )
    return [
        OtherVersion(
            release_of(row), row.version or identity.older[row.release_id], str(row.charged), str(row.fingerprint)
        )
        for row in connection.execute(query)
    ]


def check_not_charged_meanwhile(connection: Connection, row: Row[Any]) -> None:
    """Refuses a charge if another version was charged for the same release after this one was planned.

    Programs of layouts 1 and 2 cannot have been it: they do not open a ledger of this layout.

    row: The release, under the lock of its dataset.

    Raises: ChargedBeforeError; nothing is charged then.
    """
    if row.repeats is not None or row.identity is None:
        return
    others = charged_by_others(connection, Identity(row.release_id, row.identity, {}, row.version))
    if others:
        raise ChargedBeforeError(f"{others[0].described}; nothing was charged now; run the same command again")
