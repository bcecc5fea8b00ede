from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.domain import BinaryView, Domain

DOMAIN = Domain.of({"age": 5, "sex": 2, "race": 3})


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"names": ("a", "a"), "sizes": (2, 2)}, r"attributes \['a'\] appear twice"),
        ({"names": ("a",), "sizes": (0,)}, "attribute 'a' has size 0; want >= 1"),
    ],
)
def test_a_bad_domain_names_the_attribute(sizes: dict[str, tuple[object, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Domain(**sizes)  # type: ignore[arg-type]


def test_names_and_sizes_must_pair_up() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Domain(("a", "b"), (2,))


def test_equal_domains_are_one_key() -> None:
    again = Domain(["age", "sex", "race"], [5, 2, 3])  # type: ignore[arg-type]
    assert (again, hash(again)) == (DOMAIN, hash(DOMAIN))
    assert {DOMAIN: 1}[again] == 1
    assert Domain.of({"age": 5, "race": 3, "sex": 2}) != DOMAIN


def test_a_domain_is_a_key_in_another_process_too() -> None:
    """Strings have other hashes there."""
    assert {DOMAIN: 1}  # It is hashed here.
    code = (
        "import pickle, sys; from dpcore.domain import Domain; found = pickle.load(sys.stdin.buffer); "
        "assert {found: 1}[Domain.of({'age': 5, 'sex': 2, 'race': 3})] == 1"
    )
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code], input=pickle.dumps(DOMAIN), env=environment, check=True)


def test_cliques_come_in_the_order_of_the_domain() -> None:
    assert DOMAIN.canonical(("race", "age")) == ("age", "race")
    assert DOMAIN.shape(("race", "age")) == (3, 5)
    assert DOMAIN.axes(("race", "age")) == (2, 0)
    assert DOMAIN.project(("race", "age")) == Domain(("race", "age"), (3, 5))


@pytest.mark.parametrize(
    ("clique", "message"),
    [(("age", "age"), "repeats an attribute"), (("height",), r"unknown attribute 'height'; want one of \['age'")],
)
def test_a_bad_clique_is_refused(clique: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DOMAIN.canonical(clique)


def test_sizes_are_exact_however_large() -> None:
    assert DOMAIN.size() == 30
    assert DOMAIN.size(()) == 1
    assert Domain.of({f"a{i}": 1000 for i in range(40)}).size() == 10**120


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_the_one_hot_view_has_a_group_for_each_attribute(sizes: list[int]) -> None:
    domain = Domain.of({f"a{i}": size for i, size in enumerate(sizes)})
    view = BinaryView.one_hot(domain)
    assert view.columns == sum(sizes)
    assert [stop - start for start, stop in view.groups] == sizes
    assert view.group_of_column().tolist() == [i for i, size in enumerate(sizes) for _ in range(size)]
    found = view.domain
    assert found is not None
    assert found.sizes == domain.sizes
    assert math.prod(found.sizes) == domain.size()


def test_baskets_have_a_group_for_each_item_and_no_attributes() -> None:
    view = BinaryView(4)
    assert np.array_equal(view.group_of_column(), np.arange(4))
    assert view.domain is None


def test_names_of_groups_are_labels_and_change_no_view() -> None:
    assert BinaryView(3, ((0, 1), (1, 3)), ("a", "b")) == BinaryView(3, ((0, 1), (1, 3)))
    assert BinaryView(3, ((0, 1), (1, 3))) != BinaryView(3, ((0, 2), (2, 3)))


@pytest.mark.parametrize(
    ("columns", "groups", "names"),
    [
        (0, (), ()),
        (3, ((0, 2),), ()),
        (3, ((0, 1), (2, 3)), ()),
        (3, ((1, 2), (2, 3)), ()),
        (3, ((0, 1), (1, 3)), ("only one",)),
    ],
)
def test_a_bad_view_is_refused(columns: int, groups: tuple[tuple[int, int], ...], names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"want|must"):
        BinaryView(columns, groups, names)
