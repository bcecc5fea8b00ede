"""One release from a config to a published folder, and every way in which it may be interrupted or repeated."""

from __future__ import annotations

import json
import shlex
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dpcore.evaluation import exact_answers
from dpcore.kernel.budget import Currency
from dpcore.kernel.exact_answers import ExactAnswers
from dpcore.kernel.sensitivity import squared_l2_sensitivity
from jobs.ledger import SqlLedger
from jobs.ledger.records import State
from jobs.planning.job import load_job
from jobs.release.run import build_workload, open_statistics
from pipelines.engines.local import LocalEngine
from tests.support.ledgers import past_the_ledger
from tests.support.releases import LEDGER, World, baskets_world, people, table_world


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget()
    return world


@pytest.fixture
def baskets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    world = baskets_world(tmp_path, capsys)
    world.budget(epsilon=20.0)
    return world


def test_a_release_is_published_whole(table: World) -> None:
    code, out, err = table.run()
    assert code == 0, err
    assert out.startswith(f"published: {table.folder / 'out' / 'people'}\n")
    assert "(1, 1e-06)-differential privacy for the units of column 'person' (add_remove_unit)" in out
    files = table.files("out/people")
    names = ["_SUCCESS", "answers.parquet", "certificate.json", "manifest.json", "schema.json"]
    assert list(files) == [f"out/people/{name}" for name in [*names, "synthetic/part-00000.parquet"]]
    answers = pq.read_table(table.folder / "out/people/answers.parquet")
    assert answers.num_rows == build_workload(table.job()).queries.size
    assert answers.column("query")[0].as_py() == "sex=female & work=private"
    assert (table.state(), table.charges()) == (State.PUBLISHED, 1)
    code, out, _ = table.marquee("status", "release.yaml", "--json")
    assert (code, json.loads(out)["state"]) == (0, "published")


def test_an_adaptive_release_has_intervals(table: World) -> None:
    table.set("mechanism", {"name": "aim", "rounds_per_attribute": 2, "max_model_mb": 5e-4, "profile": "published"})
    code, _, err = table.run()
    assert code == 0, err
    answers = pq.read_table(table.folder / "out/people/answers.parquet")
    columns = {name: answers.column(name) for name in ("answer", "stddev", "lower", "upper", "measured")}
    assert columns["stddev"].null_count == answers.num_rows
    assert columns["lower"].null_count == columns["upper"].null_count == 0
    lower, answer, upper = (columns[name].to_numpy() for name in ("lower", "answer", "upper"))
    assert (lower <= answer).all()
    assert (answer <= upper).all()
    assert (upper - lower > 1).any()
    assert not any(columns["measured"].to_pylist())
    queries = build_workload(table.job()).queries
    exact = exact_answers(open_statistics(table.job()), queries)
    assert ((lower <= exact) & (exact <= upper)).mean() > 0.8


def test_the_same_config_twice_gives_the_same_bytes_and_one_charge(table: World) -> None:
    assert table.run()[0] == 0
    table.set("engine", {"name": "local", "options": {"threads": 1}})  # Speed is no part of a release.
    before = table.files()
    code, out, _ = table.run()
    assert (code, out.splitlines()[0]) == (0, f"already published: {table.folder / 'out' / 'people'}")
    assert table.files() == before
    assert table.charges() == 1


def test_a_lost_output_is_written_again_from_the_journal(table: World) -> None:
    assert table.run()[0] == 0
    before = table.files("out/people")
    (table.folder / "out" / "people").rename(table.folder / "gone")
    assert table.run()[0] == 0
    assert table.files("out/people") == before
    assert table.charges() == 1


def test_a_release_published_elsewhere_is_found_there(table: World) -> None:
    assert table.run()[0] == 0
    table.set("output.path", "out/again")
    code, out, _ = table.run()
    assert (code, out.splitlines()[0]) == (0, f"already published: {table.folder / 'out' / 'people'}")
    assert not (table.folder / "out" / "again").exists()


def test_a_delta_below_all_floats_is_a_config_error(table: World) -> None:
    table.set("privacy.delta", 1e-310)
    table.set("mechanism", {"name": "gaussian"})
    code, _, err = table.run()
    assert code == 2
    assert "privacy.delta" in err


def test_the_certificate_names_the_scale_of_every_noise(table: World) -> None:
    assert table.run()[0] == 0
    said = json.loads((table.folder / "out/people/certificate.json").read_text())
    scales = {charge["label"].split()[0]: charge["noise_scale"] for charge in said["charges"]}
    assert set(scales) == {"measure", "select"}
    for charge in said["charges"]:  # rho = 1 / (2 sigma^2) for one marginal, rho = sensitivity^2 / (2 scale^2).
        moved = 1.0 if charge["label"].startswith("measure") else 256.0 * 256.0
        assert moved**2 / (2 * charge["noise_scale"] ** 2) == pytest.approx(charge["amount_as_number"])
    used = Fraction(said["used_by_kernel_calls"]["amount"])
    assert used == sum(Fraction(charge["amount"]) for charge in said["charges"])
    assert used <= Fraction(said["guarantee"]["reserved_in_the_ledger"]["amount"]) == table.job().budget.amount


def test_a_changed_answer_is_an_integrity_error(table: World) -> None:
    assert table.run()[0] == 0
    path = table.folder / "out/people/certificate.json"
    path.write_text(path.read_text().replace("0.0", "0.1", 1))
    code, _, err = table.run()
    assert code == 7
    assert "certificate.json" in err


def test_a_lost_ledger_is_an_integrity_error(table: World) -> None:
    assert table.run()[0] == 0
    (table.folder / "marquee.db").unlink()
    table.budget()
    before = table.files()
    code, _, err = table.run()
    assert code == 7
    assert "ledger" in err
    assert table.files() == before


def test_an_unmarked_folder_is_completed(table: World) -> None:
    assert table.run()[0] == 0
    before = table.files("out/people")
    (table.folder / "out/people/_SUCCESS").unlink()
    assert table.run()[0] == 0
    assert table.files("out/people") == before


def test_the_command_that_a_missing_budget_names_creates_it(table: World) -> None:
    table.set("privacy.ledger", "sqlite:///other ledger.db")
    code, _, err = table.run()
    assert code == 4
    command = shlex.split(err.split("create one with: ")[1])
    assert command[0] == "marquee"
    assert table.marquee(*command[1:])[0] == 0
    assert table.run()[0] == 0


def test_budgets_are_shown_with_their_history(table: World) -> None:
    assert table.run()[0] == 0
    code, out, _ = table.marquee("budget", "show")
    assert code == 0
    assert "people: epsilon 1, delta 1e-06 for units of column 'person' (add_remove_unit, 1 row per unit)" in out
    assert "; spent rho 0.024356 of 0.024356 (epsilon 1 at delta 1e-06)" in out
    code, out, _ = table.marquee("budget", "history", "--dataset", "people")
    assert (code, out.count(table.job().release_id[:12])) == (0, 1)
    assert out.splitlines()[0].endswith("granted to the dataset: epsilon 1, delta 1e-06: created")


def test_a_plan_reads_and_writes_nothing(table: World) -> None:
    for path in (table.folder / "data").iterdir():
        path.unlink()
    (table.folder / "marquee.db").unlink()
    before = table.files()
    code, out, _ = table.marquee("plan", "release.yaml")
    assert code == 0
    assert "rho = 0.024356 of dataset 'people'" in out
    assert "No budget was spent, and no data were read." in out
    code, out, _ = table.marquee("plan", "release.yaml", "--json")
    facts = json.loads(out)
    assert (facts["release_id"], facts["rounds"]) == (table.job().release_id, 3)
    assert table.files() == before


def test_baskets_chosen_by_noisy_popularity(baskets: World) -> None:
    code, _, err = baskets.run()
    assert code == 0, err
    certificate = json.loads((baskets.folder / "out/shop/certificate.json").read_text())
    charges = {charge["label"]: Fraction(charge["amount"]) for charge in certificate["charges"]}
    total = Fraction(certificate["guarantee"]["reserved_in_the_ledger"]["amount"])
    first, second = charges
    assert (first.split()[:2], second.split()[0]) == (["popularity", "measure"], "measure")
    assert float(charges[first] / total) == pytest.approx(0.1)
    assert sum(charges.values()) <= total
    assert float(sum(charges.values()) / total) == pytest.approx(1.0)
    assert not (baskets.folder / "out/shop/synthetic").exists()
    answers = pq.read_table(baskets.folder / "out/shop/answers.parquet").to_pandas()
    job = baskets.job()
    scale = (squared_l2_sensitivity(job.stand_in.queries, job.unit) / float(job.rest.amount)) ** 0.5
    assert job.rest.currency is Currency.GDP
    assert answers.measured.all()
    assert answers.stddev.to_numpy() == pytest.approx(scale)
    assert certificate["charges"][-1]["noise_scale"] == pytest.approx(scale)
    assert certificate["charges"][0]["noise_scale"] > 0
    items = [int(item) for text in answers["query"] for item in text.split(" & ")]
    assert np.mean(np.array(items) < 20) > 0.8, "about 11 of 12 pairs have popular items"


def test_an_evaluation_sees_what_was_released_beside_the_baselines(baskets: World) -> None:
    code, _, err = baskets.marquee("evaluate", "release.yaml")
    assert code == 2
    assert "not published" in err
    assert baskets.run()[0] == 0
    before = baskets.files()
    code, out, _ = baskets.marquee("evaluate", "release.yaml", "--json")
    assert code == 0
    rows = json.loads(out)["rows"]
    assert list(rows) == ["release", "zeros", "uniform", "product"]
    answers = pq.read_table(baskets.folder / "out/shop/answers.parquet").to_pandas()
    shop = pq.read_table(baskets.folder / "data").to_pandas()
    held = [set(items) for _, items in shop.groupby("user")["item"]]
    wanted = [sum({int(item) for item in text.split(" & ")} <= one for one in held) for text in answers["query"]]
    assert rows["zeros"]["max"] == pytest.approx(max(wanted) / 200)
    assert rows["release"]["max"] == pytest.approx(np.abs(answers.answer - wanted).max() / 200)
    assert baskets.files() == before


def test_an_evaluation_reads_synthetic_rows_back(table: World) -> None:
    table.set("workload.marginals.attributes", ["sex", "home", "work"])
    assert table.run()[0] == 0
    code, out, _ = table.marquee("evaluate", "release.yaml")
    assert code == 0
    assert out.startswith("SENSITIVE")
    names = [line.split()[0] for line in out.splitlines()[3:]]
    assert names == ["release", "synthetic", "zeros", "uniform", "product"]
    synthetic = pq.read_table(table.folder / "out/people/synthetic")
    assert synthetic.column_names == ["person", "sex", "work", "home"]
    certificate = json.loads((table.folder / "out/people/certificate.json").read_text())
    assert certificate["synthetic_rows"] == synthetic.num_rows


@pytest.mark.parametrize(("asked", "rows"), [(0, None), (17, 17)])
def test_the_number_of_synthetic_rows_is_that_asked_for(table: World, asked: int, rows: int | None) -> None:
    table.set("output.synthetic_rows", asked)
    assert table.run()[0] == 0
    folder = table.folder / "out/people/synthetic"
    assert (pq.read_table(folder).num_rows if folder.exists() else None) == rows


def test_a_public_number_of_units_is_the_number_of_synthetic_rows(table: World) -> None:
    table.set("privacy.units", 300)
    assert table.run()[0] == 0
    assert pq.read_table(table.folder / "out/people/synthetic").num_rows == 300


def test_only_the_engine_differs_between_two_readings(table: World) -> None:
    job = table.job()
    queries = build_workload(job).queries
    wanted = ExactAnswers(open_statistics(job)).of(queries)
    assert wanted.sum() == 300 * 6
    assert (
        ExactAnswers(open_statistics(job, LocalEngine(threads=1, rows_in_memory=7))).of(queries).tolist()
        == wanted.tolist()
    )
    table.set("engine", {"name": "local", "options": {"threads": 2}})
    assert ExactAnswers(open_statistics(load_job("release.yaml"))).of(queries).tolist() == wanted.tolist()


def test_events_are_json_lines_without_figures_of_the_data(table: World) -> None:
    code, _, err = table.marquee("run", "release.yaml", "--log-format", "json")
    assert code == 0
    events = [event for line in err.splitlines() if (event := json.loads(line))["event"] != "stage"]
    assert [event["event"] for event in events] == ["planned", "reserved", "estimated", "published"]
    known = {"event", "level", "timestamp", "release", "dataset", "state", "currency", "mechanism", "output"}
    assert {key for event in events for key in event} <= known
    assert not any("300" in str(value) for event in events for key, value in event.items() if key != "timestamp")


def test_nothing_published_holds_a_path_a_fingerprint_or_a_salt(table: World) -> None:
    assert table.run()[0] == 0
    drawn = SqlLedger(LEDGER).secrets("people")
    secrets = [str(table.folder).encode(), b"data/", drawn.salt, drawn.fingerprint_key, drawn.salt.hex().encode()]
    ((key,),) = past_the_ledger(LEDGER, "SELECT content_key FROM ledger_info")
    digests = past_the_ledger(LEDGER, "SELECT digest FROM contents")
    secrets += [key, key.hex().encode(), *(digest.encode() for (digest,) in digests)]
    assert len(digests) == 6
    for name, content in table.files("out/people").items():
        assert not any(secret in content for secret in secrets), name


def test_a_large_delta_is_a_warning(table: World) -> None:
    table.budget(name="loose", delta=1e-3)
    table.set("dataset.name", "loose")
    table.set("privacy.delta", 1e-3)
    code, _, err = table.run()
    assert code == 0
    assert "privacy.delta is large" in err


def test_a_pure_release(table: World) -> None:
    table.budget(name="pure", delta=0)
    table.set("dataset.name", "pure")
    table.set("privacy.delta", 0)
    table.set("mechanism", {"name": "laplace"})
    code, out, err = table.run()
    assert code == 0, err
    assert "1-differential privacy" in out
    assert "fits no model" in err


def test_validation_reports_to_the_operator_and_spends_nothing(table: World) -> None:
    before = table.files()
    code, out, _ = table.marquee("validate", "release.yaml")
    assert code == 0
    assert out.startswith("SENSITIVE")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    frame = pq.read_table(table.folder / "data").to_pandas()
    unknown = int((frame["work"] == "astronaut").sum())
    assert rows["work"] == [str(int(frame["work"].isna().sum())), "0", str(unknown), "0"]
    assert table.files() == before


def test_a_broken_claim_is_found_by_validation_and_survived_by_a_release(table: World) -> None:
    table.set("dataset.clustered_by_unit", True)
    pq.write_table(people(0, 5, np.random.default_rng(3)), table.folder / "data" / "part-9.parquet")
    code, out, err = table.marquee("validate", "release.yaml")
    assert code == 3
    assert out.startswith("SENSITIVE")
    assert "clustered_by_unit" in err
    assert table.run()[0] == 0
