"""Saved models come back bit for bit; anything else is told apart from one."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpcore.errors import InputError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.answering.serialization import load_model, save_model
from tests.support.graphical_models import random_model
from tests.support.graphs import SHAPES

MODEL = random_model(SHAPES["chain of three-way cliques"], 2, total=730.1)


def saved(model: GraphicalModel) -> bytes:
    file = io.BytesIO()
    save_model(model, file)
    return file.getvalue()


@pytest.mark.parametrize("name", SHAPES)
def test_a_model_comes_back_bit_for_bit(name: str) -> None:
    model = random_model(SHAPES[name], 2, total=0.1)
    again = load_model(io.BytesIO(saved(model)))
    assert (again.tree, again.total) == (model.tree, model.total)
    assert [table.tobytes() for table in again.conditionals] == [table.tobytes() for table in model.conditionals]
    assert saved(again) == saved(model)


def test_bytes_hold_no_time_and_numpy_reads_them_without_pickle() -> None:
    with zipfile.ZipFile(io.BytesIO(saved(MODEL))) as archive:
        assert {one.date_time for one in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    tables = np.load(io.BytesIO(saved(MODEL)), allow_pickle=False)
    assert np.array_equal(tables["node_0"], MODEL.conditionals[0])


def changed(entry: str, change: Callable[[bytes], bytes | None]) -> io.BytesIO:
    """The saved model with one entry changed, or without it."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(MODEL))) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            content = change(old.read(name)) if name == entry else old.read(name)
            if content is not None:
                new.writestr(name, content)
    file.seek(0)
    return file


def header(**fields: Any) -> io.BytesIO:
    def change(content: bytes) -> bytes:
        return json.dumps({**json.loads(content), **fields}).encode()

    return changed("model.json", change)


def table(values: Any) -> io.BytesIO:
    file = io.BytesIO()
    np.save(file, values, allow_pickle=True)
    return changed("node_0.npy", lambda _: file.getvalue())


NODES = json.loads(zipfile.ZipFile(io.BytesIO(saved(MODEL))).read("model.json"))["nodes"]
SHAPE = MODEL.conditionals[0].shape
HALF = np.full(SHAPE, 0.5 / SHAPE[1])
NEGATIVE = np.where(np.arange(SHAPE[1]) == 0, 3.0, -2.0 / (SHAPE[1] - 1)) + 0 * HALF
WRONG: dict[str, tuple[Callable[[], io.BytesIO], str]] = {
    "no archive": (lambda: io.BytesIO(b"not an archive"), "not a model file"),
    "cut short": (lambda: io.BytesIO(saved(MODEL)[:-30]), "not a model file"),
    "a changed byte": (lambda: io.BytesIO(saved(MODEL).replace(b"attributes", b"attributez", 1)), "not a model file"),
    "no header": (lambda: changed("model.json", lambda _: None), "KeyError"),
    "no table": (lambda: changed("node_1.npy", lambda _: None), "KeyError"),
    "a header of text": (lambda: changed("model.json", lambda _: b"model"), "not a header"),
    "a header of a list": (lambda: changed("model.json", lambda _: b"[]"), "not a header"),
    "another version": (lambda: header(version=2), "want .*, 1\\)"),
    "another format": (lambda: header(format="zip"), "format and version"),
    "a total beyond doubles": (lambda: header(total=10**400), "not a header"),
    "a header too deep": (lambda: changed("model.json", lambda _: b"[" * 200_000), "RecursionError"),
    "a total below 0": (lambda: header(total=-1.0), "total is -1.0"),
    "an infinite total": (lambda: header(total=float("inf")), "total is inf"),
    "a total of text": (lambda: header(total="many"), "not a header"),
    "an attribute too few": (lambda: header(attributes=[{"name": "a", "size": 2}]), "unknown attribute 'b'"),
    "an attribute of no value": (lambda: header(attributes=[{"name": "a", "size": 0}]), "has size 0"),
    "a node too few": (lambda: header(nodes=NODES[:-1]), "want every attribute"),
    "a parent that comes later": (lambda: header(nodes=[{**NODES[0], "parent": 3}, *NODES[1:]]), "an earlier parent"),
    "a table of another shape": (lambda: table(np.ones((1, 3))), "want .*<f8"),
    "a table of other numbers": (lambda: table(np.ones(SHAPE, np.float32)), "want .*<f8"),
    "a pickled table": (lambda: table(np.full(SHAPE, None)), "want .*<f8"),
    "a table that is no array": (lambda: changed("node_0.npy", lambda _: b"text, text"), "no array of numpy"),
    "a table cut short": (lambda: changed("node_0.npy", lambda content: content[:-8]), "bytes; want"),
    "halves": (lambda: table(HALF), "numbers that are no probabilities"),
    "a negative chance": (lambda: table(NEGATIVE), "numbers that are no probabilities"),
    "nan": (lambda: table(HALF * np.nan), "numbers that are no probabilities"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_told(name: str) -> None:
    make, told = WRONG[name]
    with pytest.raises(InputError, match=told):
        load_model(make())


def test_a_few_bytes_that_stand_for_many_are_refused() -> None:
    """Compressed zeros, and sizes in the directory of the archive beyond the file, would take any amount of memory."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(MODEL))) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    claims = []
    content = saved(MODEL)
    entry = content.index(b"PK\1\2")  # The first entry of the directory: compressed size at 20, size at 24.
    for offsets in ((20,), (24,), (20, 24)):
        claim = bytearray(content)
        for offset in offsets:
            claim[entry + offset : entry + offset + 4] = (1 << 31).to_bytes(4, "little")
        claims.append(bytes(claim))
    for wrong in (file.getvalue(), *claims):
        with pytest.raises(InputError, match="compressed or cut short|not a model file"):
            load_model(io.BytesIO(wrong))
