"""The graphical model as a Model: answers and rows of the joint table it stands for."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest

from dpcore.domain import BinaryView, Domain
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.estimation.multiplicative_weights.dense import DenseModel
from dpcore.queries import Conjunctions, Marginals, Parities, Product, Products
from tests.support.graphical_models import joint_table, random_model
from tests.support.graphs import SHAPES

MODEL = random_model(SHAPES["chain"], 2, total=730.5)
DENSE = DenseModel(MODEL.domain, MODEL.total * joint_table(MODEL).ravel())
VIEW = BinaryView.one_hot(MODEL.domain)
QUERIES = {
    "marginals": Marginals(
        MODEL.domain, tuple(chain.from_iterable(combinations(MODEL.domain.names, order) for order in range(4)))
    ),
    "conjunctions": Conjunctions(VIEW, np.array([[0, 2], [1, 13], [5, 9]]), np.array([[0, 0], [0, 1], [1, 1]], bool)),
    "parities": Parities(VIEW, np.array([[0, 2, 11], [1, 13, -1], [5, -1, -1]])),
    "products": Products(
        MODEL.domain,
        (
            Product(("a", "d"), (np.array([[1, 1]]), np.tril(np.ones((4, 4), int)))),
            Product(("c",), (np.eye(2, dtype=int),)),
        ),
    ),
}


@pytest.mark.parametrize("kind", QUERIES)
def test_answers_are_those_of_the_joint_table(kind: str) -> None:
    queries = QUERIES[kind]
    assert np.allclose(MODEL.answer(queries), DENSE.answer(queries), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("sizes", [{"a": 2, "z": 3}, {"a": 2, "z": 3, "b": 7}])
@pytest.mark.parametrize("clique", [("z",), ("a", "z")])
def test_marginals_over_other_attributes_are_refused(sizes: dict[str, int], clique: tuple[str, ...]) -> None:
    own = dict(zip(MODEL.domain.names, MODEL.domain.sizes, strict=True))
    with pytest.raises(ConfigError, match="attribute 'z' is not the model's; want those of"):
        MODEL.answer(Marginals(Domain.of({**sizes, "a": own["a"]}), (clique,)))


def test_marginals_over_attributes_of_other_sizes_are_refused() -> None:
    own = dict(zip(MODEL.domain.names, MODEL.domain.sizes, strict=True))
    with pytest.raises(ConfigError, match="attribute 'b' is not the model's; want .* of the same sizes"):
        MODEL.answer(Marginals(Domain.of({**own, "b": own["b"] + 1}), (("a",), ("b",))))


def test_marginals_over_a_larger_domain_are_answered_where_they_name_own_attributes() -> None:
    """Attributes that no clique names may have any size."""
    sizes = zip(MODEL.domain.names, MODEL.domain.sizes, strict=True)
    larger = Domain.of({"first": 9, **dict(sizes), "last": 2})
    cliques = (("a", "b"), ("a", "d"), (), ("c",))
    asked = MODEL.answer(Marginals(larger, cliques))
    np.testing.assert_allclose(asked, DENSE.answer(Marginals(MODEL.domain, cliques)), rtol=1e-10, atol=1e-10)


def test_marginals_over_a_domain_in_another_order_are_refused() -> None:
    """Their cells would come in the order of the model."""
    sizes = dict(zip(MODEL.domain.names, MODEL.domain.sizes, strict=True))
    turned = Domain.of(dict(reversed(sizes.items())))
    with pytest.raises(ConfigError, match="in the order of the model"):
        MODEL.answer(Marginals(turned, (("a", "d"),)))
    alone = Marginals(turned, (("a",), ("d",)))
    assert np.allclose(MODEL.answer(alone), MODEL.answer(Marginals(MODEL.domain, alone.cliques)))


def test_rows_are_closer_to_the_answers_than_samples() -> None:
    units, queries = 2_000, Marginals(MODEL.domain, MODEL.tree.nodes)

    def error(model: GraphicalModel, way: str) -> float:
        codes = getattr(model, way)(units, np.random.default_rng(1)).codes
        cells = [
            np.ravel_multi_index(codes[:, list(model.domain.axes(clique))].T, model.domain.shape(clique))
            for clique in queries.cliques
        ]
        counts = [np.bincount(one, minlength=size) for one, size in zip(cells, queries.sizes, strict=True)]
        return float(np.abs(np.concatenate(counts) - units * model.answer(queries) / model.total).mean())

    assert error(MODEL, "rows") < 1.0
    assert error(MODEL, "sample") > 5 * error(MODEL, "rows")


@pytest.mark.parametrize("units", [0, 1, 13])
def test_there_are_as_many_rows_as_are_asked(units: int) -> None:
    for name in ("no cliques", "disconnected", "attributes of one value", "everything in one clique"):
        model = random_model(SHAPES[name], 2)
        assert model.rows(units, np.random.default_rng(1)).codes.shape == (units, len(model.domain.names))
        assert model.sample(units, np.random.default_rng(1)).codes.shape == (units, len(model.domain.names))
        rounded = model.rounded(units, np.random.default_rng(1))
        assert rounded.rows(np.random.default_rng(1)).codes.shape == (units, len(model.domain.names))


def test_rows_are_dealt_from_the_rounded_tables() -> None:
    model, units = random_model(SHAPES["chain"], 2), 200
    codes = model.rows(units, np.random.default_rng(3)).codes
    rounded = model.rounded(units, np.random.default_rng(3))
    for node, table in zip(model.tree.nodes, rounded.tables, strict=True):
        cells = np.ravel_multi_index(codes[:, list(model.domain.axes(node))].T, model.domain.shape(node))
        assert np.array_equal(np.bincount(cells, minlength=table.size), table.ravel())


def test_a_model_without_attributes_has_rows_without_columns() -> None:
    model = GraphicalModel(JunctionTree.of(Domain.of({}), []), (), 3.0)
    assert model.rows(5, np.random.default_rng(1)).codes.shape == (5, 0)
    assert model.sample(5, np.random.default_rng(1)).codes.shape == (5, 0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"total": -1.0}, "total is -1.0"),
        ({"total": float("nan")}, "total is nan"),
        ({"conditionals": MODEL.conditionals[1:]}, "want one each"),
        ({"conditionals": tuple(table.T for table in MODEL.conditionals)}, "has shape"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change: dict[str, object], told: str) -> None:
    parts = {"tree": MODEL.tree, "conditionals": MODEL.conditionals, "total": MODEL.total, **change}
    with pytest.raises(ValueError, match=told):
        GraphicalModel(**parts)  # type: ignore[arg-type]
