"""A release against the ledger that was charged for it: manifest, charge and journal."""

from __future__ import annotations

import json
from pathlib import Path

from dpcore.errors import ConfigError, IntegrityError
from jobs.config.partition import PartitionChoice
from jobs.ledger import SqlLedger
from jobs.ledger.records import ReleaseRecord, State
from jobs.outputs.certificate_format import Certificate
from jobs.planning.partition import partition_from
from jobs.planning.series import SeriesFacts
from jobs.verification.charges import as_number, reserved_budget
from jobs.verification.findings import Finding, failed, judged, not_checked
from jobs.verification.manifest import MANIFEST, sha256_of

CHECKS = ("manifest in the ledger", "charge in the ledger", "journal in the ledger")


def ledger_findings(folder: Path, certificate: Certificate, ledger: SqlLedger | None) -> list[Finding]:
    """Compares a release with the records of the ledger. Without a ledger nothing is compared.

    Raises: NoBudgetError when there is no ledger at its URL; LedgerUnavailableError when it cannot be reached.
    """
    if ledger is None:
        reason = "no ledger was given; only the ledger tells a release from a folder that was rewritten as a whole"
        return [not_checked(check, reason) for check in CHECKS]
    ledger.check_there()
    record = ledger.release(certificate.release_id)
    if record is None:
        text = f"the ledger has no release {certificate.release_id[:12]}; want the ledger that was charged for it"
        return [failed(check, text) for check in CHECKS]
    return [
        *_manifest_findings(folder, record),
        *_charge_findings(certificate, record, ledger),
        *_journal_findings(certificate, record),
    ]


def _manifest_findings(folder: Path, record: ReleaseRecord) -> list[Finding]:
    if record.manifest_sha256 is None:
        reason = "the ledger has recorded no manifest of it yet; marquee run records the manifest"
        return [not_checked(CHECKS[0], reason)]
    try:
        same = sha256_of(folder / MANIFEST) == record.manifest_sha256
    except OSError:
        same = False
    problems = [] if same else [f"{folder / MANIFEST} is not the manifest that was published; restore the release"]
    return judged(CHECKS[0], problems, "it is the manifest that was published")


def _charge_findings(certificate: Certificate, record: ReleaseRecord, ledger: SqlLedger) -> list[Finding]:
    """Compares reservation, dataset and consumer with the record, and the reservation with the charge."""
    problems = []
    facts = {
        "dataset": (certificate.dataset.name, record.dataset),
        "consumer": (certificate.public_facts.consumer, record.consumer),
        "ledger_id": (certificate.ledger_id, ledger.ledger_id()),
    }
    for name, (said, recorded) in facts.items():
        if said != recorded:
            problems.append(f"{name} is {said!r}, but the ledger has {recorded!r}")
    try:
        budget = reserved_budget(certificate)
    except ValueError as error:
        return [failed(CHECKS[1], str(error))]
    if budget != record.budget:
        problems.append(
            f"{budget.currency} = {as_number(budget.amount):.9g} is reserved, but the ledger has "
            f"{record.budget.currency} = {float(record.budget.amount):.9g}"
        )
    try:
        history = ledger.history(record.dataset)
        paid_by = ledger.series.paid_by(_series(certificate), record.release_id)
    except (ConfigError, IntegrityError) as error:
        return [failed(CHECKS[1], str(error))]
    if paid_by != (certificate.series and certificate.series.paid_by):
        problems.append("series.paid_by is not the release that the ledger has charged for the series")
    charges = [charge for charge in history if charge.release_id == record.release_id]
    paying = [charge for charge in history if charge.release_id == (paid_by or record.release_id)]
    if not charges:
        problems.append("the ledger has charged nothing for it")
    elif paying[0].amount < budget.amount and ledger.verified(record.dataset).currency is budget.currency:
        problems.append(f"the ledger has charged {float(paying[0].amount):.9g}, less than was reserved")
    if charges:
        problems += _partition_problems(certificate, charges[0].blocks)
    when = charges[0].charged if charges else ""
    if charges and certificate.reserved_at != when:
        problems.append(f"reserved_at is {certificate.reserved_at!r}, but the ledger has {when!r}")
    return judged(CHECKS[1], problems, f"charged {budget.currency} = {as_number(budget.amount):.9g} on {when[:10]}")


def _partition_problems(certificate: Certificate, charged: tuple[str, ...]) -> list[str]:
    """Compares the partitions of the config with those that were charged."""
    try:
        section = certificate.config["dataset"].get("partition")
        choice = None if section is None else PartitionChoice.model_validate_json(json.dumps(section))
        named = () if choice is None else partition_from(choice).names
    except (ConfigError, ValueError, KeyError, TypeError, AttributeError) as error:  # Anything may stand there.
        return [f"dataset.partition of the config describes no partitions ({type(error).__name__})"]
    if sorted(named) == sorted(charged):
        return []
    return [f"the release is of {_partitions(named)}, but the ledger has charged {_partitions(charged)}"]


def _partitions(names: tuple[str, ...]) -> str:
    return f"{len(names):,} partitions of the dataset" if names else "the whole dataset"


def _series(certificate: Certificate) -> SeriesFacts | None:
    """The series that the certificate names."""
    said = certificate.series
    return None if said is None else SeriesFacts(said.id, said.step, said.steps, said.attribute, said.strategy)


def _journal_findings(certificate: Certificate, record: ReleaseRecord) -> list[Finding]:
    said = certificate.hashes.kernel_answers
    if record.state.step < State.ESTIMATED.step:
        return [failed(CHECKS[2], f"the ledger has this release as {record.state.value}, before it could be published")]
    if record.answers is None:
        return [not_checked(CHECKS[2], "a ledger of layout 1 has recorded no number of answers")]
    same = (said.answers, said.chain) == (record.answers, record.journal_head)
    problems = [] if same else ["the journal of the kernel's answers has another length or hash in the ledger"]
    return judged(CHECKS[2], problems, f"{said.answers} kernel calls, with the hash in the ledger")
