"""A release stores its graphical model, from which more rows are drawn without the data."""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.answering.serialization import load_model
from dpcore.estimation.multiplicative_weights import factored
from dpcore.estimation.multiplicative_weights.factored import FactoredModel
from dpcore.mechanisms.api import Release
from dpcore.mechanisms.mwem.mwem import Mwem
from dpcore.mechanisms.shared.pgm_common import CELLS_IN_MB
from dpcore.queries import Marginals
from jobs.config import EngineChoice
from jobs.planning.engines import open_row_workers
from pipelines.generate.parallel_rows import RowWorkers
from tests.support import engines
from tests.support.graphical_models import random_model
from tests.support.graphs import GraphShape
from tests.support.releases import World, baskets_world, table_world


def model_of(release: Release) -> GraphicalModel:
    domain = release.workload.queries.domain  # type: ignore[union-attr]
    return random_model(GraphShape(domain, (("sex", "work"), ("work", "age"))), 1, total=90.0)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    """Releases of mwem whose model is a graphical one."""
    monkeypatch.chdir(tmp_path)
    run = Mwem.run

    def with_graphical_model(self: Mwem, *arguments: Any, **named: Any) -> Release:
        release = run(self, *arguments, **named)
        return dataclasses.replace(release, model=model_of(release))

    monkeypatch.setattr(Mwem, "run", with_graphical_model)
    world = table_world(tmp_path, capsys)
    world.budget()
    assert world.run()[0] == 0
    return world


def test_the_model_is_a_file_of_the_release(table: World) -> None:
    output = table.folder / "out/people"
    assert "model.npz" in [one["path"] for one in json.loads((output / "manifest.json").read_text())["files"]]
    model = load_model(io.BytesIO((output / "model.npz").read_bytes()))
    assert (model.total, model.domain.names) == (90.0, ("sex", "work", "age", "home"))
    rows = pq.read_table(output / "synthetic")
    assert rows.num_rows == 90


def test_more_rows_come_without_the_data_and_without_a_charge(table: World) -> None:
    shutil.rmtree(table.folder / "data")
    code, out, err = table.marquee("generate", "rows", "release.yaml", "more", "--rows", "1250000")
    assert (code, out) == (0, "Wrote 1,250,000 rows to more/ (2 files).\n"), err
    rows = pq.read_table(table.folder / "more")
    assert rows.num_rows == 1_250_000
    assert np.array_equal(rows.column("person").to_numpy(), np.arange(1_250_000))
    model = load_model(io.BytesIO((table.folder / "out/people/model.npz").read_bytes()))
    women = float(np.mean(rows.column("sex").to_numpy() == "female"))
    assert women == pytest.approx(one_way(model, "sex")[0], abs=2 / 1_250_000)
    assert table.charges() == 1


def test_more_rows_need_the_model_and_no_answers(table: World) -> None:
    """What is not read may be missing; what is read may neither be missing nor changed."""
    output = table.folder / "out/people"
    (output / "answers.parquet").unlink()
    shutil.rmtree(output / "synthetic")
    code, out, err = table.marquee("generate", "rows", "release.yaml", "more", "--rows", "7", "--json")
    assert code == 0, err
    assert json.loads(out) == {"folder": "more", "files": 1, "rows": 7}
    for name in ("certificate.json", "model.npz"):
        content = (output / name).read_bytes()
        (output / name).unlink()
        code, _, err = table.marquee("generate", "rows", "release.yaml", "again", "--rows", "7")
        assert (code, f"{name} is missing or differs" in err) == (7, True)
        (output / name).write_bytes(content)


def one_way(model: GraphicalModel, name: str) -> list[float]:
    answers = model.answer(Marginals(model.domain, ((name,),)))
    return (answers / model.total).tolist()


def test_rows_are_a_function_of_their_seed(table: World) -> None:
    def content(folder: str, seed: int) -> list[bytes]:
        assert table.marquee("generate", "rows", "release.yaml", folder, "--rows", "50", "--seed", str(seed))[0] == 0
        return [path.read_bytes() for path in sorted((table.folder / folder).iterdir())]

    first = content("first", 1)
    assert content("again", 1) == first
    assert content("other", 2) != first


def test_the_engine_of_more_rows_can_be_chosen(table: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another engine than the config's has no options; few rows are drawn here on every engine, with the same bytes."""
    asked: list[tuple[EngineChoice, int]] = []

    def opened(choice: EngineChoice, rows: int) -> RowWorkers:
        asked.append((choice, rows))
        return open_row_workers(choice, rows)

    monkeypatch.setattr("jobs.release.more_rows.open_row_workers", opened)
    table.set("engine", {"name": "local", "options": {"threads": 2}})
    for folder, *option in (("own",), ("named", "--engine", "local"), ("spark", "--engine", "spark")):
        code, _, err = table.marquee("generate", "rows", "release.yaml", folder, "--rows", "200000", *option)
        assert code == 0, err
    own = EngineChoice(name="local", options={"threads": 2})
    assert asked == [(own, 200_000), (own, 200_000), (EngineChoice(name="spark"), 200_000)]
    first, *others = [
        (table.folder / folder / "part-00000.parquet").read_bytes() for folder in ("own", "named", "spark")
    ]
    assert others == [first, first]


@pytest.mark.spark
def test_more_rows_on_spark_are_those_of_the_driver(table: World, monkeypatch: pytest.MonkeyPatch) -> None:
    engines.spark_engine()
    monkeypatch.setattr("jobs.planning.engines.FEW_ROWS", 1)
    monkeypatch.setattr("pipelines.generate.rows.FEW_UNITS", 100)
    for engine in ("local", "spark"):
        code, _, err = table.marquee("generate", "rows", "release.yaml", engine, "--rows", "5000", "--engine", engine)
        assert code == 0, err
    contents = [(table.folder / engine / "part-00000.parquet").read_bytes() for engine in ("local", "spark")]
    assert contents[0] == contents[1]


def test_wrong_requests_are_config_errors(table: World) -> None:
    wrong = {
        ("more", "--rows", "0"): "rows is 0",
        ("more", "--rows", "5", "--seed", "-1"): "seed is -1",
        ("out/people", "--rows", "5"): "is not an empty folder",
        ("data", "--rows", "5"): "is inside the folder of the data",
    }
    for arguments, told in wrong.items():
        code, _, err = table.marquee("generate", "rows", "release.yaml", *arguments)
        assert (code, told in err) == (2, True), err


def test_a_changed_model_is_an_integrity_error(table: World) -> None:
    path = table.folder / "out/people/model.npz"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    code, _, err = table.marquee("generate", "rows", "release.yaml", "more", "--rows", "5")
    assert (code, "model.npz" in err) == (7, True)


def test_baskets_of_any_number_come_from_the_model_of_baskets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    world = baskets_world(tmp_path, capsys)
    world.config["mechanism"] = {"name": "basket_mixture"}
    world.save()
    world.budget(epsilon=20.0)
    code, _, err = world.run()
    assert code == 0, err
    for units in (70, 250_000):
        code, _, err = world.marquee("generate", "rows", "release.yaml", f"more-{units}", "--rows", str(units))
        assert code == 0, err
        rows = pq.read_table(tmp_path / f"more-{units}")
        assert rows.column_names == ["user", "item"]
        assert rows["user"].to_numpy().max() < units
        assert 0 <= rows["item"].to_numpy().min() <= rows["item"].to_numpy().max() < 40
    assert len(list((tmp_path / "more-250000").iterdir())) == 3


def test_a_release_without_a_graphical_model_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget()
    code, _, err = world.marquee("generate", "rows", "release.yaml", "more", "--rows", "5")
    assert (code, "is not published" in err) == (2, True)
    assert world.run()[0] == 0
    assert not (tmp_path / "out/people/model.npz").exists()
    code, _, err = world.marquee("generate", "rows", "release.yaml", "more", "--rows", "5")
    assert (code, "has no model.npz" in err) == (2, True)
    assert not (tmp_path / "more").exists()


def test_a_product_of_tables_has_rows_and_no_model_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Like a dense table, a product of tables gives rows of all attributes but has no model to draw more from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(factored, "LARGEST_WHOLE", 1)
    released: list[Release] = []
    run = Mwem.run

    def kept(self: Mwem, *arguments: Any, **named: Any) -> Release:
        released.append(run(self, *arguments, **named))
        return released[-1]

    monkeypatch.setattr(Mwem, "run", kept)
    world = table_world(tmp_path, capsys)
    world.set("mechanism.max_table_mb", 12 / CELLS_IN_MB)
    world.set("output.synthetic_rows", 20_000)
    world.budget()
    code, _, err = world.run()
    assert code == 0, err
    (release,) = released
    model = release.model
    assert isinstance(model, FactoredModel)
    assert len(model.groups) > 1
    rows = pq.read_table(tmp_path / "out/people/synthetic")
    assert rows.num_rows == 20_000
    assert rows.column_names == ["person", "sex", "work", "age", "home"]
    women = float(np.mean(np.array(rows.column("sex").to_pylist()) == "female"))
    assert women == pytest.approx(float(model.answer(Marginals(model.domain, (("sex",),)))[0] / model.total), abs=0.02)
    answers = pq.read_table(tmp_path / "out/people/answers.parquet")
    assert np.array_equal(answers["answer"].to_numpy(), release.answers.values)
    assert not (tmp_path / "out/people/model.npz").exists()
    code, _, err = world.marquee("generate", "rows", "release.yaml", "more", "--rows", "5")
    assert (code, "has no model.npz" in err) == (2, True)
    assert world.run()[0] == 0
    assert len(released) == 1


def test_another_number_of_rows_is_the_same_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Attack "rows charged again": another synthetic_rows made another release, and a second charge for free rows."""
    monkeypatch.chdir(tmp_path)
    world = table_world(tmp_path, capsys)
    world.budget(epsilon=2.0)
    assert world.run()[0] == 0
    before = world.files("out/people")
    world.set("output.synthetic_rows", 12_345)
    code, out, _ = world.run()
    assert (code, world.charges(), world.files("out/people")) == (0, 1, before)
    assert "already published" in out
    assert "draw 12,345 at no cost with: marquee generate rows CONFIG FOLDER --rows 12345" in out
    world.set("output.synthetic_rows", 0)
    assert "at no cost" not in world.run()[1]
