"""Whether schema.json says what the certificate says, which the release id covers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpcore.errors import ConfigError
from jobs.outputs.schema_file import SCHEMA_FILE, read_schema
from jobs.planning.identity import identifying_schema
from jobs.verification.findings import Finding, failed, not_checked, passed

CHECK = "schema"


def schema_finding(folder: Path, certified: dict[str, Any] | None) -> Finding:
    """Compares the attributes of schema.json with those of the certificate. Of words it checks that they fit a code.

    folder: The folder of the release.
    certified: The section ``schema`` of its certificate; None for baskets.
    """
    path = folder / SCHEMA_FILE
    if not path.exists():
        return not_checked(
            CHECK, f"the release has no {SCHEMA_FILE}; the certificate has the schema of a table in full"
        )
    try:
        schema = read_schema(folder)
    except (ConfigError, OSError, ValueError, RecursionError) as error:
        return failed(CHECK, f"{path} is no schema ({type(error).__name__})")
    # As JSON, in which true is not 1 and a list is a list.
    said, wanted = (json.dumps(content, sort_keys=True) for content in (identifying_schema(schema), certified))
    if said != wanted:
        return failed(CHECK, f"{path} has other attributes than the certificate")
    return passed(CHECK, f"{SCHEMA_FILE} has the attributes of the certificate")
