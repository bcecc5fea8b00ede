"""mbi's part of a case, in the peers' environment: ``python -m tests.benchmarks.graphical.mbi_script FOLDER``.

The script reads FOLDER/task.json and arrays.npz, and writes FOLDER/figures.json: the user and system seconds of each
phase, of this process alone, and the results. It may import nothing but mbi, NumPy and the standard library.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mbi
import numpy as np
from mbi import marginal_oracles
from mbi.clique_vector import CliqueVector
from mbi.estimation import CALLBACK_EVERY, MirrorDescent
from mbi.junction_tree import make_junction_tree

from tests.benchmarks.graphical.gaussian_loss import gaussian_loss


class Clock:
    """CPU seconds since it was last read."""

    def __init__(self) -> None:
        self._last = time.process_time()

    def read(self) -> float:
        before, self._last = self._last, time.process_time()
        return self._last - before


def fit(task: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, float]:
    """Mirror descent on noisy marginals, its compilation first, and rounded rows.

    task: domain {attribute: size}, cliques, stddev, total, iterations, rows.
    arrays: values, those of all cliques one after the other; exact, the same without noise, may be left out.
    """
    domain = mbi.Domain.fromdict(task["domain"])
    cliques = [tuple(clique) for clique in task["cliques"]]
    parts = np.split(arrays["values"], np.cumsum([domain.size(clique) for clique in cliques])[:-1])
    pairs = zip(parts, cliques, strict=True)
    measured = [mbi.LinearMeasurement(part, clique, stddev=task["stddev"]) for part, clique in pairs]
    clock = Clock()
    estimator = MirrorDescent()
    estimator.estimate(domain, measured, known_total=task["total"], iters=CALLBACK_EVERY)
    figures = {f"compile and {CALLBACK_EVERY} iterations, cpu_seconds": clock.read()}
    model = estimator.estimate(domain, measured, known_total=task["total"], iters=task["iterations"])
    found = np.concatenate([np.asarray(model.project(clique).datavector()) for clique in cliques])
    figures["iterations, cpu_seconds"] = clock.read()
    if task["rows"]:
        model.synthetic_data(rows=task["rows"])
        figures["rows, cpu_seconds"] = clock.read()
    if "exact" in arrays:  # Definition 26 of the thesis.
        figures["mean"] = float(np.abs(found - arrays["exact"]).sum()) / (len(cliques) * task["total"])
    return figures | {"loss": gaussian_loss(found, arrays["values"], task["stddev"])}


def tree(task: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, float]:
    """A junction tree and, if task["oracle"], the marginal oracle on it: compiled by its first call, then called again.

    task: domain {attribute: size}, cliques, oracle.
    arrays: theta, the parameters of all cliques one after the other.
    """
    domain = mbi.Domain.fromdict(task["domain"])
    cliques = [tuple(clique) for clique in task["cliques"]]
    clock = Clock()
    make_junction_tree(domain, cliques)
    figures = {"tree, cpu_seconds": clock.read()}
    if not task["oracle"]:
        return figures
    parts = np.split(arrays["theta"], np.cumsum([domain.size(clique) for clique in cliques])[:-1])
    potentials = CliqueVector(
        domain,
        cliques,
        {
            clique: mbi.Factor(domain.project(clique), part.reshape(domain.project(clique).shape))
            for clique, part in zip(cliques, parts, strict=True)
        },
    )
    oracle = marginal_oracles.default_oracle(cliques, domain, has_constraints=False)
    for name in ("oracle with compilation, cpu_seconds", "oracle, cpu_seconds"):
        clock.read()
        found = oracle(potentials, 1.0)
        np.asarray(found[cliques[0]].datavector())
        figures[name] = clock.read()
    return figures


def own_peak_mb() -> float:
    """Peak resident memory of this program alone."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 2**10


def main(folder: Path) -> None:
    task = json.loads((folder / "task.json").read_text())
    with np.load(folder / "arrays.npz") as stored:
        arrays = dict(stored)
    figures = {"fit": fit, "tree": tree}[task["name"]](task, arrays)
    figures["own_peak_rss_mb"] = own_peak_mb()
    (folder / "figures.json").write_text(json.dumps(figures))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
