"""Checks a published release: what a reader can recompute from its folder, and what only the ledger knows.

* ``release``: start here. ``verify_release`` runs every check, and ``check_published`` the quick ones before a run says
  that a release is already published.
* ``findings``: the result of one check.
* ``manifest``: manifest.json, and the files that it names.
* ``promises``: the release id, and whether guarantee and public facts follow from config and schema.
* ``charges``: every charge recomputed from its sensitivity and scale, their sum, and epsilon.
* ``schema_file``: schema.json, against the certificate. ``items_file``: items.parquet, against the same.
* ``tables``: answers.parquet, the synthetic rows and the model, against workload and schema.
* ``records``: manifest, charge and journal, against the ledger.
* ``signature``: the signature of the manifest, against a public key.

Only the last two, or a copy of the manifest's hash from a trusted source, can tell a release from a consistent forgery.
"""

from __future__ import annotations
