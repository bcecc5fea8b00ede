"""Runs the checks of a published release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore.errors import ConfigError, IntegrityError
from jobs.ledger import SqlLedger
from jobs.objects.folder import StoredFolder
from jobs.objects.output import Output, local_copy, renamed
from jobs.outputs.certificate_format import Certificate, parse_certificate
from jobs.outputs.items_file import ITEMS_FILE
from jobs.outputs.itemset_tables import ITEMSETS, RULES
from jobs.outputs.model_file import BASKETS, MODEL
from jobs.outputs.schema_file import SCHEMA_FILE
from jobs.verification import recomputed, records
from jobs.verification.charges import cost_findings, sum_findings
from jobs.verification.findings import Finding, Outcome, failed, judged, not_checked, passed
from jobs.verification.items_file import CHECK as ITEMS_CHECK
from jobs.verification.items_file import items_finding, named_layout
from jobs.verification.itemset_tables import CHECK as ITEMSET_CHECK
from jobs.verification.manifest import MANIFEST, SUCCESS, Manifest, file_problems, read_manifest
from jobs.verification.promises import identity_findings, promise_findings
from jobs.verification.records import ledger_findings
from jobs.verification.schema_file import CHECK as SCHEMA_CHECK
from jobs.verification.schema_file import schema_finding
from jobs.verification.signature import signature_finding
from jobs.verification.tables import ANSWERS, SYNTHETIC, table_findings
from jobs.wording import number_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

CERTIFICATE = "certificate.json"
_NEED_CERTIFICATE = (
    "release id", "version", "promise", SCHEMA_CHECK, ITEMS_CHECK, "limits", "charges", "sum of charges", "epsilon",
    "numerical bound", "answers", *recomputed.CHECKS, ITEMSET_CHECK, "synthetic rows", "model", *records.CHECKS,
)  # fmt: skip


@dataclass(frozen=True)
class Verification:
    """The result of all checks of a release.

    folder: The folder of the release.
    findings: The result of each check, in order.
    """

    folder: Output
    findings: tuple[Finding, ...]

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings of the checks that failed."""
        return tuple(finding for finding in self.findings if finding.outcome is Outcome.FAILED)

    def require(self) -> None:
        """Raises IntegrityError that lists every failure, if there is one."""
        if self.failures:
            said = "; ".join(f"{finding.check}: {finding.text}" for finding in self.failures)
            raise IntegrityError(f"{self.folder} is not the release that was published; do not use it. {said}")


def verify_release(
    folder: Output, ledger: SqlLedger | None = None, public_key: Ed25519PublicKey | None = None
) -> Verification:
    """Runs every check of a published release. No data are read, and no file of the release is changed.

    folder: The folder of the release. One in a store is copied to a temporary folder first.
    ledger: The ledger that was charged for it.
    public_key: The public key that the release should be signed with. Without it and without the ledger, a folder that
        was rewritten as a whole may pass.

    Raises: ConfigError when there is no such folder; NoBudgetError when there is no ledger at its URL;
        LedgerUnavailableError when it cannot be reached.
    """
    if isinstance(folder, StoredFolder):
        names = list(folder.sizes())
        if not names:
            raise ConfigError(f"{folder} holds no objects; want the folder of a published release")
        with local_copy(folder, names) as copy:
            result = verify_release(copy, ledger, public_key)
            named = (replace(finding, text=str(renamed(finding.text, copy, folder))) for finding in result.findings)
            return Verification(folder, tuple(named))
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; want the folder of a published release")
    files, manifest = _file_findings(folder)
    form, read = _certificate_findings(folder)
    findings = [*files, signature_finding(folder, public_key), *form]
    if read is None or manifest is None:
        reason = "the certificate or the manifest cannot be read"
        return Verification(folder, (*findings, *(not_checked(check, reason) for check in _NEED_CERTIFICATE)))
    certificate, content = read
    findings += [*identity_findings(certificate, content, manifest), *promise_findings(certificate)]
    findings += [
        schema_finding(folder, content["schema"]),
        items_finding(folder, certificate),
        *cost_findings(certificate),
    ]
    try:
        findings += table_findings(folder, certificate, named_layout(folder, certificate))
    except (ConfigError, IntegrityError, ValueError, TypeError, KeyError, AttributeError) as error:
        findings.append(failed("answers", f"config and schema describe no tables ({type(error).__name__})"))
    return Verification(folder, (*findings, *ledger_findings(folder, certificate, ledger)))


def check_published(folder: Output, ledger: SqlLedger) -> None:
    """Checks the files, the sum of the charges and the records of the ledger, before a release counts as published.

    folder: The folder of the release, with or without _SUCCESS.
    ledger: The ledger that was charged for it.

    Raises: IntegrityError that lists every failure.
    """
    problems = list(file_problems(folder))
    if problems:
        raise IntegrityError(problems[0])
    with local_copy(folder, [MANIFEST, CERTIFICATE]) as local:
        form, read = _certificate_findings(local)
        findings = list(form)
        if read is not None:
            findings += [*sum_findings(read[0]), *ledger_findings(local, read[0], ledger)]
        Verification(local, tuple(findings)).require()


def _file_findings(folder: Path) -> tuple[list[Finding], Manifest | None]:
    """Compares the files with the manifest, and checks that the manifest lists what every release has."""
    try:
        manifest = read_manifest(folder)
        problems = list(file_problems(folder))
    except IntegrityError as error:
        return [failed("files", str(error))], None
    paths = {entry.path for entry in manifest.entries}
    known = (ANSWERS, BASKETS, CERTIFICATE, ITEMS_FILE, ITEMSETS, MODEL, RULES, SCHEMA_FILE)
    unknown = {path for path in paths if path not in known and not _is_part(path)}
    incomplete = [f"manifest.json lists no {name}" for name in (ANSWERS, CERTIFICATE) if name not in paths]
    incomplete += [f"manifest.json lists {path}, which is no file of a release" for path in sorted(unknown)]
    if not (folder / SUCCESS).is_file():
        incomplete.append(f"{folder / SUCCESS} is missing; run the release again to complete it")
    files = judged("files", problems, f"{number_of(len(paths), 'file')} with the sizes and hashes of manifest.json")
    return [*files, *judged("complete", incomplete, "manifest.json lists what a release has")], manifest


def _is_part(path: str) -> bool:
    return path.startswith(f"{SYNTHETIC}/part-") and path.endswith(".parquet") and path.count("/") == 1


def _certificate_findings(folder: Path) -> tuple[list[Finding], tuple[Certificate, dict[str, Any]] | None]:
    """Reads the certificate in the published format."""
    path = folder / CERTIFICATE
    try:
        if path.is_symlink():
            raise IntegrityError("it is a symbolic link")
        read = parse_certificate(path.read_text(encoding="utf-8"))
    except (IntegrityError, OSError, UnicodeDecodeError) as error:
        reason = str(error) if isinstance(error, IntegrityError) else type(error).__name__
        return [failed("certificate", f"{path} cannot be used: {reason}")], None
    return [passed("certificate", "it has the published format")], read
