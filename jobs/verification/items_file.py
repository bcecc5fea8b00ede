"""Whether items.parquet has the names whose hash the certificate states, which the release id covers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from dpcore.errors import ConfigError, IntegrityError
from jobs.outputs.certificate_format import Certificate
from jobs.outputs.items_file import ITEMS_FILE, read_items
from jobs.verification.findings import Finding, Outcome, failed, passed
from jobs.verification.promises import layout_of
from jobs.workload.item_files import KEY
from pipelines.layout import BasketLayout, Layout

CHECK = "items"


def items_finding(folder: Path, certificate: Certificate) -> Finding:
    """Compares the names with the hash in the certificate, and their number with its public facts.

    folder: The folder of the release.
    certificate: Its certificate.
    """
    wanted = _certified(certificate)
    try:
        names = read_items(folder)
    except (ConfigError, OSError, ValueError, pa.ArrowException) as error:
        return failed(CHECK, f"{folder / ITEMS_FILE} cannot be used ({type(error).__name__})")
    if names is None and wanted is None:
        return passed(CHECK, "the items of the release have no names")
    if names is None or wanted is None:
        return failed(CHECK, f"{ITEMS_FILE} is {'missing' if names is None else 'not in the certificate'}")
    if names.digest != wanted or names.size != certificate.public_facts.items:
        return failed(CHECK, f"{folder / ITEMS_FILE} has other names than the certificate")
    return passed(CHECK, f"{ITEMS_FILE} has the {names.size:,} names of the certificate")


def _certified(certificate: Certificate) -> str | None:
    """SHA-256 of the names, as the certificate states it; None for a release without names."""
    if certificate.discovery is not None:
        return certificate.discovery.names
    return certificate.hashes.public_files.get(KEY)


def named_layout(folder: Path, certificate: Certificate) -> Layout:
    """The layout that a certificate describes, with the names of its items.

    Raises: IntegrityError when items.parquet is not what the certificate says; the exceptions of ``layout_of``.
    """
    layout = layout_of(certificate)
    if not isinstance(layout, BasketLayout) or _certified(certificate) is None:
        return layout
    finding = items_finding(folder, certificate)
    names = None if finding.outcome is Outcome.FAILED else read_items(folder)
    if names is None:
        raise IntegrityError(finding.text)
    return replace(layout, names=names)
