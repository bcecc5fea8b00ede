"""Faults of the checks of a published release."""

from __future__ import annotations

from typing import Final

from tests.mutation.mutant import Mutant

_FORGERY = "tests/integration/test_forgeries.py::test_a_forgery_is_seen"

MUTANTS: Final = (
    Mutant(
        "the sum of the charges may exceed the reservation",
        "jobs/verification/charges.py",
        "    if total > Fraction(reserved.amount):",
        "    if False:",
        "tests/unit/jobs/verification/test_charges.py::test_the_whole_budget_is_enough_and_no_more",
    ),
    Mutant(
        "a dropped charge passes",
        "jobs/verification/charges.py",
        "    if Fraction(used.amount) != total:",
        "    if Fraction(used.amount) < total:",
        "tests/integration/test_forgeries.py::test_a_run_without_a_recorded_manifest_compares_the_charges",
        equivalent="the number of charges is compared with the journal's, so that a dropped charge is seen all the same",
    ),
    Mutant(
        "noise that costs more than was charged passes",
        "jobs/verification/charges.py",
        "    if exact > amount * (1 + (_TOLERANCE if rounded else 0)):",
        "    if False:",
        "tests/unit/jobs/verification/test_charges.py::test_another_amount_is_seen",
    ),
    Mutant(
        "a zCDP amount is recomputed as mu^2",
        "jobs/verification/charges.py",
        "Currency.ZCDP: sensitivity / (2 * scale**2)",
        "Currency.ZCDP: sensitivity / scale**2",
        "tests/unit/jobs/verification/test_charges.py::test_what_the_kernel_charges_follows",
    ),
    Mutant(
        "epsilon is not recomputed",
        "jobs/verification/charges.py",
        "guarantee.epsilon)) and epsilon > guarantee.epsilon:",
        "guarantee.epsilon)) and False:",
        _FORGERY,
        equivalent="the amount that the promised epsilon is worth is compared next; this branch gives the clearer text",
    ),
    Mutant(
        "a release id that does not follow from config and schema passes",
        "jobs/verification/promises.py",
        "        if other != certificate.release_id\n",
        '        if place == "manifest.json" and other != certificate.release_id\n',
        _FORGERY,
    ),
    Mutant(
        "answers outside their intervals pass",
        "jobs/verification/tables.py",
        "if (lower > answer).any() or (answer > upper).any():",
        "if (lower > upper).any():",
        _FORGERY,
    ),
    Mutant(
        "values outside the domain pass",
        "jobs/verification/tables.py",
        "                    if not _within(rows[name], values):",
        "                    if False:",
        "tests/unit/jobs/verification/test_tables.py::test_a_value_outside_the_domain_is_named",
    ),
    Mutant(
        "the manifest is not compared with the ledger",
        "jobs/verification/records.py",
        "        same = sha256_of(folder / MANIFEST) == record.manifest_sha256",
        "        same = True",
        _FORGERY,
    ),
    Mutant(
        "the reservation is not compared with the ledger",
        "jobs/verification/records.py",
        "    if budget != record.budget:",
        "    if False:",
        _FORGERY,
    ),
    Mutant(
        "the journal is not compared with the ledger",
        "jobs/verification/records.py",
        "    same = (said.answers, said.chain) == (record.answers, record.journal_head)",
        "    same = True",
        _FORGERY,
    ),
    Mutant(
        "a run says already without the ledger's records",
        "jobs/verification/release.py",
        "findings += [*sum_findings(read[0]), *ledger_findings(local, read[0], ledger)]",
        "findings += [*sum_findings(read[0])]",
        _FORGERY,
    ),
    Mutant(
        "any signature passes",
        "jobs/verification/signature.py",
        "        key.verify(signature, (folder / MANIFEST).read_bytes())\n",
        "        (folder / MANIFEST).read_bytes()\n",
        "tests/integration/test_signature.py::test_the_owner_of_the_key_has_signed_it",
    ),
    Mutant(
        "a release without a signature passes",
        "jobs/verification/signature.py",
        '        return failed(CHECK, f"{path} does not exist;',
        '        return passed(CHECK, f"{path} does not exist;',
        "tests/integration/test_signature.py::test_a_release_without_a_signature",
    ),
    Mutant(
        "a key is first read after the charge",
        "jobs/release/run.py",
        "    signer(job.config.output.signing_key)  # A key",
        "    # A key",
        "tests/integration/test_signature.py::test_a_key_that_cannot_sign_is_refused_before_the_charge",
    ),
    Mutant(
        "the time of the charge is not compared",
        "jobs/verification/records.py",
        "    if charges and certificate.reserved_at != when:",
        "    if False:",
        _FORGERY,
    ),
    Mutant(
        "a rule's confidence and lift pass unseen",
        "jobs/verification/rules.py",
        "        if not all(map(_equal, (ratios.values, ratios.lower, ratios.upper), actual)):\n",
        '        if name == "support" and not _equal(ratios.values, actual[0]):\n',
        "tests/unit/jobs/verification/test_rules.py::test_another_measure_of_a_rule_of_listed_items_is_noticed",
    ),
    Mutant(
        "supports are compared with any number of units",
        "jobs/verification/rules.py",
        "        return np.full(3, float(public))\n",
        "        pass\n",
        "tests/unit/jobs/verification/test_rules.py::test_another_number_of_units_than_the_public_one_is_noticed",
    ),
)
