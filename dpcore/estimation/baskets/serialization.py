"""A model of baskets as one file, a zip archive of numpy arrays; no pickle is written or read."""

from __future__ import annotations

from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import BinaryView
from dpcore.errors import InputError
from dpcore.estimation.array_archive import checked_archive, new_archive, read_array, write_array
from dpcore.estimation.baskets.basket_model import BasketMixture
from dpcore.estimation.baskets.mixture import Parameters
from dpcore.estimation.baskets.nodes import max_nodes
from dpcore.estimation.baskets.size_law import SizeLaw

VERSION: Final = 1
_WHAT: Final = "model of baskets"
_LARGEST_FILE: Final = 1 << 30
_MAX_SUM_ERROR: Final = 1e-6
_WHOLE, _REAL = "<i8", "<f8"
_KINDS: Final = {
    "version": _WHOLE, "items": _WHOLE, "total": _REAL, "sizes": _WHOLE, "probabilities": _REAL, "nodes": _WHOLE,
    "logs": _REAL, "popular": _WHOLE, "base": _REAL, "levels": _REAL, "tilts": _REAL, "tastes": _REAL,
    "shares": _REAL, "share_tilts": _REAL,
}  # fmt: skip


def save_baskets(model: BasketMixture, file: BinaryIO) -> None:
    """Writes a model to a binary file; equal models give equal bytes."""
    own = model.parameters
    arrays = {
        "version": VERSION, "items": model.view.columns, "total": model.total, "sizes": model.law.sizes,
        "probabilities": model.law.probabilities, "nodes": model.nodes, "logs": model.logs, "popular": model.popular,
        "base": model.base, "levels": model.levels, "tilts": own.tilts, "tastes": own.tastes, "shares": own.shares,
        "share_tilts": own.share_tilts,
    }  # fmt: skip
    with new_archive(file) as archive:
        for name, kind in _KINDS.items():
            write_array(archive, name, arrays[name], kind)


def load_baskets(file: BinaryIO) -> BasketMixture:
    """Reads the model that ``save_baskets`` wrote, bit for bit.

    Raises: InputError, with the reason, for any other file.
    """
    with checked_archive(file, _WHAT, _LARGEST_FILE) as archive:
        arrays = {name: read_array(archive, name, kind, f"{_WHAT}: {name}") for name, kind in _KINDS.items()}
    if arrays["version"].shape != () or int(arrays["version"]) != VERSION:
        raise InputError(f"a model of baskets of another version; want version {VERSION}")
    if not _is_consistent(arrays):
        raise InputError("arrays of a model of baskets do not fit each other; want the file of a release")
    parameters = Parameters(
        arrays["base"][arrays["popular"]], arrays["tilts"], arrays["tastes"], arrays["shares"], arrays["share_tilts"]
    )
    return BasketMixture(
        BinaryView(int(arrays["items"])),
        float(arrays["total"]),
        SizeLaw(arrays["sizes"], arrays["probabilities"]),
        arrays["nodes"],
        arrays["logs"],
        arrays["popular"],
        parameters,
        arrays["base"],
        arrays["levels"],
    )


def _is_consistent(arrays: dict[str, NDArray[Any]]) -> bool:
    """Whether shapes agree, numbers are finite, every index exists, and the classes are as few as a fit makes them."""
    if any(not np.isfinite(array).all() for array in arrays.values()):
        return False
    if arrays["items"].shape or arrays["total"].shape or arrays["levels"].ndim != 2:
        return False
    items, (nodes, tastes), popular = int(arrays["items"]), arrays["levels"].shape, arrays["popular"].size
    shapes = {
        "probabilities": arrays["sizes"].shape, "nodes": (arrays["sizes"].size,), "logs": (nodes,),
        "popular": (popular,), "base": (items,), "tilts": (popular,), "tastes": (tastes, popular),
        "shares": (tastes,), "share_tilts": (tastes,),
    }  # fmt: skip
    if min(items, nodes, tastes, arrays["sizes"].size) < 1 or float(arrays["total"]) < 0:
        return False
    if nodes > max_nodes(items, tastes):  # Rows and answers have arrays of classes by items.
        return False
    if any(arrays[name].shape != shape for name, shape in shapes.items()):
        return False
    sizes, node, p = arrays["sizes"], arrays["nodes"], arrays["probabilities"]
    ascending = all((np.diff(arrays[name]) > 0).all() for name in ("sizes", "popular"))
    inside = sizes.min() >= 0 and sizes.max() <= items and (popular == 0 or _within(arrays["popular"], 0, items - 1))
    fits = bool(((node >= 0) == (sizes > 0)).all()) and _within(node, -1, nodes - 1)
    return ascending and bool(inside) and fits and bool(p.min() > 0) and abs(float(p.sum()) - 1) < _MAX_SUM_ERROR


def _within(values: NDArray[Any], low: int, high: int) -> bool:
    return bool(low <= values.min() and values.max() <= high)
