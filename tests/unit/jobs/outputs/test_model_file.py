"""model.npz and baskets.npz: written for two kinds of models, and read only with the layout that they belong to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.errors import InputError, IntegrityError
from dpcore.estimation.multiplicative_weights.dense import DenseModel
from dpcore.estimation.multiplicative_weights.factored import FactoredModel
from dpcore.queries import Conjunctions
from jobs.outputs.model_file import read_baskets, read_model, write_model
from pipelines.attributes import Attribute, Kind
from pipelines.layout import BasketLayout, TableLayout
from pipelines.schema import Schema
from tests.support.graphical_models import random_model
from tests.support.graphs import GraphShape
from tests.unit.dpcore.estimation.baskets.test_basket_model import mixture

LAYOUT = TableLayout(
    "person", Schema(tuple(Attribute(name, Kind.INTEGER, edges=(0, 1, 2, 3), null=False) for name in "abc"))
)


def test_a_model_of_some_attributes_is_read_back(tmp_path: Path) -> None:
    model = random_model(GraphShape(Domain.of({"a": 3, "c": 3}), (("a", "c"),)), 1)
    write_model(tmp_path, model)
    found = read_model(tmp_path, LAYOUT)
    assert found is not None
    assert (found.tree, found.total) == (model.tree, model.total)


def test_other_models_have_no_file(tmp_path: Path) -> None:
    dense = DenseModel(Domain.of({"a": 3}), np.ones(3))
    for model in (None, dense, FactoredModel(dense.domain, (dense,), 3.0)):
        write_model(tmp_path, model)
        assert not list(tmp_path.iterdir())
        assert read_model(tmp_path, LAYOUT) is None


@pytest.mark.parametrize("sizes", [{"a": 2}, {"d": 3}, {"c": 3, "a": 3, "b": 4}])
def test_a_model_of_other_attributes_is_refused(tmp_path: Path, sizes: dict[str, int]) -> None:
    write_model(tmp_path, random_model(GraphShape(Domain.of(sizes), ()), 1))
    with pytest.raises(IntegrityError, match="want the model of this release"):
        read_model(tmp_path, LAYOUT)


def test_baskets_have_no_graphical_model(tmp_path: Path) -> None:
    write_model(tmp_path, random_model(GraphShape(Domain.of({"a": 3}), ()), 1))
    with pytest.raises(IntegrityError, match="want the model of this release"):
        read_model(tmp_path, BasketLayout("user", "item", 3))


def test_a_model_of_baskets_is_a_file_of_its_own(tmp_path: Path) -> None:
    model = mixture()
    write_model(tmp_path, model)
    assert read_model(tmp_path, BasketLayout("user", "item", 300)) is None
    again = read_baskets(tmp_path, BasketLayout("user", "item", 300))
    assert again is not None
    queries = Conjunctions.single_columns(model.view)
    assert np.array_equal(again.answer(queries), model.answer(queries))
    for layout in (LAYOUT, BasketLayout("user", "item", 299)):
        with pytest.raises(IntegrityError, match="has other items than the data"):
            read_baskets(tmp_path, layout)
    (tmp_path / "baskets.npz").write_bytes(b"cut short")
    with pytest.raises(InputError, match="not a model of baskets"):
        read_baskets(tmp_path, BasketLayout("user", "item", 300))
    assert read_baskets(tmp_path / "nowhere", LAYOUT) is None
