"""Mechanisms with a public table, for runs on data of any domain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpcore.domain import Domain
from dpcore.estimation.public_table import PublicTable
from dpcore.kernel.privacy_terms import PrivacyTerms
from dpcore.kernel.private_statistics import PrivateStatistics
from dpcore.mechanisms.api import Plan, Progress, Release, Traits, silent
from dpcore.mechanisms.clique_tree import CliqueTree
from dpcore.workload import Workload


def table_of(domain: Domain, rows: int = 200) -> PublicTable:
    """A public table that follows from the domain alone: attributes that follow each other."""
    random = np.random.default_rng(rows)
    same = random.integers(0, 1 << 20, (rows, 1))
    own = random.integers(0, 1 << 20, (rows, len(domain.names)))
    return PublicTable(domain, np.where(random.random(own.shape) < 0.5, same, own) % np.array(domain.sizes))


@dataclass(frozen=True)
class Informed:
    """A mechanism that knows a public table of the domain of its workload: the same for neighbouring datasets."""

    mechanism: CliqueTree = field(default=CliqueTree())
    traits: ClassVar[Traits] = CliqueTree.traits

    def plan(self, terms: PrivacyTerms, workload: Workload) -> Plan:
        return self._informed(workload).plan(terms, workload)

    def run(
        self, private: PrivateStatistics, workload: Workload, *, generator: Generator, progress: Progress = silent
    ) -> Release:
        return self._informed(workload).run(private, workload, generator=generator, progress=progress)

    def _informed(self, workload: Workload) -> CliqueTree:
        domain: Domain | None = getattr(workload.queries, "domain", None)
        return self.mechanism if domain is None else self.mechanism.with_public(table_of(domain))
