"""Marginals of many cliques that lie in one large node, which share the passes over its table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dpcore.domain import Domain
from dpcore.estimation.graphical.answering.contraction import Table, mask_of, transpose_to
from dpcore.estimation.graphical.answering.restriction import Results
from dpcore.estimation.graphical.inference.axis_runs import summed
from dpcore.estimation.graphical.inference.contraction_plan import NestedPart, nested_parts

_LARGE_NODE: Final = 1 << 16  # Cells; in smaller nodes, a pass over the table costs less than a plan.
_MANY_CLIQUES: Final = 4


def fill_within_nodes(domain: Domain, joints: Sequence[Table], results: Results) -> Results:
    """Adds the marginals of cliques that share a large node with at least three others to results of zeros.

    joints: Joint table of each node.
    results: The result of each clique, by its labels in the order of the domain.

    Returns: The other results, which are still to be filled.
    """
    large = {node: mask_of(joint.labels) for node, joint in enumerate(joints) if joint.values.size >= _LARGE_NODE}
    by_node: dict[int, list[tuple[int, ...]]] = {}
    for labels in results if large else ():
        holder = next((node for node, mask in large.items() if not mask_of(labels) & ~mask), None)
        if labels and holder is not None:
            by_node.setdefault(holder, []).append(labels)
    shared = {node: inside for node, inside in by_node.items() if len(inside) >= _MANY_CLIQUES}
    for node, inside in shared.items():
        names = tuple(domain.names[label] for label in joints[node].labels)
        cliques = [tuple(domain.names[label] for label in labels) for labels in inside]
        _fill(nested_parts(domain, names, cliques), domain, joints[node], results)
    done = {labels for inside in shared.values() for labels in inside}
    return {labels: result for labels, result in results.items() if labels not in done}


def _fill(plan: NestedPart, domain: Domain, table: Table, results: Results) -> None:
    """Adds the tables of all parts of a plan, each summed from the table above it."""
    for part in plan.parts:
        labels = domain.axes(part.clique)
        kept = [label in labels for label in table.labels]
        ordered = tuple(label for label, is_kept in zip(table.labels, kept, strict=True) if is_kept)
        marginal = Table(ordered, summed(table.values, kept))
        if part.is_asked:
            results[labels][...] += transpose_to(marginal, labels)
        _fill(part, domain, marginal, results)
