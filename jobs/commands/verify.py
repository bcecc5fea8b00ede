"""marquee verify"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from jobs.options import AsJson


def verify(
    folder: Annotated[str | None, typer.Argument(help="The folder of a published release, or its URL.")] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Database URL of the ledger that was charged. Without it, less can be checked.")
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option(help="File with the Ed25519 public key (PEM) that the release should be signed with.")
    ] = None,
    as_json: AsJson = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a certificate and exit.")] = False,
) -> None:
    """Check a published release: its files, guarantee, charges and tables, and the ledger's records.

    No data are read and no budget is spent. A release in an object store is first copied to a temporary folder. The
    exit code is 7 if a check fails. Without the ledger and the public key of a signed release, a folder that was
    rewritten as a whole cannot be told from the release.

    Examples:

        marquee verify out/adult

        marquee verify out/adult --ledger sqlite:///marquee.db --json

        marquee verify out/adult --public-key office.pem

        marquee verify s3://bucket/releases/adult
    """
    from dpcore.errors import IntegrityError
    from jobs.ledger import SqlLedger
    from jobs.objects.output import output_of
    from jobs.outputs.certificate_format import certificate_schema
    from jobs.verification.release import verify_release
    from jobs.verification.signature import read_public_key

    if schema:
        typer.echo(certificate_schema())
        return
    if folder is None:
        raise typer.BadParameter("the folder is missing; want the folder of a release, or --schema")
    result = verify_release(
        output_of("FOLDER", folder),
        None if ledger is None else SqlLedger(ledger),
        None if public_key is None else read_public_key(public_key),
    )
    if as_json:
        findings = [{"check": one.check, "outcome": one.outcome.lower(), "text": one.text} for one in result.findings]
        typer.echo(
            json.dumps({"folder": str(result.folder), "passed": not result.failures, "findings": findings}, indent=2)
        )
    else:
        for finding in result.findings:
            typer.echo(f"{finding.outcome:<13}{finding.check}: {finding.text}")
    if result.failures:
        names = ", ".join(dict.fromkeys(finding.check for finding in result.failures))
        raise IntegrityError(f"{result.folder} fails the checks: {names}; do not use this release")
