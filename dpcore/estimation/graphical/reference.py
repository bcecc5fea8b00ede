"""Exact inference in a graphical model, as short as possible: start reading the package here.

A graphical model over attributes x is a product of factors, one for each clique c of a set of cliques:

    p(x) = exp(sum over cliques c of theta_c(x_c)) / Z.

The theta_c are the *log-potentials* and ln Z is the *log-partition*. The *marginal* of a clique is the sum of p over
all attributes outside the clique. The number of records x grows exponentially with the number of attributes, so this
file does not sum over them; it takes the same three steps as the package:

1. ``maximal_cliques`` triangulates the graph in which the attributes of each clique are adjacent: it eliminates the
   attributes one by one and joins the neighbours of each. The maximal cliques that appear are the *nodes* of a junction
   tree; every clique of the model lies inside one of them.
2. ``junction_tree`` links the nodes by a spanning tree whose *separators*, the attributes that two linked nodes share,
   are as large as possible. Then the nodes that contain any one attribute are connected: the running intersection
   property.
3. ``clique_marginals`` runs belief propagation: sum-product messages from the leaves to the root, then back to the
   leaves. Afterwards the table of each node is its own marginal, up to the factor Z.

The package adds a greedy choice of the elimination order (``structure``), compiled loops over strides (``inference``),
and answers in bounded memory to marginals that no node contains (``answering``). The tests use this file, which shares
no code with the rest of the package, as an oracle.

Source: Lauritzen and Spiegelhalter (1988); Koller and Friedman (2009), sections 10.2 to 10.4.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcore.domain import Clique, Domain

Table = NDArray[np.float64]
Node = frozenset[int]  # Attributes of a node, by position in the domain.


def maximal_cliques(cliques: Iterable[Collection[int]], order: Sequence[int]) -> list[Node]:
    """Returns the maximal cliques of the triangulation that eliminates the attributes in the given order.

    cliques: The cliques of the model, as positions of attributes; each ends up inside some node.
    order: Every attribute once. The order decides how large the nodes become; the marginals do not depend on it.
    """
    neighbours = {axis: {axis} for axis in order}  # Each attribute counts as its own neighbour.
    for clique in cliques:
        for axis in clique:
            neighbours[axis].update(clique)
    eliminated = []
    for axis in order:
        node = frozenset(neighbours.pop(axis))
        for neighbour in node - {axis}:
            neighbours[neighbour] = neighbours[neighbour] - {axis} | node - {axis}
        eliminated.append(node)
    return [node for node in eliminated if not any(node < larger for larger in eliminated)] or [frozenset()]


def junction_tree(nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """Returns (child, parent) links of a maximum spanning tree over the sizes of separators, parents first.

    nodes: Maximal cliques of a triangulated graph. The first one is the root. Nodes of different connected components
        are linked by an empty separator.

    Source: Koller and Friedman (2009), section 10.4.2; the spanning tree is found by Prim's algorithm.
    """
    links: list[tuple[int, int]] = []
    linked, unlinked = [0], set(range(1, len(nodes)))
    while unlinked:
        pairs = itertools.product(sorted(unlinked), linked)
        child, parent = max(pairs, key=lambda pair: len(nodes[pair[0]] & nodes[pair[1]]))
        links.append((child, parent))
        linked.append(child)
        unlinked.remove(child)
    return links


def clique_marginals(
    domain: Domain, potentials: Sequence[tuple[Clique, Table]], order: Sequence[str]
) -> tuple[list[Table], float]:
    """Returns the marginal of each clique that has a potential, and the log-partition ln Z.

    domain: The attributes and their sizes; at most 64 attributes, the largest number of axes of a numpy array.
    potentials: Cliques with their log-potentials theta_c, float64 of shape ``domain.shape(clique)``, with attributes in
        the order of the domain. The value -inf excludes a cell (a structural zero).
    order: Names of all attributes, in the order of their elimination.

    Each marginal is float64 with the shape of its potential and sums to 1. If the potentials exclude every record, all
    marginals are 0 and ln Z is -inf.

    Inside this function every table has one axis for each attribute of the domain, of length 1 if the table does not
    depend on the attribute. A product of factors is then a broadcast sum of their logarithms.
    """
    cliques = [frozenset(domain.axes(clique)) for clique, _ in potentials]
    nodes = maximal_cliques(cliques, domain.axes(order))
    links = junction_tree(nodes)
    homes = [next(index for index, node in enumerate(nodes) if clique <= node) for clique in cliques]

    beliefs = [np.zeros([size if axis in node else 1 for axis, size in enumerate(domain.sizes)]) for node in nodes]
    for clique, home, (_, table) in zip(cliques, homes, potentials, strict=True):
        shape = [size if axis in clique else 1 for axis, size in enumerate(domain.sizes)]
        beliefs[home] = beliefs[home] + table.reshape(shape)

    messages: dict[int, Table] = {}
    for child, parent in reversed(links):  # Leaves to root.
        messages[child] = _log_sum(beliefs[child], nodes[child] & nodes[parent])
        beliefs[parent] = beliefs[parent] + messages[child]
    for child, parent in links:  # Root to leaves: the parent's belief, divided by the message from the child itself.
        message = _log_sum(beliefs[parent], nodes[child] & nodes[parent])
        # A cell that the child excludes has the belief -inf on both sides: nothing is divided there.
        beliefs[child] = beliefs[child] + message - np.where(messages[child] > -np.inf, messages[child], 0.0)

    log_partition = _log_sum(beliefs[0], frozenset()).item()
    scale = log_partition if log_partition > -np.inf else 0.0
    tables = [np.exp(_log_sum(beliefs[home], clique) - scale) for clique, home in zip(cliques, homes, strict=True)]
    return [table.reshape(values.shape) for table, (_, values) in zip(tables, potentials, strict=True)], log_partition


def _log_sum(logs: Table, kept: Node) -> Table:
    """Returns the logarithm of the sum of exp(logs) over all axes but the kept ones, which stay as axes of length 1."""
    axes = tuple(axis for axis in range(logs.ndim) if axis not in kept)
    return np.asarray(np.logaddexp.reduce(logs, axis=axes, keepdims=True))
