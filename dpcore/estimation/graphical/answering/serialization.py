"""A graphical model as one file, a zip archive of a JSON header and numpy arrays; no pickle is written or read."""

from __future__ import annotations

import json
import math
import zipfile
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Domain
from dpcore.errors import InputError
from dpcore.estimation.array_archive import checked_archive, new_archive, read_array, write_array, write_bytes
from dpcore.estimation.graphical.answering.model import GraphicalModel
from dpcore.estimation.graphical.structure.junction_tree import JunctionTree

FORMAT = "marquee graphical model"
VERSION = 1
_HEADER = "model.json"
_MAX_SUM_ERROR = 1e-6  # Largest distance of the sum of a row of probabilities from 1.


def save_model(model: GraphicalModel, file: BinaryIO) -> None:
    """Writes a model to a binary file; equal models give equal bytes.

    numpy can read the tables as well: ``numpy.load(file)["node_0"]``.
    """
    with new_archive(file) as archive:
        write_bytes(archive, _HEADER, json.dumps(_header(model), indent=1, allow_nan=False).encode())
        for node, table in enumerate(model.conditionals):
            write_array(archive, f"node_{node}", table, "<f8")


def load_model(file: BinaryIO) -> GraphicalModel:
    """Reads the model that ``save_model`` wrote, bit for bit.

    Raises: InputError, with the reason, for any other file.
    """
    with checked_archive(file, "model file") as archive:
        return _read_model(archive)


def _header(model: GraphicalModel) -> dict[str, object]:
    """The JSON header: format, version, total, attributes and nodes."""
    tree = model.tree
    nodes = zip(tree.nodes, tree.separators, tree.parents, strict=True)
    return {
        "format": FORMAT,
        "version": VERSION,
        "total": float(model.total),
        "attributes": [{"name": name, "size": model.domain.size((name,))} for name in model.domain.names],
        "nodes": [
            {"separator": separator, "residual": node[len(separator) :], "parent": parent}
            for node, separator, parent in nodes
        ],
    }


def _read_model(archive: zipfile.ZipFile) -> GraphicalModel:
    """The model of an open archive."""
    header = _read_header(archive.read(_HEADER))
    total = header["total"]
    if not (math.isfinite(total) and total >= 0):
        raise InputError(f"model file: total is {total}; want a finite number >= 0")
    tree = _read_tree(header)
    tables = tuple(_read_table(archive, tree, node) for node in range(len(tree.nodes)))
    return GraphicalModel(tree, tables, total)


def _read_header(content: bytes) -> dict[str, Any]:
    """The header with its fields and their types checked."""
    try:
        header = json.loads(content)
        known = (header["format"], header["version"])
        if known != (FORMAT, VERSION):
            raise InputError(f"model file of format and version {known}; want {(FORMAT, VERSION)}")
        return {
            "total": float(header["total"]),
            "attributes": [(str(entry["name"]), int(entry["size"])) for entry in header["attributes"]],
            "nodes": [
                (tuple(entry["separator"]), tuple(entry["residual"]), int(entry["parent"])) for entry in header["nodes"]
            ],
        }
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise InputError(f"model file: {_HEADER} is not a header of {FORMAT!r} ({type(error).__name__})") from error


def _read_tree(header: dict[str, Any]) -> JunctionTree:
    """The junction tree that a checked header describes."""
    names = tuple(name for name, _ in header["attributes"])
    try:
        domain = Domain(names, tuple(size for _, size in header["attributes"]))
        separators, residuals, parents = zip(*header["nodes"], strict=True) if header["nodes"] else ((), (), ())
        nodes = tuple(separator + residual for separator, residual in zip(separators, residuals, strict=True))
        for node in nodes:
            domain.axes(node)
        return JunctionTree(domain, nodes, parents, separators)
    except (ValueError, TypeError) as error:
        raise InputError(f"model file: {error}") from error


def _read_table(archive: zipfile.ZipFile, tree: JunctionTree, node: int) -> NDArray[np.float64]:
    """The conditional of a node; the header of the array is checked before its content is read."""
    names, separator = tree.nodes[node], tree.separators[node]
    shape = (tree.domain.size(separator), tree.domain.size(names[len(separator) :]))
    table_of_node = f"model file: the table of node {names}"
    table = read_array(archive, f"node_{node}", "<f8", table_of_node, shape)
    sums = table.sum(axis=1)
    if not (table >= 0).all() or not ((np.abs(sums - 1) <= _MAX_SUM_ERROR) | (sums == 0)).all():
        raise InputError(
            f"{table_of_node} holds numbers that are no probabilities; want rows that are >= 0 and sum to 1, or to 0"
        )
    return table
