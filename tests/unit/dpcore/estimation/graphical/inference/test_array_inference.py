"""The oracle of whole arrays: large tables beside the compiled one, other namespaces, and where it finds no GPU."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from dpcore.domain import Domain
from dpcore.errors import ConfigError
from dpcore.estimation.graphical.fitting import fit
from dpcore.estimation.graphical.fitting.fit import Fitting, GraphicalFit, fit_model
from dpcore.estimation.graphical.inference import array_inference
from dpcore.estimation.graphical.inference.array_inference import ArrayInference, gpu_inference
from dpcore.estimation.graphical.inference.belief_propagation import Inference
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree
from dpcore.measurement import Measurement, Noise
from dpcore.queries import Marginals

DOMAIN = Domain.of({"a": 40, "b": 3, "c": 30, "d": 5, "e": 7})
CLIQUES = (("a", "b", "c"), ("c", "d"), ("a", "c", "e"), ("e",), ("a",), ("b", "c"), ("a", "e"))


def cupy_that_finds(count: int | None) -> ModuleType:
    """numpy in the place of cupy. count: GPUs that CUDA finds; None where CUDA itself is missing."""

    def device_count() -> int:
        if count is None:
            raise OSError("no driver")
        return count

    cupy = ModuleType("cupy")
    runtime = SimpleNamespace(getDeviceCount=device_count, CUDARuntimeError=OSError)
    vars(cupy).update(vars(np) | {"cuda": SimpleNamespace(runtime=runtime)})
    return cupy


def gpu(tree: JunctionTree, cliques: Sequence[tuple[str, ...]]) -> ArrayInference:
    pytest.importorskip("cupy", reason="cupy is not installed (marquee[gpu])")
    try:
        return gpu_inference(tree, cliques)
    except ConfigError as error:
        pytest.skip(str(error))


def numpy_arrays(tree: JunctionTree, cliques: Sequence[tuple[str, ...]]) -> ArrayInference:
    return ArrayInference(tree, cliques)


def fitted(device: str) -> GraphicalFit:
    queries = Marginals(DOMAIN, (("b", "d"), ("d", "e")))
    counts = np.random.default_rng(4).uniform(1, 20, (3, 5, 7))
    measured = [
        Measurement(queries.only([clique]), counts.sum(axis=axis).ravel(), Noise.GAUSSIAN, 3.0)
        for clique, axis in zip(queries.cliques, (2, 0), strict=True)
    ]
    return fit_model(DOMAIN, measured, counts.sum(), Fitting(tolerance=1e-12, device=device))  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [numpy_arrays, gpu])
def test_large_tables_as_the_compiled_oracle(make: type[ArrayInference]) -> None:
    tree = JunctionTree.of(DOMAIN, CLIQUES)
    oracle, compiled = make(tree, CLIQUES), Inference(tree, CLIQUES)
    generator = np.random.default_rng(1)
    potentials = generator.normal(0, 3, compiled.queries.size)
    potentials[generator.random(potentials.size) < 0.05] = -np.inf
    wanted = compiled.marginals(potentials)
    assert wanted.max() > 0
    np.testing.assert_allclose(oracle.marginals(potentials), wanted, rtol=1e-10, atol=1e-14)
    assert oracle.log_partition == pytest.approx(compiled.log_partition, rel=1e-13)
    for one, other in zip(oracle.conditionals(potentials), compiled.conditionals(potentials), strict=True):
        assert isinstance(one, np.ndarray)
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-14)


def test_every_array_is_made_and_moved_by_the_namespace() -> None:
    """A namespace whose arrays are its own until `asnumpy`, as those of a GPU are."""

    class Held(np.ndarray[tuple[int, ...], np.dtype[np.float64]]):
        pass

    moved: list[type] = []

    def asnumpy(array: Held) -> object:
        moved.append(type(array))
        return np.asarray(array)

    elsewhere = SimpleNamespace(
        asarray=lambda values: np.asarray(values).view(Held),
        zeros=lambda shape: np.zeros(shape).view(Held),
        asnumpy=asnumpy,
        exp=np.exp, log=np.log, where=np.where, inf=np.inf,
    )  # fmt: skip
    tree = JunctionTree.of(DOMAIN, CLIQUES)
    oracle, plain = ArrayInference(tree, CLIQUES, elsewhere), ArrayInference(tree, CLIQUES)  # type: ignore[arg-type]
    potentials = np.random.default_rng(2).normal(size=plain.queries.size)
    found = oracle.marginals(potentials)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, plain.marginals(potentials))
    assert moved == [Held]
    oracle.conditionals(potentials)
    assert moved == [Held] * (1 + len(tree.nodes))


def test_a_fit_on_the_gpu_takes_its_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever computes: the oracle of `gpu_inference` is asked, and the model is the same."""
    made: list[ArrayInference] = []

    def recorded(tree: JunctionTree, cliques: Sequence[tuple[str, ...]]) -> ArrayInference:
        made.append(gpu_inference(tree, cliques))
        return made[-1]

    monkeypatch.setitem(fit._ORACLES, "gpu", recorded)
    wanted = fitted("cpu")
    assert not made
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ConfigError, match=r"needs cupy; install marquee\[gpu\]"):
        fitted("gpu")
    monkeypatch.setitem(sys.modules, "cupy", cupy_that_finds(1))
    found = fitted("gpu")
    assert len(made) == 1
    for one, other in zip(found.conditionals, wanted.conditionals, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("count", [0, None])
def test_without_a_gpu(count: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy_that_finds(count))
    with pytest.raises(ConfigError, match="want one, or device cpu"):
        gpu_inference(JunctionTree.of(DOMAIN, CLIQUES), CLIQUES)


def test_a_clique_outside_the_tree_is_refused() -> None:
    with pytest.raises(ValueError, match="no node"):
        array_inference.ArrayInference(JunctionTree.of(DOMAIN, []), [("a", "b")])
