"""Forgeries of a published release: what a dishonest or careless hand may do to its folder, and which checks see it.

A consistent forger mends the manifest afterwards, so that all hashes fit again. The ledger still knows the hash of the
manifest that was published.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpcore.estimation.graphical.answering.serialization import load_model, save_model
from jobs.outputs.model_file import MODEL
from jobs.planning.identity import id_of

Change = Callable[[Path], None]
PART = "synthetic/part-00000.parquet"


@dataclass(frozen=True)
class Forgery:
    """One forgery.

    change: Changes a copy of the release's folder.
    seen_by: The checks that fail without a ledger; empty for what only the ledger sees.
    mended: Whether the manifest is mended afterwards.
    ledger_sees: The checks against the ledger that fail as well.
    """

    change: Change
    seen_by: set[str]
    mended: bool = True
    ledger_sees: frozenset[str] = frozenset({"manifest in the ledger"})


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def mend(folder: Path) -> None:
    """Writes the manifest anew for the files that are there."""
    manifest = read_json(folder / "manifest.json")
    others = {folder / "manifest.json", folder / "manifest.sig", folder / "_SUCCESS"}
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path not in others)
    manifest["files"] = [
        {
            "path": path.relative_to(folder).as_posix(),
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in files
    ]
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def edit(change: Callable[[dict[str, Any]], object]) -> Change:
    """Edits the certificate."""

    def apply(folder: Path) -> None:
        path = folder / "certificate.json"
        content = read_json(path)
        change(content)
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    return apply


def reworded(change: Callable[[dict[str, Any]], object]) -> Change:
    """Edits schema.json."""

    def apply(folder: Path) -> None:
        content = read_json(folder / "schema.json")
        change(content)
        (folder / "schema.json").write_text(json.dumps(content), encoding="utf-8")

    return apply


def put(value: object, *place: str | int) -> Change:
    """Puts a value into the certificate."""

    def change(content: Any) -> None:
        for key in place[:-1]:
            content = content[key]
        content[place[-1]] = value

    return edit(change)


def table(name: str, change: Callable[[pa.Table], pa.Table]) -> Change:
    """Rewrites a Parquet file."""

    def apply(folder: Path) -> None:
        pq.write_table(change(pq.read_table(folder / name, partitioning=None)), folder / name, compression="zstd")

    return apply


def column(name: str, row: int, value: object) -> Callable[[pa.Table], pa.Table]:
    """Puts a value into one row of a column."""

    def change(rows: pa.Table) -> pa.Table:
        values = rows[name].to_pylist()
        values[row] = value
        index = rows.column_names.index(name)
        return rows.set_column(index, rows.schema.field(index), pa.array(values, rows.schema.field(index).type))

    return change


def _outside_its_interval(rows: pa.Table) -> pa.Table:
    answer = rows["answer"][3].as_py()
    return column("upper", 3, answer + 2)(column("lower", 3, answer + 1)(rows))


def _swap_answers(rows: pa.Table) -> pa.Table:
    order = np.arange(rows.num_rows)
    order[[0, 1]] = order[[1, 0]]
    numbers, swapped = {"answer", "stddev", "lower", "upper", "measured"}, rows.take(order)
    columns = [(swapped if name in numbers else rows)[name] for name in rows.column_names]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _swap_queries(rows: pa.Table) -> pa.Table:
    order = np.arange(rows.num_rows)
    order[[0, 1]] = order[[1, 0]]
    return rows.set_column(0, rows.schema.field(0), rows["query"].take(order))


def _another_answers(folder: Path) -> None:
    """Twice as many people, in the model and in all answers."""
    with open(folder / MODEL, "rb") as file:
        model = load_model(file)
    with open(folder / MODEL, "wb") as file:
        save_model(replace(model, total=2 * model.total), file)
    rows = pq.read_table(folder / "answers.parquet")
    doubled = [rows[name] if rows.schema.field(name).type != pa.float64() else pc.multiply(rows[name], 2.0)
               for name in rows.column_names]  # fmt: skip
    pq.write_table(pa.Table.from_arrays(doubled, schema=rows.schema), folder / "answers.parquet")


def _promise(content: dict[str, Any], epsilon: float) -> None:
    """Lowers epsilon wherever it is written down as such."""
    guarantee = content["guarantee"]
    guarantee["promise"] = guarantee["promise"].replace(f"({guarantee['epsilon']:g},", f"({epsilon:g},")
    guarantee["epsilon"] = content["config"]["privacy"]["epsilon"] = epsilon


def _scale(charge: dict[str, Any], factor: int) -> None:
    charge["noise_scale"] *= factor


def _amount(entry: dict[str, Any], amount: Fraction) -> None:
    entry["amount"], entry["amount_as_number"] = str(amount), float(amount)


def _drop_a_charge(content: dict[str, Any]) -> None:
    content["charges"].pop()


def _drop_a_charge_and_mend_the_sum(content: dict[str, Any]) -> None:
    _drop_a_charge(content)
    charges = content["charges"]
    _amount(content["used_by_kernel_calls"], sum((Fraction(charge["amount"]) for charge in charges), Fraction(0)))
    content["hashes"]["kernel_answers"]["answers"] = len(charges)


def _double_noise(content: dict[str, Any]) -> None:
    """Twice the sensitivity and the noise that goes with it: each amount still follows."""
    for charge in content["charges"]:
        _scale(charge, 2)
        squared = charge["sensitivity_bounds"] == "squared L2"
        charge["sensitivity"] = str(Fraction(charge["sensitivity"]) * (4 if squared else 2))


def _another_release(folder: Path) -> None:
    """A release of another config, with an id that follows from it, in the manifest too."""

    def change(content: dict[str, Any]) -> None:
        content["config"]["dataset"]["snapshot"] = content["dataset"]["snapshot"] = "2026-12"
        files, version = content["hashes"]["public_files"], content["versions"]["marquee"]
        forged = id_of(content["config"], content["schema"], files, version)
        content["release_id"] = content["hashes"]["config_schema_and_version"] = forged

    edit(change)(folder)
    manifest = read_json(folder / "manifest.json")
    manifest["release_id"] = read_json(folder / "certificate.json")["release_id"]
    (folder / "manifest.json").write_text(json.dumps(manifest))


def _manifest(change: Callable[[dict[str, Any]], object]) -> Change:
    def apply(folder: Path) -> None:
        content = read_json(folder / "manifest.json")
        change(content)
        (folder / "manifest.json").write_text(json.dumps(content))

    return apply


def _leave_out(content: dict[str, Any], name: str) -> None:
    content["files"] = [file for file in content["files"] if file["path"] != name]


def _leave_out_and_delete_the_answers(folder: Path) -> None:
    (folder / "answers.parquet").unlink()
    _manifest(lambda content: _leave_out(content, "answers.parquet"))(folder)


def _outside(folder: Path) -> None:
    secret = b"of another folder"
    (folder.parent / "secret").write_bytes(secret)
    entry = {"path": "../secret", "bytes": len(secret), "sha256": hashlib.sha256(secret).hexdigest()}
    _manifest(lambda content: content["files"].append(entry))(folder)


def _link(name: str) -> Change:
    """Puts a symbolic link to the same content in the place of a file or a folder."""

    def apply(folder: Path) -> None:
        (folder / name).rename(folder.parent / "elsewhere")
        (folder / name).symlink_to(folder.parent / "elsewhere")

    return apply


def _flip_a_bit(folder: Path) -> None:
    path = folder / "certificate.json"
    path.write_bytes(path.read_bytes().replace(b'"label": "m', b'"label": "M', 1))


def _first_measurement(content: dict[str, Any]) -> dict[str, Any]:
    charge: dict[str, Any] = next(charge for charge in content["charges"] if charge["verb"] == "measure")
    return charge


LEDGER_ALSO = frozenset({"manifest in the ledger", "charge in the ledger"})
JOURNAL_ALSO = frozenset({"manifest in the ledger", "journal in the ledger"})
EVERY_RECORD = LEDGER_ALSO | JOURNAL_ALSO
UNMENDED: frozenset[str] = frozenset()

FORGERIES: dict[str, Forgery] = {
    # Files and manifest.
    "a bit of a label is flipped": Forgery(_flip_a_bit, {"files"}, False, UNMENDED),
    "the model is deleted": Forgery(
        lambda folder: (folder / "model.npz").unlink(), {"files", "model"}, False, UNMENDED
    ),
    "the model is deleted everywhere": Forgery(lambda folder: (folder / "model.npz").unlink(), {"model"}),
    "a file is added": Forgery(lambda folder: (folder / "more").touch(), {"files"}, False, UNMENDED),
    "a file is added and listed": Forgery(lambda folder: (folder / "more").touch(), {"complete"}),
    "the answers become a link": Forgery(_link("answers.parquet"), {"files"}, False, UNMENDED),
    "the synthetic rows become a link": Forgery(_link("synthetic"), {"files"}, False, UNMENDED),
    "the manifest becomes a link": Forgery(_link("manifest.json"), {"files"}, False, UNMENDED),
    "_SUCCESS has content": Forgery(
        lambda folder: (folder / "_SUCCESS").write_text("0.1-DP") and None, {"files"}, False, UNMENDED
    ),
    "the manifest leaves a file out": Forgery(
        _manifest(lambda content: _leave_out(content, PART)), {"files"}, False
    ),
    "the answers are deleted and left out": Forgery(
        _leave_out_and_delete_the_answers, {"complete", "answers"}, False
    ),
    "the manifest lists a file of another folder": Forgery(_outside, {"files", "complete"}, False),
    "the manifest has another release id": Forgery(
        _manifest(lambda content: content.update(release_id="0" * 64)), {"release id"}, False
    ),
    "the manifest names another version": Forgery(
        _manifest(lambda content: content.update(marquee="9.9")), {"version"}, False
    ),
    # The promise.
    "epsilon is lowered": Forgery(put(0.1, "guarantee", "epsilon"), {"epsilon", "promise"}),
    "epsilon is raised": Forgery(put(3.0, "guarantee", "epsilon"), {"epsilon", "promise"}),
    "epsilon is lowered everywhere": Forgery(
        edit(lambda content: _promise(content, 0.1)), {"epsilon", "release id"}
    ),
    "delta is lowered": Forgery(put(1e-9, "guarantee", "delta"), {"epsilon", "promise"}),
    "epsilon at another delta is lowered": Forgery(
        put(0.5, "guarantee", "epsilon_at_other_deltas", "1e-09"), {"epsilon"}
    ),
    "the numerical bound is lowered": Forgery(
        put(0.2, "numerical_bound", "epsilon_at_delta", "1e-06"), {"numerical bound"}
    ),
    "the sentence promises more": Forgery(put("Nobody can learn anything.", "guarantee", "promise"), {"promise"}),
    "the neighbours are exchanged": Forgery(put("replace_one_unit", "guarantee", "neighbours"), {"promise"}),
    "another currency": Forgery(
        put("Gaussian DP mu^2", "guarantee", "currency"),
        {"charges", "epsilon", "numerical bound", "promise"}, True, LEDGER_ALSO,
    ),
    "a limit is removed": Forgery(edit(lambda content: content["limits"].pop()), {"limits"}),
    # The charges.
    "an amount is lowered": Forgery(
        edit(lambda content: _amount(content["charges"][0], Fraction(1, 10**6))), {"charges", "sum of charges"}
    ),
    "an amount is rounded as a number": Forgery(put(0.001, "charges", 0, "amount_as_number"), {"charges"}),
    "a charge is dropped": Forgery(edit(_drop_a_charge), {"sum of charges"}),
    "a scale is raised": Forgery(edit(lambda content: _scale(_first_measurement(content), 2)), {"charges"}),
    "a sensitivity is lowered": Forgery(
        edit(lambda content: _first_measurement(content).update(sensitivity="1/2")), {"charges"}
    ),
    "another law of noise": Forgery(
        edit(lambda content: _first_measurement(content).update(law="rounded_gaussian")), {"charges"}
    ),
    "less is reserved": Forgery(
        edit(lambda content: _amount(content["guarantee"]["reserved_in_the_ledger"], Fraction(1, 10**6))),
        {"sum of charges", "epsilon", "numerical bound"}, True, LEDGER_ALSO,
    ),
    # The certificate as a whole.
    "another release's certificate": Forgery(
        put("f" * 64, "release_id"), {"release id"}, True, EVERY_RECORD
    ),
    "another version": Forgery(put("9.9", "versions", "marquee"), {"release id", "version"}),
    "an unknown key": Forgery(put("trust me", "seal"), {"certificate"}, True, UNMENDED),
    "no JSON": Forgery(
        lambda folder: (folder / "certificate.json").write_text("{") and None, {"certificate"}, True, UNMENDED
    ),
    "a key twice": Forgery(
        lambda folder: (folder / "certificate.json").write_text('{"limits": [], "limits": []}') and None,
        {"certificate"}, True, UNMENDED,
    ),
    "another schema": Forgery(
        put(["f", "m"], "schema", "attributes", 0, "values"), {"release id", "schema", "queries", "synthetic rows"}
    ),
    "another bound on rows": Forgery(put(7, "public_facts", "max_rows_per_unit"), {"promise"}),
    "another mechanism": Forgery(put("gaussian", "mechanism", "name"), {"promise"}),
    "another setting of the mechanism": Forgery(put(99, "mechanism", "settings", "rounds"), {"promise"}),
    "another formula": Forgery(put("Each amount is 0.", "formulas", "amounts"), {"promise"}),
    "another confidence": Forgery(put(0.999, "answers", "confidence_of_intervals"), {"promise"}),
    "an amount beyond all doubles": Forgery(
        put("9" * 400, "charges", 0, "amount"), {"charges", "sum of charges", "numerical bound"}
    ),
    "another consumer": Forgery(put("press", "public_facts", "consumer"), {"promise"}, True, LEDGER_ALSO),
    # The tables.
    "an answer outside its interval": Forgery(table("answers.parquet", _outside_its_interval), {"answers"}),
    "an answer that is NaN": Forgery(table("answers.parquet", column("answer", 3, float("nan"))), {"answers"}),
    "an infinite answer": Forgery(table("answers.parquet", column("answer", 3, float("inf"))), {"answers"}),
    "an interval with one end": Forgery(table("answers.parquet", column("upper", 3, 1e9)), {"answers"}),
    "an answer is removed": Forgery(table("answers.parquet", lambda rows: rows.slice(1)), {"answers"}),
    "a column of the answers is renamed": Forgery(
        table("answers.parquet", lambda rows: rows.rename_columns(["q", *rows.column_names[1:]])), {"answers"}
    ),
    "another kind of query": Forgery(table("answers.parquet", column("kind", 0, "guess")), {"answers"}),
    "a row outside the domain": Forgery(table(PART, column("work", 0, "astronaut")), {"synthetic rows"}),
    "a row between two bins": Forgery(table(PART, column("age", 0, 8)), {"synthetic rows"}),
    "a null where none is declared": Forgery(table(PART, column("sex", 0, None)), {"synthetic rows"}),
    "a row is removed": Forgery(table(PART, lambda rows: rows.slice(0, rows.num_rows - 1)), {"synthetic rows"}),
    "a real unit in the rows": Forgery(table(PART, column("person", 0, 4711)), {"synthetic rows"}),
    "a column too many": Forgery(
        table(PART, lambda rows: rows.append_column("name", pa.array(["x"] * rows.num_rows))), {"synthetic rows"}
    ),
    "another number of rows": Forgery(put(1, "synthetic_rows"), {"synthetic rows"}),
    "a model that is none": Forgery(
        lambda folder: (folder / "model.npz").write_bytes(b"PK") and None, {"model"}
    ),
    "a value of an attribute in an answer": Forgery(table("answers.parquet", column("sex", 0, "male")), {"queries"}),
    "a column of an attribute is missing": Forgery(
        table("answers.parquet", lambda rows: rows.drop_columns(["work"])), {"queries"}
    ),
    "schema.json orders values in another way": Forgery(
        reworded(lambda content: content["attributes"][0]["values"].reverse()), {"schema"}
    ),
    "schema.json labels a value that there is not": Forgery(
        reworded(lambda content: content["attributes"][0].update(labels={"x": "X"})), {"schema"}
    ),
    # What is consistent in itself: only the ledger knows better.
    "another label of a value": Forgery(
        reworded(lambda content: content["attributes"][0].update(labels={"male": "women"})), set()
    ),
    "two answers are swapped": Forgery(table("answers.parquet", _swap_answers), {"answers of the model"}),
    "two queries are swapped": Forgery(table("answers.parquet", _swap_queries), {"queries"}),
    "answers and model of twice as many people": Forgery(_another_answers, set()),
    "a synthetic row is changed within the domain": Forgery(table(PART, column("home", 0, None)), set()),
    "sensitivities and scales are doubled": Forgery(edit(_double_noise), set()),
    "a charge is dropped and the sums are mended": Forgery(
        edit(_drop_a_charge_and_mend_the_sum), set(), True, JOURNAL_ALSO
    ),
    "another config, with its own id": Forgery(_another_release, set(), True, EVERY_RECORD),
    "another hash of the journal": Forgery(
        put("0" * 64, "hashes", "kernel_answers", "chain"), set(), True, JOURNAL_ALSO
    ),
    "another time of the charge": Forgery(put("2001-01-01T00:00:00+00:00", "reserved_at"), set(), True, LEDGER_ALSO),
    "another ledger id": Forgery(put("0" * 16, "ledger_id"), set(), True, LEDGER_ALSO),
}  # fmt: skip
