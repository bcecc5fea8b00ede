"""The file of a model of baskets: the same model and bytes come back, and other files are refused."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from dpcore.errors import InputError
from dpcore.estimation.baskets.serialization import load_baskets, save_baskets
from dpcore.queries.generation import random_conjunctions
from tests.unit.dpcore.estimation.baskets.test_basket_model import VIEW, mixture


def saved() -> bytes:
    file = io.BytesIO()
    save_baskets(mixture(), file)
    return file.getvalue()


def changed(name: str, array: object, of: bytes | None = None) -> io.BytesIO:
    """The saved model, or the one given, with another array."""
    content, result = zipfile.ZipFile(io.BytesIO(saved() if of is None else of)), io.BytesIO()
    with zipfile.ZipFile(result, "w") as archive:
        for member in content.namelist():
            data = io.BytesIO(content.read(member))
            if member == f"{name}.npy":
                data = io.BytesIO()
                np.lib.format.write_array(data, np.asarray(array), allow_pickle=False)
            archive.writestr(member, data.getvalue())
    return result


def test_a_model_comes_back_bit_for_bit() -> None:
    model, again = mixture(), load_baskets(io.BytesIO(saved()))
    queries = random_conjunctions(VIEW, 40, 3, np.random.default_rng(0), negate=True)
    assert np.array_equal(again.answer(queries), model.answer(queries))
    rows = [one.sample(50, np.random.default_rng(1)) for one in (model, again)]
    assert np.array_equal(rows[0].item, rows[1].item)  # type: ignore[union-attr]
    file = io.BytesIO()
    save_baskets(again, file)
    assert file.getvalue() == saved()


@pytest.mark.parametrize(
    ("name", "array", "wanted"),
    [
        ("version", 2, "want version 1"),
        ("items", 299, "do not fit"),
        ("items", 300.0, "want .*<i8"),
        ("total", -1.0, "do not fit"),
        ("total", float("nan"), "do not fit"),
        ("sizes", np.array([0, 2, 1, 5]), "do not fit"),
        ("sizes", np.array([0, 1, 2, 301]), "do not fit"),
        ("nodes", np.array([-1, 0, 1, 3]), "do not fit"),
        ("nodes", np.array([0, 0, 1, 2]), "do not fit"),
        ("probabilities", np.full(4, 0.3), "do not fit"),
        ("popular", np.array([0, 1, 2, 300]), "do not fit"),
        ("tastes", np.zeros((3, 4)), "do not fit"),
        ("levels", np.zeros(6), "do not fit"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, array: object, wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        load_baskets(changed(name, array))


@pytest.mark.parametrize("content", [b"", b"not a zip", saved()[:-40]])
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(InputError, match="not a model of baskets"):
        load_baskets(io.BytesIO(content))


def test_more_classes_than_a_fit_makes_are_refused() -> None:
    """A model of few bytes must not make a reader allocate classes by items: here 40,000 classes of 300,000 items."""
    model, nodes, items = mixture(), 20_000, 300_000
    arrays = {
        "items": items, "base": np.zeros(items), "logs": np.zeros(nodes), "levels": np.zeros((nodes, 2)),
    }  # fmt: skip
    content = saved()
    for name, array in arrays.items():
        content = changed(name, array, content).getvalue()
    with pytest.raises(InputError, match="do not fit"):
        load_baskets(io.BytesIO(content))
    small = changed("levels", np.zeros((1, 2)), changed("logs", np.zeros(1), content).getvalue()).getvalue()
    small = changed("nodes", np.where(model.law.sizes > 0, 0, -1), small).getvalue()
    assert load_baskets(io.BytesIO(small)).view.columns == items


def test_changed_bytes_give_a_model_or_an_input_error() -> None:
    content, draw, refused = saved(), np.random.default_rng(0), 0
    for _ in range(400):
        wrong = bytearray(content)
        for position in draw.integers(0, len(wrong), draw.integers(1, 4)):
            wrong[position] = draw.integers(0, 256)
        try:
            load_baskets(io.BytesIO(bytes(wrong)))
        except InputError:
            refused += 1
    assert refused > 300
